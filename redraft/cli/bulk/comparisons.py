"""The command `redraft compare`, which compares two runs row by row."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from redraft.cli import options, output
from redraft.cli.backends import opening
from redraft.cli.bulk import bulk_options

EPILOG = options.examples(
    "redraft compare 0199a3 latest", "redraft compare 0199a3 latest --fail-on-regression --report comparison.html"
)

Base = Annotated[str, typer.Argument(metavar="BASE", help="Baseline run: its id, its name, or 'latest'.")]
New = Annotated[str, typer.Argument(metavar="NEW", help="Run to compare with BASE: its id, its name, or 'latest'.")]
Reports = Annotated[
    list[Path] | None,
    typer.Option(
        "--report",
        metavar="FILE",
        dir_okay=False,
        help="Write the comparison to a .html, .md, .json or .txt file; repeatable.",
    ),
]


def compare(
    *,
    base: Base,
    new: New,
    report: Reports = None,
    min_pass_rate: bulk_options.MinPassRate = None,
    fail_on_regression: bulk_options.FailOnRegression = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare two runs on the rows that both contain.

    The command prints the differences with their confidence intervals, and the rows that pass in only one of the runs.

    Exit codes: 0 the runs are compared; 1 error; 2 wrong usage; 3 a gate is not met; 5 there is no such run.
    """
    from redraft.cli.bulk.finished_runs import check_report_files, exit_of_gates, write_reports
    from redraft.domain.bulk.gates import check_gates
    from redraft.reports.figures import figures_of
    from redraft.reports.formats import COMPARISON_FORMATS
    from redraft.reports.text import print_report

    check_report_files(report or (), COMPARISON_FORMATS)
    with opening.opened_for("run", base) as (backend, base_id), opening.opened_for("run", new) as (_, new_id):
        tables = backend.comparison_tables(base_id, new_id)
        # Only this gate needs the outcomes of all items, which take long to read for a large run
        items = () if min_pass_rate is None else backend.outcomes(new_id)
    gates = check_gates(items, tables.comparison, min_pass_rate=min_pass_rate, fail_on_regression=fail_on_regression)
    tables = replace(tables, gates=gates)
    write_reports(report or (), COMPARISON_FORMATS, tables)
    if as_json:
        output.write_json(figures_of(tables))
    else:
        print_report(output.stdout(), tables)
    raise typer.Exit(exit_of_gates(gates))
