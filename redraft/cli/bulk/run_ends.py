"""Reports the end of a run: its report, its results in a file, its gates, and the exit code."""

import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import typer

from redraft.cli import output
from redraft.cli.bulk.report_files import render, suffix_of, suffixes
from redraft.cli.exits import Exit
from redraft.datasets.csv_export import csv_lines, jsonl_lines
from redraft.domain.bulk.gates import GateResult, check_gates
from redraft.errors import Invalid
from redraft.operations.bulk import run_results, runs
from redraft.operations.bulk.report_tables import comparison_tables, run_tables
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs import references
from redraft.operations.services import Services
from redraft.reports.figures import figures_of
from redraft.reports.formats import FORMATS
from redraft.reports.tables import ComparisonTables, RunTables
from redraft.reports.text import print_report

LATEST = "latest"
_INVALID_SHOWN = 5
RESULT_SUFFIXES = (".jsonl", ".csv")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The output and the gates that a command asks for.

    Attributes:
        as_json: the run, its report, comparison and gates as JSON on stdout, in place of the report as text.
        results: files for one line per item, each in the form that its name says.
        reports: files for the report, each in the form that its name says.
        baseline: a run to compare with, as it was typed.
        min_pass_rate: a gate.
        fail_on_regression: another one.
    """

    as_json: bool = False
    results: tuple[Path, ...] = ()
    reports: tuple[Path, ...] = ()
    baseline: str | None = None
    min_pass_rate: float | None = None
    fail_on_regression: bool = False

    def check(self) -> None:
        """Check the options before the run costs anything.

        Raises:
            BadParameter: a file has an unknown suffix or cannot be written; a gate lacks its baseline.
        """
        for file in self.results:
            check_file(file, RESULT_SUFFIXES, "--output")
        for file in self.reports:
            check_file(file, suffixes(FORMATS), "--report")
        if self.fail_on_regression and self.baseline is None:
            words = "needs --baseline RUN, or --baseline latest: a regression is one against another run."
            raise typer.BadParameter(words, param_hint="--fail-on-regression")


def check_file(file: Path, known: Sequence[str], option: str) -> None:
    """Check that a file has a known suffix and that its folder can be written.

    Raises:
        BadParameter: one of the two does not hold.
    """
    if suffix_of(file) not in known:
        words = f"{file} ends with none of {', '.join(known)}, which say what to write."
        raise typer.BadParameter(words, param_hint=option)
    if not os.access(file.absolute().parent, os.W_OK):
        raise typer.BadParameter(f"No file can be written in {file.absolute().parent}.", param_hint=option)


def resolved(services: Services, wanted: Wanted) -> Wanted:
    """Replace the baseline by its whole id; `latest` stays, since it depends on the run, which may not exist yet.

    Raises:
        NotFound: there is no such run.
    """
    if wanted.baseline in (None, LATEST):
        return wanted
    return replace(wanted, baseline=references.find_run_id(services, wanted.baseline))


def print_run(services: Services, run: Run, wanted: Wanted) -> list[GateResult]:
    """Print a run's report, write the files, and check the gates.

    Returns:
        The result of each gate.
    """
    baseline_id = _baseline_id(services, run, wanted)
    beside = None if baseline_id is None else comparison_tables(services, baseline_id, run.id)
    tables = run_tables(services, run.id)
    gates = check_gates(
        tables.items,
        beside and beside.comparison,
        min_pass_rate=wanted.min_pass_rate,
        fail_on_regression=wanted.fail_on_regression,
    )
    tables = replace(tables, gates=gates)
    for file in wanted.results:
        export_results(services, run.id, file, form_of(file))
    for file in wanted.reports:
        write_file(file, [render(FORMATS, tables, file)], "--report")
        output.say(f"Wrote the report to {file}.", "dim")
    _show(run, tables, beside, as_json=wanted.as_json)
    if run.stop_reason == "budget_exhausted":
        output.say(f"{runs.say_spent(services, run.id)} redraft eval --resume {run.id} --max-cost USD", "yellow")
    return gates


def _show(run: Run, tables: RunTables, beside: ComparisonTables | None, *, as_json: bool) -> None:
    if as_json:
        comparison = beside and figures_of(beside)
        data = {"run": run.model_dump(mode="json"), "report": figures_of(tables), "comparison": comparison}
        output.write_json(data)
        return
    print_report(output.stdout(), tables)
    if beside is not None:
        output.show("")
        print_report(output.stdout(), beside)


def _baseline_id(services: Services, run: Run, wanted: Wanted) -> str | None:
    if wanted.baseline != LATEST:
        return wanted.baseline
    found = runs.find_baseline_id(services, run.id)
    if found is None:
        output.say("No earlier run on the same rows has succeeded, so there is no baseline to compare with.", "yellow")
    return found


def exit_of_run(run: Run, gates: Sequence[GateResult]) -> Exit:
    """The exit code of a run: cancellation outranks a failed gate, and a failed gate outranks failed items."""
    if run.status == "canceled":
        return Exit.SOME_FAILED if run.stop_reason == "error" else Exit.INTERRUPTED
    if code := exit_of_gates(gates):
        return code
    counts = run.counts
    if run.status == "succeeded" and counts.failed + counts.invalid + counts.canceled:
        return Exit.SOME_FAILED
    return Exit.OK


def exit_of_gates(gates: Sequence[GateResult]) -> Exit:
    return Exit.OK if all(gate.passed for gate in gates) else Exit.NOT_ACCEPTED


def form_of(file: Path) -> str:
    """The format that the suffix of a results file names."""
    return suffix_of(file).removeprefix(".")


def export_results(services: Services, run_id: str, file: Path | None, form: str, *, bom: bool = False) -> None:
    """Write one line per item, in the dataset's order, to a file (whole or not at all) or to stdout.

    Raises:
        Invalid: the file cannot be written.
    """
    lines = _lines(services, run_id, form, bom=bom)
    if file is None:
        output.write_lines(lines)
        return
    write_file(file, lines, "--output")
    output.say(f"Wrote the results to {file}.", "dim")


def _lines(services: Services, run_id: str, form: str, *, bom: bool) -> Iterator[str]:
    if form == "csv":
        columns, rows = run_results.stream_table(services, run_id)
        return csv_lines(rows, columns, bom=bom)
    return jsonl_lines(run_results.stream_results(services, run_id), run_results.RESULT_COLUMNS)


def write_file(file: Path, lines: Iterable[str], option: str) -> None:
    """Replace a file with these lines.

    Raises:
        Invalid: the file cannot be written.
    """
    try:
        with _replacing(file) as stream:
            stream.writelines(lines)
    except OSError as error:
        raise Invalid.at(option, f"{file} cannot be written: {error.strerror}.", "output") from error


@contextmanager
def _replacing(file: Path) -> Generator[IO[str]]:
    """Yield a stream whose content replaces the file at the end of the block.

    A reader, or an interrupted export, never leaves half a file under its name.
    """
    folder = file.absolute().parent
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=folder) as beside:
        part = Path(beside) / file.name
        with part.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        part.replace(file)


def print_invalid(services: Services, run: Run) -> None:
    """Print the rows that cannot be used, while the user can still stop the run."""
    if not run.counts.invalid:
        return
    output.say(f"{run.counts.invalid:,} of {run.counts.total:,} items cannot be used, and count as invalid:", "yellow")
    for item in run_results.list_items(services, run.id, after=0, limit=_INVALID_SHOWN, statuses=["invalid"]):
        output.say(f"  line {item['line']}: {output.one_line(item['error'] or '')}")
    if run.counts.invalid > _INVALID_SHOWN:
        output.say(f"  … the others: redraft runs show {run.id} --status invalid", "dim")
