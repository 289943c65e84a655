"""The command `redraft jobs rescore`, which evaluates the answers of a job again."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output, sessions
from redraft.cli.backends import opening

if TYPE_CHECKING:
    from redraft.domain.jobs.requests import RescoreJob
    from redraft.operations.jobs.resources import Job

EPILOG = options.examples(
    "redraft jobs rescore latest --evaluator-model anthropic:claude-haiku-5-5 --wait",
    "redraft jobs rescore 0199a3 --rubric rubric.json --iteration 1 --iteration 3",
    "redraft jobs rescore latest --evaluator-reasoning-effort high --evaluator-temperature 0",
    "redraft jobs rescore 0199a3 --crit 'Names the city.' --no-rubric",
)


@options.with_evaluator_sampling
def rescore(  # noqa: PLR0913 - one parameter per option
    *,
    given: Mapping[str, Any],
    job: options.JobRef,
    iteration: Annotated[
        list[int] | None,
        typer.Option(help="Number of an iteration whose answers are evaluated; repeatable (default: all)."),
    ] = None,
    evaluator_model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model that evaluates the answers, as provider:name.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Evaluation profile. A profile other than `criteria` drops the rubric of the job.",
        ),
    ] = None,
    eval_crit: Annotated[
        str | None, typer.Option("--crit", "--eval-crit", help="Evaluation criteria, in words.")
    ] = None,
    rubric: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with a rubric, that is, a JSON list of criteria.")
    ] = None,
    no_rubric: Annotated[
        bool, typer.Option("--no-rubric", help="Drop the rubric of the job, and evaluate by --crit alone.")
    ] = False,
    panel: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", help="Model of a panel of evaluators; repeatable.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Number of times that each evaluator scores an answer, 1 to 10. The mean score counts."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the new job has ended, and show it.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Create a job that evaluates the answers of an ended job again.

    The command prints the id of the new job. For options that are not given, the values of the old job apply.
    """
    from redraft.cli.views.waiting import Wait, wait_for
    from redraft.domain.jobs.requests import RescoreJob

    if panel and evaluator_model:
        raise typer.BadParameter(
            "A panel replaces the single evaluator. Give only one of --panel and --evaluator-model.",
            param_hint="--panel",
        )
    if rubric and no_rubric:
        raise typer.BadParameter("Give only one of --rubric and --no-rubric.", param_hint="--no-rubric")
    body = {
        "iterations": iteration,
        "evaluator_model": evaluator_model,
        "profile": profile,
        "eval_crit": eval_crit,
        "rubric": options.rubric_of(rubric),
        "evaluator_sampling": options.evaluator_sampling(given),
    }
    with opening.opened_for("job", job) as (backend, job_id):
        before = backend.get_job(job_id)
        evaluation = _evaluation(before, {"panel": panel, "samples": samples})
        fields = {name: value for name, value in {**body, **evaluation}.items() if value is not None}
        change = sessions.check(RescoreJob, fields)
        # An error must come before a broker and a worker start
        submitted = backend.prepare_rescore(job_id, change, drops_rubric=no_rubric)

        def begin() -> tuple[str, int]:
            new = submitted()
            for words in [*_dropped(before, change, new), *(each.message for each in new.warnings)]:
                output.say(f"Note: {words}", "dim")
            return new.id, 0

        if wait:
            deadline_s = before.request["limits"]["deadline_s"]
            waiting = Wait(before.progress.score_threshold, deadline_s, as_json=as_json, as_page=True)
            raise typer.Exit(wait_for(backend, begin, waiting))
        opening.print_detached(backend, "job", begin()[0], as_json=as_json)


def _dropped(before: "Job", change: "RescoreJob", new: "Job") -> Iterator[str]:
    """Yield notes that say whether the rubric of the job still applies, if no option decides it."""
    if change.rubric is not None:
        return
    if change.eval_crit and new.request.get("rubric"):
        yield "The rubric of the job still applies. --no-rubric drops it, and --rubric replaces it."
    if change.profile and before.request.get("rubric") and not new.request.get("rubric"):
        yield f"The rubric of the job is dropped, because profile {change.profile} has its own criteria."


def _evaluation(before: "Job", given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job's evaluation options, overridden by the given options. An audit needs a loop, so it is dropped."""
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        return {}
    return {"evaluation": {**before.request.get("evaluation", {}), "audit": None, **named}}
