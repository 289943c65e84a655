"""`redraft jobs rescore`: judge the answers of a job anew, without writing any."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, rubrics, sessions

if TYPE_CHECKING:
    from redraft.operations.resources import Job

EPILOG = options.examples(
    "redraft jobs rescore latest --evaluator-model anthropic:claude-haiku-5-5 --wait",
    "redraft jobs rescore 0199a3 --rubric rubric.json --iteration 1 --iteration 3",
)


def rescore(  # noqa: PLR0913 - one parameter per option
    *,
    job: options.JobRef,
    iteration: Annotated[
        list[int] | None, typer.Option(help="Only this iteration; may be given again. Without it: all.")
    ] = None,
    evaluator_model: options.EvaluatorModel = None,
    profile: options.Profile = None,
    eval_crit: options.Criteria = None,
    rubric: options.Rubric = None,
    panel: options.Panel = None,
    samples: options.Samples = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the verdicts as they come, and the new job.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Judge the answers of a job that has ended anew, in a job of its own; what is not given stays as it was.

    The new job's id goes to stdout, with --wait its page.
    """
    if panel and evaluator_model:
        raise typer.BadParameter("A panel stands for the one judge: give one of the two.", param_hint="--panel")
    body = {
        "iterations": iteration or None,
        "evaluator_model": evaluator_model,
        "profile": profile,
        "eval_crit": eval_crit,
        "rubric": rubrics.rubric_file(rubric),
    }
    judging = {"panel": panel or None, "samples": samples}
    raise typer.Exit(_rescore(job, body, judging, wait=wait, as_json=as_json))


def _rescore(job: str, body: Mapping[str, Any], judging: Mapping[str, Any], *, wait: bool, as_json: bool) -> int:
    from redraft.cli.detached import tell_detached
    from redraft.cli.waiting import Wait, wait_for
    from redraft.domain.requests import RescoreJob
    from redraft.operations import reading, rescore, submit

    with sessions.opened() as services:
        before = reading.get_job(services, sessions.find_job(services, job))
        wanted = {name: value for name, value in {**body, **_judging(before, judging)}.items() if value is not None}
        request = rescore.request_for(services, before.id, sessions.check(RescoreJob, wanted))
        submit.normalise(services, request)  # what is wrong is said before anything is started

        def begin() -> tuple[str, int]:
            return submit.submit(services, request).job.id, 0

        if not wait:
            tell_detached(services, begin()[0], as_json=as_json)
            return 0
        manner = Wait(request.score_threshold, request.limits.deadline_s, as_json=as_json, as_page=True)
        return wait_for(services, begin, manner)


def _judging(before: "Job", given: Mapping[str, Any]) -> dict[str, Any]:
    """How it was judged before, with what is given now; an audit belongs to the loop."""
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        return {}
    return {"evaluation": {**before.request.get("evaluation", {}), "audit": None, **named}}
