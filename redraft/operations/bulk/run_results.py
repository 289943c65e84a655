"""Reads the results of a run: one result per item, or a report on all items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any, cast

from pydantic_core import to_json

from redraft.domain.bulk.outcomes import CallTotals, ItemCriterion, ItemOutcome
from redraft.domain.bulk.run_statistics import RunReport, report_on
from redraft.domain.evaluation.rubrics import FAULT_ABSENT
from redraft.operations.bulk.runs import find
from redraft.operations.resource_base import NANO, cost_usd
from redraft.operations.services import Services
from redraft.storage.bulk import datasets, run_items
from redraft.storage.bulk.runs import RunRecord
from redraft.storage.engine.tables import TOKENS

_PAGE = 200

RESULT_COLUMNS = (
    *("custom_id", "repeat", "line", "status", "stop_reason", "success", "final_score", "final_answer"),
    *("first_score", "best_iteration", "iterations", "score_threshold", "model", "evaluator_model"),
    *("calls", *TOKENS, "cost_usd", "seconds", "human_score", "human_pass"),
    *("evaluation_reasoning", "improvement_suggestions", "error_code", "error"),
    *("instruct", "reference", "metadata", "job_id"),
)
"""The columns of the results, in this order."""

METADATA_COLUMNS_MAX = 100
"""Up to this number of metadata names, each name has its own column. With more, all metadata is in one column."""


@dataclass(frozen=True, slots=True)
class _Page:
    """Some items in order. Iterations, costs, verdicts of the best iterations, and criteria are grouped by item number.

    A page that was read with texts has verdicts but no criteria. A page without texts has criteria but no verdicts.
    """

    items: Sequence[Mapping[str, Any]]
    iterations: Mapping[int, Sequence[Mapping[Any, Any]]]
    costs: Mapping[int, Sequence[Mapping[Any, Any]]]
    verdicts: Mapping[int, Sequence[Mapping[Any, Any]]]
    criteria: Mapping[int, Sequence[Mapping[Any, Any]]]


def list_items(
    services: Services, run_id: str, *, after: int, limit: int, statuses: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return the results of the items whose number is greater than `after`. The first item has the number 1.

    Raises NotFound if there is no such run.
    """
    run = _run(services, run_id)
    page = _page(services, run, after, limit=limit, statuses=statuses, with_texts=True)
    return [{"number": item["number"], **_result(item, page)} for item in page.items]


