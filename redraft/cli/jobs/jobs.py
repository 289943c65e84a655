"""`redraft jobs …`: list, show, watch, cancel, continue and delete jobs."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.cli.jobs import ratings, rescoring
from redraft.cli.jobs.criteria import EPILOG as CRITERIA_EPILOG
from redraft.cli.jobs.criteria import show_criteria
from redraft.cli.jobs.diffs import EPILOG as DIFF_EPILOG
from redraft.cli.jobs.diffs import show_diff

if TYPE_CHECKING:
    from redraft.operations.services import Services
    from redraft.storage.jobs.jobs import JobFilter

app = typer.Typer(
    help="Show, cancel, continue or delete jobs. Without a command: list them.",
    rich_markup_mode=None,
    invoke_without_command=True,
)

Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", help="queued, running, succeeded, failed or canceled; repeatable."),
]
Kind = Annotated[str | None, typer.Option(help="generate, evaluate or rescore (also generate_answer …).")]


@app.callback()
def main(ctx: typer.Context) -> None:
    """List the jobs when no command is named."""
    if ctx.invoked_subcommand is None:
        list_jobs()


@app.command(
    "list",
    epilog=options.examples("redraft jobs list --status failed --limit 50", "redraft jobs list --meta team=docs"),
)
def list_jobs(  # noqa: PLR0913 - one parameter per option
    *,
    status: Statuses = None,
    stop_reason: options.StopReason = None,
    kind: Kind = None,
    model: options.FirstModel = None,
    meta: options.Meta = None,
    limit: options.Limit = 20,
    after: options.After = None,
    as_json: options.AsJson = False,
) -> None:
    """List jobs, the newest first."""
    from redraft.cli.views.job_pages import show_jobs
    from redraft.cli.views.outcomes import job_data
    from redraft.operations.jobs import queries

    criteria = replace(_filter(status, stop_reason, kind, model, meta), limit=limit)
    with sessions.opened() as services:
        jobs, cursor = queries.list_jobs(services, criteria, after)
        if as_json:
            output.write_json({"data": [job_data(job) for job in jobs], "next_cursor": cursor})
        elif jobs:
            show_jobs(jobs)
        else:
            _print_none(criteria, services)
    if cursor and not as_json:
        output.say(f"There are more: redraft jobs list --after {cursor}", "dim")


def _filter(
    statuses: list[str] | None, stop_reason: str | None, kind: str | None, model: str | None, meta: list[str] | None
) -> "JobFilter":
    """The filter that the options describe."""
    from redraft.storage.jobs.jobs import JobFilter

    return JobFilter(
        statuses=tuple(_known("--status", each, "JobStatus") for each in statuses or ()),
        stop_reason=stop_reason and _known("--stop-reason", stop_reason, "StopReason"),
        kind=kind and _known("--kind", _KINDS.get(kind, kind), "JobKind"),
        model=model and _full_name(model),
        metadata=options.pairs(meta) or None,
    )


# The list of jobs shows the short names
_KINDS = {"generate": "generate_answer", "evaluate": "evaluate_answer", "rescore": "rescore_answers"}


def _known(option: str, text: str, enum_name: str) -> str:
    from redraft.domain.jobs import states

    members = [member.value for member in getattr(states, enum_name)]
    if text not in members:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(members)}.", param_hint=option)
    return text


def _full_name(model: str) -> str:
    from redraft.domain.calls.models import parse_model

    return str(parse_model(model))


def _print_none(criteria: "JobFilter", services: "Services") -> None:
    from redraft.operations.jobs import queries
    from redraft.storage.jobs.jobs import JobFilter

    has_any = criteria != JobFilter(limit=criteria.limit) and queries.list_jobs(services, JobFilter(limit=1))[0]
    if has_any:
        output.say("No job fits these filters. All of them: redraft jobs list")
    else:
        output.say("No jobs yet. Try: redraft ask 'Explain recursion to a child.'")


@app.command(
    "export",
    epilog=options.examples("redraft jobs export > jobs.jsonl", "redraft jobs export --status failed --meta team=docs"),
)
def export(
    *,
    status: Statuses = None,
    stop_reason: options.StopReason = None,
    kind: Kind = None,
    model: options.FirstModel = None,
    meta: options.Meta = None,
) -> None:
    """Print jobs as JSON lines, newest first. Iterations are left out."""
    from redraft.operations.jobs import job_lists

    criteria = _filter(status, stop_reason, kind, model, meta)
    with sessions.opened() as services:
        output.write_lines(job_lists.export_matching(services, criteria))


@app.command("show", epilog=options.examples("redraft jobs show latest", "redraft jobs show 0199a3 --json"))
def show(*, job: options.JobRef = "latest", as_json: options.AsJson = False) -> None:
    """Show a job with its iterations, verdicts and result."""
    from redraft.cli.views.job_pages import show_job, took
    from redraft.cli.views.outcomes import job_data
    from redraft.operations.jobs import queries, references, views

    with sessions.opened() as services:
        job_id = references.find_job_id(services, job)
        if as_json:
            output.write_json(job_data(queries.get_job(services, job_id, with_iterations=True)))
            return
        view = views.view_calls(services, job_id)
        iterations = queries.list_iterations(services, job_id)
        continued = views.view_request(services, job_id).continued
    show_job(view.job, iterations, took(view), continued)


@app.command("watch", epilog=options.examples("redraft jobs watch latest", "redraft jobs watch latest > answer.txt"))
def watch(
    *, job: options.JobRef = "latest", as_json: options.AsJson = False, require_accept: options.RequireAccept = False
) -> None:
    """Watch a job until it ends; the answer goes to stdout. Ctrl-C leaves the job alone."""
    from redraft.cli.views.waiting import Wait, show_ended, wait_for
    from redraft.operations.jobs import queries, references

    with sessions.opened() as services:
        job_id = references.find_job_id(services, job)
        found = queries.get_job(services, job_id)
        wait = Wait(
            threshold=found.progress.score_threshold,
            cancels=False,
            as_json=as_json,
            must_be_accepted=require_accept,
            audit=found.request.get("evaluation", {}).get("audit"),
        )
        if found.finished_at is None:
            raise typer.Exit(wait_for(services, lambda: (job_id, 0), wait))
        raise typer.Exit(show_ended(services, job_id, wait))


@app.command("cancel")
def cancel(*, job: options.JobRef, as_json: options.AsJson = False) -> None:
    """Cancel a job now. Its answers so far are kept, and it can be continued."""
    from redraft.cli.views.outcomes import job_data
    from redraft.operations.jobs import lifecycle, queries, references

    with sessions.opened() as services:
        job_id = references.find_job_id(services, job)
        record, is_new = lifecycle.cancel(services, job_id)
        if as_json:
            output.write_json(job_data(queries.get_job(services, job_id)))
    words = f"Canceled {job_id}." if is_new else f"{job_id} had ended before: {record.status}."
    output.say(words)


@app.command(
    "continue",
    epilog=options.examples(
        "redraft jobs continue latest --iter-max 2 --guidance 'Name the sources.'",
        "redraft jobs continue latest --model anthropic:claude-haiku-5-5 --threshold 0.9",
    ),
)
def continue_job(  # noqa: PLR0913 - one parameter per option
    *,
    job: options.JobRef,
    iter_max: Annotated[int | None, typer.Option(help="Maximum number of further iterations, 1 to 10.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Accept at this score or above, 0 to 1.")] = None,
    model: Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Generator; repeat it for a ladder.")] = None,
    evaluator_model: Annotated[str | None, typer.Option(metavar="MODEL", help="Evaluator.")] = None,
    guidance: options.Guidance = None,
    deadline: Annotated[float | None, typer.Option(help="Time limit from now on, in seconds.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Budget of tokens for the whole job.")] = None,
    max_cost: Annotated[float | None, typer.Option(help="Budget in USD for the whole job.")] = None,
    as_json: options.AsJson = False,
    detach: options.Detach = False,
    require_accept: options.RequireAccept = False,
) -> None:
    """Continue a job that has ended from its best answer. No call is paid twice.

    Options that are not given keep their earlier values.
    """
    from redraft.cli.jobs import continuing
    from redraft.cli.jobs.continuing import Manner

    limits = {"deadline_s": deadline, "max_tokens": max_tokens, "max_cost_usd": max_cost}
    body = {
        "iter_max": iter_max,
        "score_threshold": threshold,
        "model": options.ladder(model),
        "evaluator_model": evaluator_model,
        "guidance": guidance,
        "limits": {name: value for name, value in limits.items() if value is not None} or None,
    }
    manner = Manner(as_json=as_json, detach=detach, require_accept=require_accept)
    raise typer.Exit(continuing.go_on(job, body, manner))


@app.command("calls", epilog=options.examples("redraft jobs calls latest", "redraft jobs calls latest --full 0199a3"))
def calls(
    *,
    job: options.JobRef = "latest",
    full: Annotated[
        str | None, typer.Option(metavar="CALL_ID", help="Print this call whole, request and response, as JSON.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List a job's calls to models, with tokens, cost and latency."""
    from redraft.cli.views.job_pages import show_calls
    from redraft.operations.jobs import queries, references

    with sessions.opened() as services:
        job_id = references.find_job_id(services, job)
        ledger = queries.list_calls(services, job_id)
        if full:
            call_id = sessions.pick([call.id for call in ledger], full, "call")
            call = queries.get_call(services, job_id, call_id, full=True)
            output.write_json(call.model_dump(mode="json"))
        elif as_json:
            output.write_json({"data": [call.model_dump(mode="json") for call in ledger]})
        elif ledger:
            show_calls(ledger)
        else:
            output.say("This job has made no calls yet.")


