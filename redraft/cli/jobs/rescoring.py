"""`redraft jobs rescore`: evaluates the answers of a job again."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output, sessions

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
        list[int] | None, typer.Option(help="Iteration whose answers are evaluated; repeatable (default: all).")
    ] = None,
    evaluator_model: options.EvaluatorModel = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Evaluation profile. Only `criteria` has a rubric: another profile drops the earlier rubric.",
        ),
    ] = None,
    eval_crit: options.Criteria = None,
    rubric: options.Rubric = None,
    no_rubric: Annotated[
        bool, typer.Option("--no-rubric", help="Drop the earlier rubric and evaluate by --crit alone.")
    ] = False,
    panel: options.Panel = None,
    samples: options.Samples = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the verdicts, and show the new job.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Evaluate the answers of an ended job again, in a new job. Without an option, the earlier value holds.

    Prints the id of the new job; with --wait, everything about it.
    """
    from redraft.cli.views.waiting import Wait, wait_for
    from redraft.domain.jobs.requests import RescoreJob
    from redraft.operations.evaluation import rescore
    from redraft.operations.jobs import queries, submit

    if panel and evaluator_model:
        raise typer.BadParameter(
            "A panel replaces the single evaluator: give only one of the two options.", param_hint="--panel"
        )
    if rubric and no_rubric:
        raise typer.BadParameter("Give only one of --rubric and --no-rubric.", param_hint="--no-rubric")
    body = {
        "iterations": iteration,
        "evaluator_model": evaluator_model,
        "profile": profile,
        "eval_crit": eval_crit,
        "rubric": options.rubric_of(rubric),
    }
    with sessions.opened_for("job", job) as (services, job_id):
        before = queries.get_job(services, job_id)
        evaluation = _evaluation(before, {"panel": panel, "samples": samples})
        given = {name: value for name, value in {**body, **evaluation}.items() if value is not None}
        change = sessions.check(RescoreJob, given)
        request = rescore.request_for(services, before.id, change, drops_rubric=no_rubric)
        submit.normalise(services, request)  # Report a wrong request before starting a broker and a worker

        def begin() -> tuple[str, int]:
            new = submit.submit(services, request).job
            for words in [*_dropped(before, change, request), *(each["message"] for each in new.warnings)]:
                output.say(f"Note: {words}", "dim")
            return new.id, 0

        if wait:
            waiting = Wait(request.score_threshold, request.limits.deadline_s, as_json=as_json, as_page=True)
            raise typer.Exit(wait_for(services, begin, waiting))
        sessions.print_detached(services, "job", begin()[0], as_json=as_json)


def _dropped(before: "Job", change: "RescoreJob", request: "RescoreAnswers") -> Iterator[str]:
    """Say whether the earlier rubric still applies, where the options do not."""
    if change.rubric is not None:
        return
    if change.eval_crit and request.rubric:
        yield "The earlier rubric still applies, criterion by criterion; --no-rubric drops it, --rubric replaces it."
    if change.profile and before.request.get("rubric") and not request.rubric:
        yield f"The earlier rubric is dropped: profile {change.profile} has its own criteria."


def _evaluation(before: "Job", given: Mapping[str, Any]) -> dict[str, Any]:
    """The earlier evaluation options with the new ones; an audit belongs to the loop."""
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        return {}
    return {"evaluation": {**before.request.get("evaluation", {}), "audit": None, **named}}
