"""`redraft jobs rescore`: evaluate the answers of a job again; it generates none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output, sessions
from redraft.cli.jobs import rubrics

if TYPE_CHECKING:
    from redraft.domain.jobs.requests import RescoreAnswers, RescoreJob
    from redraft.operations.jobs.resources import Job

EPILOG = options.examples(
    "redraft jobs rescore latest --evaluator-model anthropic:claude-haiku-5-5 --wait",
    "redraft jobs rescore 0199a3 --rubric rubric.json --iteration 1 --iteration 3",
    "redraft jobs rescore 0199a3 --crit 'Names the city.' --no-rubric",
)


def rescore(  # noqa: PLR0913 - one parameter per option
    *,
    job: options.JobRef,
    iteration: Annotated[
        list[int] | None, typer.Option(help="Only this iteration; may be given again. Without it: all.")
    ] = None,
    evaluator_model: options.EvaluatorModel = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The way to evaluate. A rubric goes with `criteria` only: another profile drops the one from before.",
        ),
    ] = None,
    eval_crit: options.Criteria = None,
    rubric: options.Rubric = None,
    no_rubric: Annotated[
        bool, typer.Option("--no-rubric", help="Drop the earlier rubric and evaluate by --crit alone.")
    ] = False,
    panel: options.Panel = None,
    samples: options.Samples = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the verdicts as they come, and the new job.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate the answers of an ended job again, in a new job. Options that are not given keep their values.

    The new job's id goes to stdout, with --wait its page.
    """
    if panel and evaluator_model:
        raise typer.BadParameter("A panel replaces the single evaluator: give one of the two.", param_hint="--panel")
    if rubric and no_rubric:
        raise typer.BadParameter("Give a rubric or drop it.", param_hint="--no-rubric")
    body = {
        "iterations": iteration or None,
        "evaluator_model": evaluator_model,
        "profile": profile,
        "eval_crit": eval_crit,
        "rubric": rubrics.rubric_file(rubric),
    }
    evaluation = {"panel": panel or None, "samples": samples}
    raise typer.Exit(_rescore(job, body, evaluation, Manner(wait=wait, as_json=as_json, drops_rubric=no_rubric)))


@dataclass(frozen=True, slots=True)
class Manner:
    """Whether the command waits, what it prints, and whether the earlier rubric still applies."""

    wait: bool
    as_json: bool
    drops_rubric: bool


def _rescore(job: str, body: Mapping[str, Any], evaluation: Mapping[str, Any], manner: Manner) -> int:
    from redraft.cli.views.outcomes import print_detached
    from redraft.cli.views.waiting import Wait, wait_for
    from redraft.domain.jobs.requests import RescoreJob
    from redraft.operations.evaluation import rescore
    from redraft.operations.jobs import queries, references, submit

    with sessions.opened() as services:
        before = queries.get_job(services, references.find_job_id(services, job))
        wanted = {
            name: value for name, value in {**body, **_evaluation(before, evaluation)}.items() if value is not None
        }
        change = sessions.check(RescoreJob, wanted)
        request = rescore.request_for(services, before.id, change, drops_rubric=manner.drops_rubric)
        submit.normalise(services, request)  # Report a wrong request before starting a broker and a worker

        def begin() -> tuple[str, int]:
            new = submit.submit(services, request).job
            for words in [*_unsaid(before, change, request), *(each["message"] for each in new.warnings)]:
                output.say(f"Note: {words}", "dim")
            return new.id, 0

        if not manner.wait:
            print_detached(services, begin()[0], as_json=manner.as_json)
            return 0
        waiting = Wait(request.score_threshold, request.limits.deadline_s, as_json=manner.as_json, as_page=True)
        return wait_for(services, begin, waiting)


def _unsaid(before: "Job", change: "RescoreJob", request: "RescoreAnswers") -> Iterator[str]:
    """What becomes of a rubric that one may not think of."""
    if change.rubric is not None:
        return
    if change.eval_crit and request.rubric:
        yield "The earlier rubric stays and is evaluated line by line; --no-rubric drops it, --rubric replaces it."
    if change.profile and before.request.get("rubric") and not request.rubric:
        yield f"The rubric from before is dropped: profile {change.profile} brings its own criteria."


def _evaluation(before: "Job", given: Mapping[str, Any]) -> dict[str, Any]:
    """The earlier evaluation options with the new ones; an audit belongs to the loop."""
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        return {}
    return {"evaluation": {**before.request.get("evaluation", {}), "audit": None, **named}}