@app.command("webhooks", epilog=options.examples("redraft jobs webhooks latest --redeliver 0199a3"))
def webhooks(
    *,
    job: options.JobRef = "latest",
    redeliver: options.Redeliver = None,
    as_json: options.AsJson = False,
) -> None:
    """List the webhook deliveries of a job, or send one again."""
    from redraft.cli.views.deliveries import show_deliveries
    from redraft.operations.jobs import references

    with sessions.opened() as services:
        show_deliveries(services, references.find_job_id(services, job), redeliver, as_json=as_json)


app.command("diff", epilog=DIFF_EPILOG)(show_diff)
app.command("criteria", epilog=CRITERIA_EPILOG)(show_criteria)
app.command("rescore", epilog=rescoring.EPILOG)(rescoring.rescore)
app.command("rate", epilog=ratings.RATE_EPILOG)(ratings.rate)
app.command("ratings", epilog=ratings.RATINGS_EPILOG)(ratings.list_ratings)


@app.command("delete")
def delete(*, job: options.JobRef, as_json: options.AsJson = False) -> None:
    """Delete a job that has ended with all its data. There is no prompt."""
    from redraft.operations.jobs import lifecycle, references

    with sessions.opened() as services:
        job_id = references.find_job_id(services, job)
        lifecycle.delete(services, job_id)
    output.say_deleted(job_id, as_json=as_json)
