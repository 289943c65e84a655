"""Compares up to five runs row by row: each row with its question, and the answer and verdict of each run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from redraft.domain.bulk.comparison import Comparison, compare, verdicts_of
from redraft.domain.bulk.comparison_metrics import Metric, mean_cost, metrics_of, summarise
from redraft.domain.bulk.criteria_comparison import ComparedCriterion, compare_criteria
from redraft.domain.bulk.outcomes import ItemOutcome, by_row, item_outcome
from redraft.domain.bulk.row_alignment import Change, RowPair, align
from redraft.errors import Invalid
from redraft.operations.bulk import run_results, runs
from redraft.operations.bulk.report_tables import ensure_different, facts_of
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from redraft.reports.comparison_report import notes_of, sides_of
from redraft.reports.model import Table
from redraft.storage.bulk import run_listing as stored

RUNS_MAX = 5

Sort = Literal["change", "difference", "score", "cost", "time", "row"]


@dataclass(frozen=True, slots=True)
class RowQuery:
    """Selects the rows with one of `changes` (or with any change if `changes` is empty) and all pairs of `metadata`.

    `criterion` is the id of a criterion. It selects the rows that newly meet this criterion if `is_met`, otherwise the
    rows that do not meet it any more.
    """

    changes: frozenset[Change] = frozenset()
    metadata: Mapping[str, str] | None = None
    criterion: str | None = None
    is_met: bool = False
    sort: Sort = "change"
    after: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Cell:
    """A row in one run. With several repeats, score, cost and time are means, and the answer is the first repeat's."""

    outcome: str
    score: float | None
    cost_usd: float | None
    seconds: float | None
    repeats: int
    job_id: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A row of all runs. A cell is None if its run does not have the row."""

    pair: RowPair
    cells: tuple[Cell | None, ...]
    question: str = ""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A run compared with the baseline."""

    run: Run
    comparison: Comparison
    metrics: Sequence[Metric]
    summary: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """A comparison. `rows` is one page of the `number` matching rows. `counts` has the number of all rows by change."""

    against: Sequence[RunComparison]
    notes: Sequence[str]
    sides: Table
    rows: Sequence[MatrixRow]
    number: int
    counts: Mapping[Change, int]
    criteria: Sequence[ComparedCriterion]


def compare_runs(services: Services, run_ids: Sequence[str], query: RowQuery) -> Matrix:
    """Compare runs with the first run. The changes of rows are those of the second run.

    Raises NotFound if a run does not exist, and Invalid if a run is given twice (code `same_run`), or there are too
    many runs.
    """
    _check(run_ids)
    all_runs = [runs.get_run(services, each) for each in run_ids]
    outcomes = [run_results.outcomes(services, each) for each in run_ids]
    against = [_compare(all_runs[0], outcomes[0], *each) for each in zip(all_runs[1:], outcomes[1:], strict=True)]
    pairs = align(outcomes[0], outcomes[1], *outcomes[2:])
    facts = [facts_of(services, each) for each in all_runs]
    grouped = [by_row(each) for each in outcomes]
    criteria = compare_criteria(outcomes)
    kept = _with_changed_criterion(_kept(services, run_ids, pairs, query), criteria, query)
    rows = [MatrixRow(pair, tuple(_cell(each.get(pair.custom_id)) for each in grouped)) for pair in kept]
    rows = _sorted(rows, query.sort)[query.after : query.after + query.limit]
    counts = Counter(pair.change for pair in pairs)
    # Texts are large, so only those of this page are read
    shown = _with_texts(services, run_ids, rows)
    return Matrix(against, notes_of(*facts), sides_of(*facts), shown, len(kept), counts, criteria)


def _check(run_ids: Sequence[str]) -> None:
    ensure_different(run_ids)
    if len(run_ids) > RUNS_MAX:
        raise Invalid.at("/run", f"At most {RUNS_MAX} runs can be compared at once.", "invalid_filter")


def _compare(baseline: Run, before: Sequence[ItemOutcome], run: Run, after: Sequence[ItemOutcome]) -> RunComparison:
    found = compare(before, after, name=baseline.name)
    return RunComparison(run, found, metrics_of(before, after, found), summarise(found, run.name, baseline.name))


def _kept(services: Services, run_ids: Sequence[str], pairs: Sequence[RowPair], query: RowQuery) -> list[RowPair]:
    found = [pair for pair in pairs if not query.changes or pair.change in query.changes]
    if not query.metadata:
        return found
    with services.database.read() as connection:
        names = [stored.rows_with_metadata(connection, runs.find(connection, each), query.metadata) for each in run_ids]
    # A row needs the metadata in one run only: it is stored with the jobs, and other runs may have lost their jobs
    wanted = set[str]().union(*names)
    return [pair for pair in found if pair.custom_id in wanted]


def _with_changed_criterion(
    pairs: list[RowPair], criteria: Sequence[ComparedCriterion], query: RowQuery
) -> list[RowPair]:
    if query.criterion is None:
        return pairs
    wanted = set[str]()
    for each in criteria:
        if each.id == query.criterion:
            wanted |= each.newly_met if query.is_met else each.newly_not_met
    return [pair for pair in pairs if pair.custom_id in wanted]


def _cell(items: Sequence[ItemOutcome] | None) -> Cell | None:
    if not items:
        return None
    verdict = verdicts_of({"": items}).get("")
    first = items[0]
    status = "succeeded" if verdict else first.status
    seconds = [item.seconds for item in items if item.seconds is not None]
    return Cell(
        item_outcome(status, is_accepted=bool(verdict and verdict.passes), is_evaluated=verdict is not None),
        verdict.score if verdict else None,
        mean_cost(items),
        sum(seconds) / len(seconds) if seconds else None,
        len(items),
    )


def _sorted(rows: list[MatrixRow], sort: Sort) -> list[MatrixRow]:
    """Order the rows by change (the order of `align`), by id, by difference, or by a figure of the second run."""
    if sort == "change":
        return rows
    if sort == "row":
        return sorted(rows, key=lambda row: row.pair.custom_id)
    if sort == "difference":
        return sorted(rows, key=lambda row: _first_low(row.pair.difference))
    return sorted(rows, key=lambda row: _first_low(_measured(row.cells[1], sort)))


def _measured(cell: Cell | None, sort: Sort) -> float | None:
    """The sort key of a cell: low scores, high costs and long times come first."""
    if cell is None or sort == "score":
        return cell and cell.score
    value = cell.cost_usd if sort == "cost" else cell.seconds
    return None if value is None else -value


def _first_low(value: float | None) -> tuple[bool, float]:
    # Cells without a value come last
    return value is None, value or 0.0


def _with_texts(services: Services, run_ids: Sequence[str], rows: Sequence[MatrixRow]) -> list[MatrixRow]:
    names = [row.pair.custom_id for row in rows]
    with services.database.read() as connection:
        texts = [stored.texts_of_rows(connection, runs.find(connection, each), names) for each in run_ids]
    return [_with_text(row, [each.get(row.pair.custom_id) for each in texts]) for row in rows]


def _with_text(row: MatrixRow, texts: Sequence[Mapping[str, Any] | None]) -> MatrixRow:
    cells = tuple(
        replace(cell, job_id=text["job_id"], answer=text["answer"]) if cell and text else cell
        for cell, text in zip(row.cells, texts, strict=True)
    )
    question = next((text["question"] for text in texts if text and text["question"]), "")
    return replace(row, cells=cells, question=question)
