"""`redraft runs …`: show bulk runs, cancel, resume, export or delete them."""

from typing import Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.cli.bulk import bulk_options

app = typer.Typer(
    help="Show bulk runs, cancel, resume, export or delete them. Without a command: list them.",
    rich_markup_mode=None,
    invoke_without_command=True,
)

_STATUSES = ("queued", "running", "succeeded", "failed", "canceled", "invalid")


@app.callback()
def main(ctx: typer.Context) -> None:
    """List the runs when no command is named."""
    if ctx.invoked_subcommand is None:
        list_runs()


@app.command("list", epilog=options.examples("redraft runs list --limit 50", "redraft runs list --json"))
def list_runs(
    *,
    limit: options.Limit = 20,
    after: options.After = None,
    as_json: options.AsJson = False,
) -> None:
    """List runs, the newest first."""
    from redraft.cli.bulk.run_pages import show_runs
    from redraft.operations.bulk import runs

    with sessions.opened() as services:
        page, cursor = runs.list_runs(services, cursor=after, limit=limit)
    none_yet = "No runs yet. Try: redraft eval questions.jsonl"
    bulk_options.show_page("runs", page, cursor, show_runs, none_yet, as_json=as_json)


@app.command(
    "show", epilog=options.examples("redraft runs show latest", "redraft runs show 0199a3 --status failed --limit 50")
)
def show(
    *,
    run: bulk_options.RunRef = "latest",
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help=f"Only items of this status: {', '.join(_STATUSES)}; repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of items.")] = 20,
    after: Annotated[int, typer.Option(min=0, help="Only items after this number.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """Show a run, its progress and its items. With --status: only items of that status."""
    from redraft.cli.bulk.run_pages import show_items, show_run
    from redraft.operations.bulk import run_results, runs
    from redraft.operations.jobs import references

    statuses = [_status(each) for each in status or ()]
    with sessions.opened() as services:
        found = runs.get_run(services, references.find_run_id(services, run))
        items = run_results.list_items(services, found.id, after=after, limit=limit, statuses=statuses)
    if as_json:
        output.write_json({**found.model_dump(mode="json"), "items": items})
        return
    show_run(found)
    show_items(items)
    if len(items) == limit:
        output.say(f"There may be more: redraft runs show {found.id} --after {items[-1]['number']}", "dim")


def _status(text: str) -> str:
    if text not in _STATUSES:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(_STATUSES)}.", param_hint="--status")
    return text


@app.command("watch", epilog=options.examples("redraft runs watch latest", "redraft runs watch 0199a3 --json"))
def watch(
    *,
    run: bulk_options.RunRef = "latest",
    results: bulk_options.Results = None,
    report: bulk_options.Reports = None,
    baseline: bulk_options.Baseline = None,
    min_pass_rate: bulk_options.MinPassRate = None,
    fail_on_regression: bulk_options.FailOnRegression = False,
    as_json: options.AsJson = False,
) -> None:
    """Watch a run until it ends, then print its report. Ctrl-C leaves the run alone."""
    from redraft.cli.bulk.run_ends import Wanted, resolved
    from redraft.cli.bulk.run_watching import conduct, end
    from redraft.operations.bulk import runs
    from redraft.operations.jobs import references

    wanted = Wanted(as_json, tuple(results or ()), tuple(report or ()), baseline, min_pass_rate, fail_on_regression)
    wanted.check()
    with sessions.opened() as services:
        run_id = references.find_run_id(services, run)
        wanted = resolved(services, wanted)
        if runs.get_run(services, run_id).status == "running":
            raise typer.Exit(conduct(services, lambda: run_id, wanted, cancels=False))
        raise typer.Exit(end(services, run_id, wanted))


@app.command("cancel")
def cancel(*, run: bulk_options.RunRef, as_json: options.AsJson = False) -> None:
    """Cancel a run. Items that have ended are kept, and the run can be resumed."""
    from redraft.operations.bulk import runs
    from redraft.operations.jobs import references

    with sessions.opened() as services:
        found, is_new = runs.cancel_run(services, references.find_run_id(services, run))
    if as_json:
        output.write_json(found.model_dump(mode="json"))
    if is_new:
        output.say(f"Canceled {found.id}. To complete its open items: redraft runs resume {found.id}")
    else:
        output.say(f"{found.id} had ended before: {found.status}.")


@app.command(
    "resume", epilog=options.examples("redraft runs resume latest", "redraft runs resume 0199a3 --retry-errors")
)
def resume(
    *,
    run: bulk_options.RunRef,
    retry_errors: bulk_options.RetryErrors = False,
    max_cost: Annotated[float | None, typer.Option(help="A larger budget for the whole run, in USD.")] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Exit at once; workers do the rest.")] = False,
    results: bulk_options.Results = None,
    report: bulk_options.Reports = None,
    as_json: options.AsJson = False,
) -> None:
    """Complete the open items of a run. Items that have ended are not repeated, and not paid for again."""
    from redraft.cli.bulk.run_ends import Wanted
    from redraft.cli.bulk.run_starts import resume_run

    wanted = Wanted(as_json, tuple(results or ()), tuple(report or ()))
    wanted.check()
    raise typer.Exit(resume_run(run, wanted, retry_errors=retry_errors, max_cost=max_cost, detach=detach))


@app.command(
    "export",
    epilog=options.examples(
        "redraft runs export latest > results.jsonl", "redraft runs export 0199a3 --output results.csv --bom"
    ),
)
def export(
    *,
    run: bulk_options.RunRef = "latest",
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="jsonl|csv", help="Format (default: by the file's name, else jsonl)."),
    ] = None,
    bom: Annotated[
        bool, typer.Option("--bom", help="Begin CSV with a byte order mark, by which Excel recognises UTF-8.")
    ] = False,
    files: bulk_options.Results = None,
) -> None:
    """Print one line per item and repeat. The order is that of the dataset; a run in progress has partial results."""
    from redraft.cli.bulk.run_ends import RESULT_SUFFIXES, check_file, export_results, form_of
    from redraft.operations.jobs import references

    if form not in (None, "jsonl", "csv"):
        raise typer.BadParameter(f"{form!r} is none of jsonl, csv.", param_hint="--format")
    if form is None:
        for file in files or ():
            check_file(file, RESULT_SUFFIXES, "--output")
    with sessions.opened() as services:
        run_id = references.find_run_id(services, run)
        for file in files or (None,):
            chosen = form or (form_of(file) if file else "jsonl")
            export_results(services, run_id, file, chosen, bom=bom)


@app.command(
    "report",
    epilog=options.examples(
        "redraft runs report latest --report report.html",
        "redraft runs report latest --baseline 0199a3 --fail-on-regression",
    ),
)
def report(
    *,
    run: bulk_options.RunRef = "latest",
    report: bulk_options.Reports = None,
    baseline: bulk_options.Baseline = None,
    min_pass_rate: bulk_options.MinPassRate = None,
    fail_on_regression: bulk_options.FailOnRegression = False,
    as_json: options.AsJson = False,
) -> None:
    """Print the report of a run. A run in progress has a partial report. Exits with 3 if a gate is not met."""
    from redraft.cli.bulk.run_ends import Wanted, exit_of_gates, print_run, resolved
    from redraft.operations.bulk import runs
    from redraft.operations.jobs import references

    wanted = Wanted(as_json, (), tuple(report or ()), baseline, min_pass_rate, fail_on_regression)
    wanted.check()
    with sessions.opened() as services:
        found = runs.get_run(services, references.find_run_id(services, run))
        gates = print_run(services, found, resolved(services, wanted))
    raise typer.Exit(exit_of_gates(gates))


@app.command("webhooks", epilog=options.examples("redraft runs webhooks latest --redeliver 0199a3"))
def webhooks(
    *, run: bulk_options.RunRef = "latest", redeliver: options.Redeliver = None, as_json: options.AsJson = False
) -> None:
    """List the webhook deliveries of a run, or send one again."""
    from redraft.cli.views.deliveries import show_deliveries
    from redraft.operations.jobs import references

    with sessions.opened() as services:
        show_deliveries(services, references.find_run_id(services, run), redeliver, as_json=as_json)


@app.command("delete", epilog=options.examples("redraft runs delete 0199a3"))
def delete(*, run: bulk_options.RunRef, as_json: options.AsJson = False) -> None:
    """Delete a run that has ended, with its items and their jobs. It does not ask again."""
    from redraft.operations.bulk import removing
    from redraft.operations.jobs import references

    with sessions.opened() as services:
        run_id = references.find_run_id(services, run)
        removing.delete_run(services, run_id)
    output.say_deleted(run_id, as_json=as_json)
