"""The commands `redraft runs …`, which list, show, watch, cancel, resume, export and delete bulk runs."""

from typing import Annotated, Literal

import typer

from redraft.cli import options, output
from redraft.cli.backends import opening
from redraft.cli.bulk import bulk_options, schedules

app = options.Group("List, show, change and schedule bulk runs. The default command is `list`.")

app.add_typer(schedules.app, name="schedule")

_STATUSES = ("queued", "running", "succeeded", "failed", "canceled", "invalid")


@app.add("list", "redraft runs list --limit 50", "redraft runs list --json")
def list_runs(*, limit: options.Limit = 20, after: options.After = None, as_json: options.AsJson = False) -> None:
    """List runs, newest first."""
    from redraft.cli.bulk.run_pages import show_runs

    with opening.opened() as backend:
        page, cursor = backend.list_runs(after, limit)
    none_yet = "No runs yet. Try: redraft eval questions.jsonl"
    bulk_options.show_page("runs", page, cursor, show_runs, none_yet, as_json=as_json)


@app.add("show", "redraft runs show latest", "redraft runs show 0199a3 --status failed --limit 50")
def show(
    *,
    run: bulk_options.RunRef = "latest",
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(_STATUSES),
            parser=options.one_of(*_STATUSES),
            help="Only items with this status; repeatable.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of listed items.")] = 20,
    after: Annotated[int, typer.Option(min=0, help="List only items after this item number.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """Show a run, its progress and its items."""
    from redraft.cli.bulk.run_pages import show_items, show_run

    with opening.opened_for("run", run) as (backend, run_id):
        found = backend.get_run(run_id)
        # One more item shows whether there is another page
        found_items = backend.list_items(run_id, after, limit + 1, status or ())
    items = found_items[:limit]
    if as_json:
        output.write_json({**found.model_dump(mode="json"), "items": items})
        return
    show_run(found)
    show_items(items)
    if len(found_items) > limit:
        output.say_more(f"redraft runs show {found.id}", items[-1]["number"], status=status)


@app.add("watch", "redraft runs watch latest", "redraft runs watch 0199a3 --json")
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
    """Watch a run until it ends, then print its report. Ctrl-C does not cancel the run."""
    from redraft.cli.bulk.finished_runs import Wanted, resolved
    from redraft.cli.bulk.run_watching import conduct, end

    wanted = Wanted(as_json, results, report, baseline, min_pass_rate, fail_on_regression)
    with opening.opened_for("run", run) as (backend, run_id):
        wanted = resolved(backend, wanted)
        if backend.get_run(run_id).status == "running":
            raise typer.Exit(conduct(backend, lambda: run_id, lambda _: end(backend, run_id, wanted), cancels=False))
        raise typer.Exit(end(backend, run_id, wanted))


@app.add("cancel")
def cancel(*, run: bulk_options.RunRef, as_json: options.AsJson = False) -> None:
    """Cancel a run. Items that have ended keep their results, and the run can be resumed."""
    with opening.opened_for("run", run) as (backend, run_id):
        found, is_new = backend.cancel_run(run_id)
    if as_json:
        output.write_json(found)
    if is_new:
        output.say(f"Canceled {found.id}. To complete its open items: redraft runs resume {found.id}")
    else:
        output.say(f"{found.id} had already ended: {found.status}.")


@app.add("resume", "redraft runs resume latest", "redraft runs resume 0199a3 --retry-failed")
def resume(  # noqa: PLR0913 - one parameter per option
    *,
    run: bulk_options.RunRef,
    retry_errors: bulk_options.RetryErrors = False,
    retry_failed: bulk_options.RetryFailed = False,
    max_cost: Annotated[
        float | None,
        typer.Option(help="New maximum cost of the whole run, in USD. It must be larger than the old maximum."),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Print the run's id and exit at once. Workers execute the items.")
    ] = False,
    results: bulk_options.Results = None,
    report: bulk_options.Reports = None,
    as_json: options.AsJson = False,
) -> None:
    """Execute the unstarted and canceled items of a run."""
    from redraft.cli.bulk.finished_runs import Wanted
    from redraft.cli.bulk.run_watching import resume_run

    if retry_errors and retry_failed:
        words = "Choose one: --retry-errors executes canceled and failed items, --retry-failed only failed ones."
        raise typer.BadParameter(words, param_hint="--retry-failed")
    retry = "failed" if retry_failed else "errors" if retry_errors else "open"
    wanted = Wanted(as_json, results, report)
    raise typer.Exit(resume_run(run, wanted, retry=retry, max_cost=max_cost, detach=detach))


@app.add(
    "export", "redraft runs export latest > results.jsonl", "redraft runs export 0199a3 --output results.csv --bom"
)
def export(
    *,
    run: bulk_options.RunRef = "latest",
    form: Annotated[
        Literal["jsonl", "csv"] | None,
        typer.Option("--format", metavar="jsonl|csv", help="Format (default: by the file's suffix, else jsonl)."),
    ] = None,
    bom: Annotated[
        bool, typer.Option("--bom", help="Begin a CSV file with a byte order mark, by which Excel detects UTF-8.")
    ] = False,
    files: bulk_options.Results = None,
) -> None:
    """Print one line per item, in the order of the dataset. Items that have not ended have no answer."""
    from redraft.cli.bulk.finished_runs import RESULT_SUFFIXES, check_file, export_results, form_of

    if form is None:
        for file in files or ():
            check_file(file, RESULT_SUFFIXES, "--output")
    with opening.opened_for("run", run) as (backend, run_id):
        for file in files or (None,):
            chosen = form or (form_of(file) if file else "jsonl")
            export_results(backend, run_id, file, chosen, bom=bom)


@app.add(
    "report",
    "redraft runs report latest --report report.html",
    "redraft runs report latest --baseline 0199a3 --fail-on-regression",
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
    """Print the report of a run. While a run is in progress, its report is partial."""
    from redraft.cli.bulk.finished_runs import Wanted, exit_of_gates, print_run, resolved

    wanted = Wanted(as_json, None, report, baseline, min_pass_rate, fail_on_regression)
    with opening.opened_for("run", run) as (backend, run_id):
        gates = print_run(backend, backend.get_run(run_id), resolved(backend, wanted))
    raise typer.Exit(exit_of_gates(gates))


@app.add("webhooks", "redraft runs webhooks latest --redeliver 0199a3")
def webhooks(
    *, run: bulk_options.RunRef = "latest", redeliver: options.Redeliver = None, as_json: options.AsJson = False
) -> None:
    """List the webhook deliveries of a run, or send one again."""
    from redraft.cli.views.job_pages import show_deliveries

    with opening.opened_for("run", run) as (backend, run_id):
        show_deliveries(backend, "run", run_id, redeliver, as_json=as_json)


@app.add("delete", "redraft runs delete 0199a3")
def delete(*, run: bulk_options.RunRef, as_json: options.AsJson = False) -> None:
    """Delete an ended run with its items and their jobs. The command asks for no confirmation."""
    with opening.opened_for("run", run) as (backend, run_id):
        backend.delete_run(run_id)
    output.say_deleted(run_id, as_json=as_json)
