"""The commands `redraft jobs …`, which list, show, watch, cancel, continue and delete jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from redraft.cli import options, output, sessions
from redraft.cli.backends import opening
from redraft.cli.jobs import iterations, ratings, rescoring
from redraft.domain.jobs.states import JobKind, JobStatus, Outcome, StopReason

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend
    from redraft.domain.jobs.requests import ContinueJob
    from redraft.operations.jobs.resources import Job
    from redraft.storage.jobs.job_filters import JobFilter

app = options.Group("List, show, cancel, continue and delete jobs. The default command is `list`.")

Statuses = Annotated[
    list[JobStatus] | None,
    typer.Option("--status", metavar="|".join(JobStatus), help="Only jobs with this status; repeatable."),
]
Outcomes = Annotated[
    list[Outcome] | None,
    typer.Option("--outcome", metavar="|".join(Outcome), help="Only jobs with this outcome; repeatable."),
]
Stopped = Annotated[
    StopReason | None,
    typer.Option(
        "--stop-reason", metavar="REASON", help=f"Only jobs that ended for this reason: {', '.join(StopReason)}."
    ),
]
Kind = Annotated[
    Literal["generate", "evaluate", "rescore", "generate_answer", "evaluate_answer", "rescore_answers"] | None,
    typer.Option(metavar="generate|evaluate|rescore", help="Only jobs of this kind."),
]


@app.add("list", "redraft jobs list --status failed --limit 50", "redraft jobs list --meta team=docs")
def list_jobs(  # noqa: PLR0913 - one parameter per option
    *,
    status: Statuses = None,
    outcome: Outcomes = None,
    stop_reason: Stopped = None,
    kind: Kind = None,
    model: options.FirstModel = None,
    meta: options.WithMeta = None,
    limit: options.Limit = 20,
    after: options.After = None,
    as_json: options.AsJson = False,
) -> None:
    """List jobs, newest first."""
    from redraft.cli.views.job_pages import show_jobs
    from redraft.cli.views.waiting import job_data
    from redraft.storage.jobs.job_filters import JobFilter

    wanted = replace(_filter(status, outcome, stop_reason, kind, model, meta), limit=limit)
    with opening.opened() as backend:
        jobs, cursor = backend.list_jobs(wanted, after)
        if as_json:
            output.write_json({"data": [job_data(job) for job in jobs], "next_cursor": cursor})
        elif jobs:
            show_jobs(jobs)
        elif wanted != JobFilter(limit=limit) and backend.list_jobs(JobFilter(limit=1))[0]:
            output.say("No job matches these filters. To list all jobs: redraft jobs list")
        else:
            output.say("No jobs yet. Try: redraft ask 'Explain recursion to a child.'")
    if cursor and not as_json:
        filters = {"status": status, "outcome": outcome, "stop_reason": stop_reason}
        output.say_more("redraft jobs list", cursor, **filters, kind=kind, model=model, meta=meta)


def _filter(
    statuses: Sequence[JobStatus] | None,
    outcomes: Sequence[Outcome] | None,
    stop_reason: StopReason | None,
    kind: str | None,
    model: str | None,
    meta: list[str] | None,
) -> "JobFilter":
    from redraft.domain.calls.model_names import parse_model
    from redraft.storage.jobs.job_filters import JobFilter

    return JobFilter(
        statuses=tuple(statuses or ()),
        outcomes=tuple(outcomes or ()),
        stop_reason=stop_reason,
        kind=kind and next(each for each in JobKind if each.startswith(kind)),
        model=model and str(parse_model(model)),
        metadata=options.metadata_of(meta),
    )


@app.add("export", "redraft jobs export > jobs.jsonl", "redraft jobs export --status failed --meta team=docs")
def export(
    *,
    status: Statuses = None,
    outcome: Outcomes = None,
    stop_reason: Stopped = None,
    kind: Kind = None,
    model: options.FirstModel = None,
    meta: options.WithMeta = None,
) -> None:
    """Print jobs as JSON lines, newest first. Their iterations are not included."""
    with opening.opened() as backend:
        output.write_lines(backend.export_jobs(_filter(status, outcome, stop_reason, kind, model, meta)))


@app.add("show", "redraft jobs show latest", "redraft jobs show 0199a3 --json")
def show(*, job: options.JobRef = "latest", as_json: options.AsJson = False) -> None:
    """Show a job with its iterations, evaluations and result."""
    from redraft.cli.views.job_pages import show_job, took
    from redraft.cli.views.waiting import job_data

    with opening.opened_for("job", job) as (backend, job_id):
        if as_json:
            output.write_json(job_data(backend.get_job(job_id, with_iterations=True)))
            return
        found = backend.get_job(job_id)
        times = backend.times(job_id)
        answers = backend.iterations(job_id)
        continued = backend.continuations(job_id)
    show_job(found, answers, took(found, *times), continued)


@app.add("watch", "redraft jobs watch latest", "redraft jobs watch latest > answer.txt")
def watch(
    *, job: options.JobRef = "latest", as_json: options.AsJson = False, require_accept: options.RequireAccept = False
) -> None:
    """Watch a job until it ends, and print the answer on stdout. Ctrl-C does not cancel the job."""
    from redraft.cli.views.waiting import Wait, show_ended, wait_for

    with opening.opened_for("job", job) as (backend, job_id):
        found = backend.get_job(job_id)
        wait = Wait(
            threshold=found.progress.score_threshold,
            cancels=False,
            as_json=as_json,
            must_be_accepted=require_accept,
            audit=_audit_of(found),
        )
        if found.progress.step is not None:
            raise typer.Exit(wait_for(backend, lambda: (job_id, 0), wait))
        raise typer.Exit(show_ended(backend, job_id, wait))


@app.add("cancel")
def cancel(*, job: options.JobRef, as_json: options.AsJson = False) -> None:
    """Cancel a job. Its answers are kept, and it can be continued."""
    from redraft.cli.views.waiting import job_data

    with opening.opened_for("job", job) as (backend, job_id):
        status, is_new = backend.cancel_job(job_id)
        if as_json:
            output.write_json(job_data(backend.get_job(job_id)))
    output.say(f"Canceled {job_id}." if is_new else f"{job_id} had already ended: {status}.")


@app.add(
    "continue",
    "redraft jobs continue latest --iter-max 2 --guidance 'Name the sources.'",
    "redraft jobs continue latest --model anthropic:claude-haiku-5-5 --threshold 0.9",
    "redraft jobs continue latest --evaluator-reasoning-effort high",
)
@options.with_evaluator_sampling
def continue_job(  # noqa: PLR0913 - one parameter per option
    *,
    given: Mapping[str, Any],
    job: options.JobRef,
    iter_max: Annotated[int | None, typer.Option(help="Maximum number of further iterations, 1 to 10.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Minimum score for acceptance, 0 to 1.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL", help="Model that generates answers; repeatable, as in `redraft ask`."),
    ] = None,
    evaluator_model: Annotated[str | None, typer.Option(metavar="MODEL", help="Model that evaluates answers.")] = None,
    guidance: options.Guidance = None,
    deadline: Annotated[float | None, typer.Option(help="Time limit of the continuation, in seconds.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help="Maximum number of tokens of the whole job, including the tokens used so far.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Maximum cost of the whole job in USD, including the cost so far.")
    ] = None,
    as_json: options.AsJson = False,
    detach: options.Detach = False,
    require_accept: options.RequireAccept = False,
) -> None:
    """Continue a job that has ended, from its best answer.

    No earlier model call is repeated. Options that are not given keep the values of the job.
    """
    from redraft.domain.jobs.requests import ContinueJob
    from redraft.domain.jobs.states import ensure_can_continue

    limits = {"deadline_s": deadline, "max_tokens": max_tokens, "max_cost_usd": max_cost}
    body = {
        "iter_max": iter_max,
        "score_threshold": threshold,
        "model": options.ladder(model),
        "evaluator_model": evaluator_model,
        "guidance": guidance,
        "evaluator_sampling": options.evaluator_sampling(given),
        "limits": {name: value for name, value in limits.items() if value is not None} or None,
    }
    change = sessions.check(ContinueJob, {name: value for name, value in body.items() if value is not None})
    with opening.opened_for("job", job) as (backend, job_id):
        before = backend.get_job(job_id)
        ensure_can_continue(before.kind, before.status, job_id)  # An error must come before a broker and a worker start
        if detach:
            backend.continue_job(job_id, change)
            opening.print_detached(backend, "job", job_id, as_json=as_json)
            return
        raise typer.Exit(_continue(backend, before, change, as_json=as_json, require_accept=require_accept))


def _continue(backend: "Backend", before: "Job", change: "ContinueJob", *, as_json: bool, require_accept: bool) -> int:
    from redraft.cli.views.following import last_event
    from redraft.cli.views.waiting import Wait, wait_for

    def begin() -> tuple[str, int]:
        # This comes first, so that no event of the continuation is missed
        after = last_event(backend, before.id)
        backend.continue_job(before.id, change)
        return before.id, after

    deadline_s = before.request["limits"]["deadline_s"]
    if change.limits and "deadline_s" in change.limits.model_fields_set:
        deadline_s = change.limits.deadline_s
    threshold = before.progress.score_threshold if change.score_threshold is None else change.score_threshold
    return wait_for(
        backend,
        begin,
        Wait(threshold, deadline_s, as_json=as_json, must_be_accepted=require_accept, audit=_audit_of(before)),
    )


def _audit_of(job: "Job") -> str | None:
    """Return the independent evaluator of a job. Requests of older versions have no `evaluation`."""
    return job.request.get("evaluation", {}).get("audit")


@app.add("calls", "redraft jobs calls latest", "redraft jobs calls latest --full 0199a3")
def calls(
    *,
    job: options.JobRef = "latest",
    full: Annotated[
        str | None,
        typer.Option(metavar="CALL_ID", help="Print the complete request and response of this call as JSON."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the model calls of a job, with tokens, cost and latency."""
    from redraft.cli.views.job_pages import show_calls

    with opening.opened_for("job", job) as (backend, job_id):
        ledger = backend.list_calls(job_id)
        if full:
            call_id = sessions.pick([call.id for call in ledger], full, "call")
            output.write_json(backend.get_call(job_id, call_id))
        elif as_json:
            output.write_json({"data": ledger})
        elif ledger:
            show_calls(ledger)
        else:
            output.say("This job has made no calls yet.")


