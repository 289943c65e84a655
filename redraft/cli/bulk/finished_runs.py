"""Prints the report of a run, writes result files, checks the gates, and returns an exit code."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from redraft.cli import output
from redraft.cli.exit_codes import Exit
from redraft.cli.files import write_file
from redraft.domain.bulk.gates import GateResult, check_gates
from redraft.domain.bulk.phrases import count, grouped_lines
from redraft.operations.bulk.run_resources import Run
from redraft.reports.figures import figures_of
from redraft.reports.formats import FORMATS, Format
from redraft.reports.tables import ComparisonTables, RunTables
from redraft.reports.text import print_report

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend

Tables = TypeVar("Tables")

LATEST = "latest"
RESULT_SUFFIXES = (".jsonl", ".csv")
_OTHER_SUFFIXES = {".htm": ".html", ".markdown": ".md", ".junit": ".xml"}
_INVALID_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """The output and the gates of a command.

    Raises typer.BadParameter if a file has an unknown suffix, a folder cannot be written, or a gate lacks its baseline.
    The command creates this object first, so that such an error comes before the run costs anything.

    Attributes:
        as_json: print the run, its report, the comparison and the gates as JSON instead of text.
        results: files for the results, one line per item. The suffix selects the format.
        reports: files for the report. The suffix selects the format.
        baseline: the run to compare with, as the user wrote it.
        min_pass_rate: gate: the share of items that must be accepted.
        fail_on_regression: gate: the run must not be significantly worse than its baseline.
    """

    as_json: bool = False
    results: Sequence[Path] | None = None
    reports: Sequence[Path] | None = None
    baseline: str | None = None
    min_pass_rate: float | None = None
    fail_on_regression: bool = False

    def __post_init__(self) -> None:
        for file in self.results or ():
            check_file(file, RESULT_SUFFIXES, "--output")
        check_report_files(self.reports or (), FORMATS)
        if self.fail_on_regression and self.baseline is None:
            words = "needs --baseline RUN or --baseline latest, the run to compare with."
            raise typer.BadParameter(words, param_hint="--fail-on-regression")


def check_file(file: Path, known: Sequence[str], option: str) -> None:
    """Raise typer.BadParameter if a file has an unknown suffix, or its folder cannot be written to."""
    if _suffix_of(file) not in known:
        words = f"The suffix of {file} must be one of {', '.join(known)}. It selects the format."
        raise typer.BadParameter(words, param_hint=option)
    if not os.access(file.absolute().parent, os.W_OK):
        raise typer.BadParameter(f"The folder {file.absolute().parent} cannot be written to.", param_hint=option)


def check_report_files(files: Sequence[Path], formats: Mapping[str, Format[Tables]]) -> None:
    for file in files:
        check_file(file, [each.suffix for each in formats.values()], "--report")


def write_reports(files: Sequence[Path], formats: Mapping[str, Format[Tables]], tables: Tables) -> None:
    """Write a report or a comparison to files, each in the format of its suffix."""
    for file in files:
        form = next(each for each in formats.values() if each.suffix == _suffix_of(file))
        write_file(file, [form.render(tables)], "--report")
        output.say(f"Wrote the report to {file}.", "dim")


def _suffix_of(file: Path) -> str:
    """Return the suffix of a file in lower case, and in its usual spelling."""
    suffix = file.suffix.lower()
    return _OTHER_SUFFIXES.get(suffix, suffix)


def resolved(backend: "Backend", wanted: Wanted) -> Wanted:
    """Replace the baseline by its full id. Raises NotFound if there is no such run."""
    # `latest` depends on the new run, which may not exist yet
    if wanted.baseline in (None, LATEST):
        return wanted
    return replace(wanted, baseline=backend.find("run", wanted.baseline))


def print_run(backend: "Backend", run: Run, wanted: Wanted) -> list[GateResult]:
    """Print the report of a run, write the files, and return the gates' results."""
    baseline_id = _baseline_id(backend, run, wanted)
    beside = None if baseline_id is None else backend.comparison_tables(baseline_id, run.id)
    tables = backend.run_tables(run.id)
    gates = check_gates(
        tables.items,
        beside and beside.comparison,
        min_pass_rate=wanted.min_pass_rate,
        fail_on_regression=wanted.fail_on_regression,
    )
    tables = replace(tables, gates=gates)
    for file in wanted.results or ():
        export_results(backend, run.id, file, form_of(file))
    write_reports(wanted.reports or (), FORMATS, replace(tables, comparison=beside))
    _show(run, tables, beside, as_json=wanted.as_json)
    if run.stop_reason == "budget_exhausted":
        output.say(f"{backend.say_spent(run.id)} redraft eval --resume {run.id} --max-cost USD", "yellow")
    return gates


def _show(run: Run, tables: RunTables, beside: ComparisonTables | None, *, as_json: bool) -> None:
    if as_json:
        comparison = beside and figures_of(beside)
        output.write_json({"run": run, "report": figures_of(tables), "comparison": comparison})
        return
    print_report(output.stdout(), tables)
    if beside is not None:
        output.show("")
        print_report(output.stdout(), beside)


def _baseline_id(backend: "Backend", run: Run, wanted: Wanted) -> str | None:
    if wanted.baseline != LATEST:
        return wanted.baseline
    found = backend.baseline_of(run.id)
    if found is None:
        output.say("No earlier run of the same rows has succeeded, so there is no baseline.", "yellow")
    return found


def exit_of_run(run: Run, gates: Sequence[GateResult]) -> Exit:
    """Return the exit code of a run. If several apply: cancellation first, then a failed gate, then failed items."""
    # With the stop reason `error`, workers have canceled the run, because its items could not be started
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
    """Return the format that the suffix of a results file selects."""
    return _suffix_of(file).removeprefix(".")


def export_results(backend: "Backend", run_id: str, file: Path | None, form: str, *, bom: bool = False) -> None:
    """Write one line per item to a file, or else to stdout. Raises Invalid if the file cannot be written."""
    lines = backend.results(run_id, form, bom=bom)
    if file is None:
        output.write_lines(lines)
        return
    write_file(file, lines, "--output")
    output.say(f"Wrote the results to {file}.", "dim")


def print_invalid(backend: "Backend", run: Run) -> None:
    """Print the rows that cannot be used, at the start of a run, so that the user can still stop it."""
    if not run.counts.invalid:
        return
    output.say(
        f"{run.counts.invalid:,} of {count(run.counts.total, 'item')} cannot be used, counted as invalid:", "yellow"
    )
    items = backend.list_items(run.id, 0, _INVALID_SHOWN, ["invalid"])
    for places, detail in grouped_lines((item["line"], item["error"] or "") for item in items):
        output.say(f"  {places}: {output.one_line(detail)}")
    if run.counts.invalid > _INVALID_SHOWN:
        output.say(f"  … the others: redraft runs show {run.id} --status invalid", "dim")