def stream_results(services: Services, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield one result per item, in the order of the dataset. Raises NotFound if there is no such run."""
    run = _run(services, run_id)
    return (_result(item, page) for page in _pages(services, run, with_texts=True) for item in page.items)


def stream_table(services: Services, run_id: str) -> tuple[tuple[str, ...], Iterator[dict[str, Any]]]:
    """Return the columns and the rows of a table. Each name in the metadata has a column `metadata.NAME`.

    Raises NotFound if there is no such run.
    """
    rows = stream_results(services, run_id)
    with services.database.read() as connection:
        run = find(connection, run_id)
        found = datasets.metadata_names(connection, run.dataset_id, METADATA_COLUMNS_MAX + 1)
    names = sorted({*found, *_labels(run.defaults), *_labels(run.overrides)})
    if len(names) > METADATA_COLUMNS_MAX:
        return RESULT_COLUMNS, rows
    at = RESULT_COLUMNS.index("metadata")
    columns = (*RESULT_COLUMNS[:at], *(f"metadata.{name}" for name in names), *RESULT_COLUMNS[at + 1 :])
    return columns, map(_spread, rows)


def _spread(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **{f"metadata.{name}": value for name, value in row["metadata"].items()}}


def outcomes(services: Services, run_id: str) -> list[ItemOutcome]:
    """The outcomes of all items, for reports and comparisons. Raises NotFound if there is no such run."""
    run = _run(services, run_id)
    return [_outcome(item, page) for page in _pages(services, run) for item in page.items]


def report_of(
    defaults: Mapping[str, Any],
    overrides: Mapping[str, Any],
    items: Sequence[ItemOutcome],
    *,
    has_only_checks: bool,
) -> RunReport:
    """Report on the items of a run that has these defaults and overrides."""
    threshold: float | None = overrides.get("score_threshold", defaults.get("score_threshold"))
    return report_on(items, threshold=threshold, has_only_checks=has_only_checks)


def _run(services: Services, run_id: str) -> RunRecord:
    with services.database.read() as connection:
        return find(connection, run_id)


def _pages(services: Services, run: RunRecord, *, with_texts: bool = False) -> Iterator[_Page]:
    # Each page has its own unit of work, so that no database connection waits for a slow client
    after = 0
    while (page := _page(services, run, after, with_texts=with_texts)).items:
        yield page
        after = page.items[-1]["number"]


def _page(
    services: Services,
    run: RunRecord,
    after: int,
    *,
    limit: int = _PAGE,
    statuses: Sequence[str] = (),
    with_texts: bool = False,
) -> _Page:
    with services.database.read() as connection:
        items = run_items.list_items(
            connection, run, after=after, limit=limit, statuses=statuses, with_texts=with_texts
        )
        if not items:
            return _Page((), {}, {}, {}, {})
        numbers = [item["number"] for item in items]
        iterations = run_items.list_iterations(connection, run.id, numbers)
        costs = run_items.list_costs(connection, run.id, numbers)
        verdicts = run_items.list_verdicts(connection, run.id, numbers) if with_texts else ()
        criteria = () if with_texts else run_items.list_criteria(connection, run.id, numbers)
    return _Page(items, *map(_by_item, (iterations, costs, verdicts, criteria)))


def _by_item(rows: Sequence[Mapping[Any, Any]]) -> dict[int, list[Mapping[Any, Any]]]:
    return {number: list(group) for number, group in groupby(rows, key=lambda row: row["item"])}


def _outcome(item: Mapping[str, Any], page: _Page) -> ItemOutcome:
    written = page.iterations.get(item["number"], ())
    best = next((row for row in written if row["number"] == item["best_iteration"]), None)
    # An invalid row is represented by its first error
    error: Mapping[str, Any] = item["errors"][0] if item["errors"] else item["error"] or {}
    has_verdict = item["status"] == "succeeded" and item["stop_reason"] not in {None, "evaluation_skipped"}
    started, finished = item["started_at"], item["finished_at"]
    return ItemOutcome(
        # An invalid row may have no id, so its line number identifies it
        custom_id=item["custom_id"] or f"line {item['line']}",
        repeat=item["repeat"],
        status=item["status"],
        stop_reason=item["stop_reason"],
        success=bool(item["is_accepted"]) if has_verdict else None,
        first_score=written[0]["score"] if written and written[0]["number"] == 1 else None,
        final_score=item["best_score"],
        best_iteration=item["best_iteration"],
        scores_by_iteration=tuple(row["score"] for row in written),
        passed_by_iteration=tuple(bool(row["passed"]) for row in written),
        iterations=len(written),
        cost_usd=_cost(item),
        cost_by_iteration=_cost_by_iteration(page.costs.get(item["number"], ()), len(written)),
        calls_by_iteration=_calls_by_iteration(page.costs.get(item["number"], ()), len(written)),
        input_tokens=item["input_tokens"] or 0,
        output_tokens=item["output_tokens"] or 0,
        seconds=(finished - started).total_seconds() if started and finished else None,
        error_code=error.get("code"),
        error_words=error.get("detail"),
        human_score=item["human_score"],
        human_pass=item["human_pass"],
        audit_score=best["audit_score"] if best else None,
        audit_passed=None if best is None or best["audit_passed"] is None else bool(best["audit_passed"]),
        criteria=_criteria(page.criteria.get(item["number"], ()), item["best_iteration"]),
        only_evaluates=item["job_id"] is not None and item["model"] is None,
        is_deleted=item["job_id"] is None and item["status"] in run_items.DONE,
        number=item["number"],
    )


def _cost(item: Mapping[str, Any]) -> Decimal | None:
    if item["job_id"] is None:
        # If the item has ended, its job was deleted and its cost is unknown
        return Decimal(0) if item["status"] in {"queued", "canceled", "invalid"} else None
    return None if item["unpriced_calls"] else Decimal(item["cost_nano_usd"]) / NANO


def _cost_by_iteration(rows: Sequence[Mapping[Any, Any]], iterations: int) -> tuple[Decimal | None, ...]:
    costs = {row["iteration"]: None if row["unpriced"] else Decimal(row["cost"]) / NANO for row in rows}
    return tuple(costs.get(number, Decimal(0)) for number in range(1, iterations + 1))


def _calls_by_iteration(rows: Sequence[Mapping[Any, Any]], iterations: int) -> tuple[CallTotals, ...]:
    found = {row["iteration"]: CallTotals(row["calls"], int(row["tokens"]), int(row["ms"]) / 1000) for row in rows}
    return tuple(found.get(number, CallTotals(0, 0, 0.0)) for number in range(1, iterations + 1))


def _result(item: Mapping[str, Any], page: _Page) -> dict[str, Any]:
    found = _outcome(item, page)
    request: Mapping[str, Any] = item["request"] or {}
    # An invalid row has only the fields that could be read
    fields: Mapping[str, Any] = request or (item["row"]["fields"] if item["row"] else item["told"] or {})
    verdict = best_verdict(page.verdicts.get(item["number"], ()))
    result: Mapping[str, Any] = item["result"] or {}
    return {
        **{name: getattr(found, name) for name in RESULT_COLUMNS if hasattr(found, name)},
        **{name: item[name] for name in ("line", "model", "job_id")},
        "evaluator_model": None if _has_only_checks(request) else item["evaluator_model"],
        "final_answer": result.get("final_answer"),
        "score_threshold": request.get("score_threshold"),
        **{name: item[name] or 0 for name in ("calls", *TOKENS)},
        "cost_usd": cost_usd(item["cost_nano_usd"] or 0) if found.cost_usd is not None else None,
        "error": found.error_words,
        "evaluation_reasoning": verdict and verdict["reasoning"],
        "improvement_suggestions": verdict and verdict["suggestions"],
        "instruct": _text(fields.get("instruct")),
        "reference": _text(fields.get("reference")),
        "metadata": _labels(fields),
    }


def _has_only_checks(request: Mapping[str, Any]) -> bool:
    # The stored request is read without validation, because every row of a large run has one
    rubric = request.get("rubric") or ()
    return bool(rubric) and all(each.get("kind") == "check" for each in rubric)


def best_verdict(verdicts: Sequence[Mapping[Any, Any]]) -> Mapping[Any, Any] | None:
    """Return the verdict on the best candidate. `best_of` in `redraft/domain/loop/attempts.py` chooses it."""
    return max(verdicts, key=lambda each: (each["requirements_met"] is not False, each["score"]), default=None)


def _criteria(verdicts: Sequence[Mapping[Any, Any]], best_iteration: int | None) -> tuple[ItemCriterion, ...]:
    first, returned = (
        {each["id"]: each for each in verdict["criteria"] or ()} if verdict else {}
        for verdict in (
            best_verdict([each for each in verdicts if each["number"] == number]) for number in (1, best_iteration)
        )
    )
    return tuple(
        ItemCriterion(
            name,
            statement(each),
            *(side.get(name, {}).get("passed") for side in (first, returned)),
            weight=each["weight"],
        )
        for name, each in (first | returned).items()
    )


def statement(criterion: Mapping[str, Any]) -> str:
    text = criterion["text"] or criterion["id"]
    return FAULT_ABSENT + text if criterion["weight"] < 0 else text


def _labels(fields: Mapping[str, Any]) -> dict[str, Any]:
    # The metadata of an invalid row may be any JSON value
    given = fields.get("metadata")
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else to_json(value).decode()