@app.add("webhooks", "redraft jobs webhooks latest --redeliver 0199a3")
def webhooks(
    *,
    job: options.JobRef = "latest",
    redeliver: options.Redeliver = None,
    all_failed: Annotated[
        bool, typer.Option("--all-failed", help="Send all failed deliveries of all jobs and runs again now.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the webhook deliveries of a job, or repeat deliveries."""
    from redraft.cli.views.job_pages import resend_failed, show_deliveries

    if all_failed:
        with opening.opened() as backend:
            resend_failed(backend, as_json=as_json)
        return
    with opening.opened_for("job", job) as (backend, job_id):
        show_deliveries(backend, "job", job_id, redeliver, as_json=as_json)


app.command("diff", epilog=iterations.DIFF_EPILOG)(iterations.show_diff)
app.command("criteria", epilog=iterations.CRITERIA_EPILOG)(iterations.show_criteria)
app.command("rescore", epilog=rescoring.EPILOG)(rescoring.rescore)
app.command("rate", epilog=ratings.RATE_EPILOG)(ratings.rate)
app.command("ratings", epilog=ratings.RATINGS_EPILOG)(ratings.list_ratings)


@app.add("delete")
def delete(*, job: options.JobRef, as_json: options.AsJson = False) -> None:
    """Delete a job that has ended, with all its data. The command asks for no confirmation."""
    with opening.opened_for("job", job) as (backend, job_id):
        backend.delete_job(job_id)
    output.say_deleted(job_id, as_json=as_json)
