"""The command `redraft eval`, which runs a job for each row of a dataset."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from redraft.cli import options
from redraft.cli.bulk import bulk_options
from redraft.cli.jobs import request_bodies

EPILOG = options.examples(
    "redraft eval questions.jsonl --max-in-flight 16 --output results.csv --report report.html",
    "redraft eval rows.csv --map instruct=frage --crit 'Correct and short.' --max-cost 5",
    "redraft eval questions.jsonl --baseline latest --fail-on-regression --min-pass-rate 0.9 --report junit.xml",
    "redraft eval questions.jsonl --batch --detach",
    "redraft eval --resume latest --retry-errors",
)

Dataset = Annotated[
    str | None,
    typer.Argument(
        metavar="DATASET",
        help="File of rows, '-' for stdin, or the id or name of a stored dataset.",
        show_default=False,
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        metavar="RUN|latest", help="Execute the unstarted and canceled items of this run. No new run is created."
    ),
]


@options.with_job_options
def evaluate(  # noqa: PLR0913 - one parameter per option
    *,
    given: dict[str, Any],
    dataset: Dataset = None,
    mapped: bulk_options.Mapped = None,
    file_format: bulk_options.FileFormat = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the run (default: the name of the file).")
    ] = None,
    check: options.Checks = None,
    schema: options.Schema = None,
    defaults: bulk_options.DefaultsFile = None,
    overrides: bulk_options.Overrides = None,
    repeat: Annotated[int | None, typer.Option(help="Number of jobs for each row, 1 to 100 (default: 1).")] = None,
    max_in_flight: Annotated[
        int | None, typer.Option(help="Maximum number of jobs that run at the same time (default: 32).")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            help="Maximum cost of the whole run, in USD (default: no limit). The prices of all its models must be "
            "known. With --resume, it must be larger than the old maximum."
        ),
    ] = None,
    delivery: bulk_options.Delivery = None,
    batch: Annotated[bool, typer.Option("--batch", help="The same as --delivery batch.")] = False,
    webhook: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL that receives a signed message `run.finished` when the run ends."),
    ] = None,
    resume: Resume = None,
    retry_errors: bulk_options.RetryErrors = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Print the run's id and exit at once. Workers execute the items.")
    ] = False,
    results: bulk_options.Results = None,
    report: bulk_options.Reports = None,
    baseline: bulk_options.Baseline = None,
    min_pass_rate: bulk_options.MinPassRate = None,
    fail_on_regression: bulk_options.FailOnRegression = False,
    as_json: options.AsJson = False,
) -> None:
    """Run a job for each row of a dataset, and print a report.

    Options such as --crit apply to rows that do not set the same field. --set applies to all rows. The report goes to
    stdout, and the progress goes to stderr. Ctrl-C cancels the run; items that have ended keep their results. A second
    Ctrl-C exits at once. With a remote server (REDRAFT_SERVER), Ctrl-C leaves the run running. SIGTERM ends the
    command, but does not cancel the run; --resume continues the run.

    Exit codes: 0 success; 1 error; 2 wrong usage; 3 a gate is not met; 4 the key of a provider is missing, or the
    server refused the key; 5 there is no such file, dataset or run; 6 some items failed, are invalid or were not
    started; 75 the broker, the database or the server cannot be reached; 130 interrupted. If several codes apply, 130
    takes precedence over 3, and 3 over 6.
    """
    from redraft.cli.bulk.finished_runs import Wanted
    from redraft.cli.bulk.run_watching import resume_run, start_run

    wanted = Wanted(as_json, results, report, baseline, min_pass_rate, fail_on_regression)
    fields = bulk_options.defaults_of(defaults, {**given, "answer_schema": options.schema_of(schema)})
    request_bodies.add_checks(fields, check)
    of_new = {
        "DATASET": dataset,
        "--map": mapped,
        "--file-format": file_format,
        "--name": name,
        "--set": overrides,
        "--repeat": repeat,
        "--max-in-flight": max_in_flight,
        "--webhook": webhook,
        "--delivery": "batch" if batch else delivery,
    }
    if resume is not None:
        _ensure_alone(of_new, fields)
        retry = "errors" if retry_errors else "open"
        raise typer.Exit(resume_run(resume, wanted, retry=retry, max_cost=max_cost, detach=detach))
    if retry_errors:
        words = "--retry-errors works only with --resume, as in: redraft eval --resume latest --retry-errors"
        raise typer.BadParameter(words, param_hint="--retry-errors")
    if dataset is None:
        words = "Name a file of rows, or resume a run: redraft eval --resume latest"
        raise typer.BadParameter(words, param_hint="DATASET")
    body = {
        "name": name,
        "defaults": fields,
        "overrides": bulk_options.overrides_of(overrides),
        "repeat": repeat,
        "max_in_flight": max_in_flight,
        "max_cost_usd": max_cost,
        "webhook": webhook and {"url": webhook},
        "delivery": of_new["--delivery"],
    }
    body = {field: value for field, value in body.items() if value is not None}
    mapping = bulk_options.mapping_of(mapped)
    raise typer.Exit(start_run(dataset, body, wanted, detach=detach, file_format=file_format, mapping=mapping))


def _ensure_alone(of_new: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    """Raise typer.BadParameter if options are given that a resumed run would ignore."""
    given = [name for name, value in of_new.items() if value is not None]
    if given or fields:
        named = ", ".join([*given, *(f"the field {field}" for field in fields)])
        words = f"A resumed run keeps its rows and settings. Remove: {named}."
        raise typer.BadParameter(words, param_hint="--resume")
