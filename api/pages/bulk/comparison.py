"""The pages that compare runs row by row, or the answers of all runs to one row."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from api.dependencies import ContextOf, ServicesOf
from api.http.parameters import NUMBER_MAX
from api.pages.bulk.run import REPORTED_AT_ONCE
from api.pages.parts.answer_diffs import ShownDiff, compare_answers
from api.pages.parts.rendering import address, page, pages_router, see_other
from redraft.domain.bulk.comparison_metrics import Metric
from redraft.domain.bulk.criteria_comparison import ComparedCriterion
from redraft.domain.bulk.row_alignment import Change
from redraft.errors import Invalid
from redraft.operations.bulk import run_listing, runs
from redraft.operations.bulk.comparison_matrix import RUNS_MAX, Matrix, RowQuery, Sort, compare_runs
from redraft.operations.bulk.run_listing import Side
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from redraft.reports import wording

router = pages_router("/runs/compare")

_ROWS = 50
_CHOICES = 100
_CRITERIA = 20
_BECAME = ("not_met", "met")
_GROUPS = {
    "changed": frozenset(each for each in Change if each.is_change),
    "worse": frozenset({Change.NEWLY_FAILING, Change.VERDICT_LOST, Change.LOWER}),
    "better": frozenset({Change.NEWLY_PASSING, Change.VERDICT_WON, Change.HIGHER}),
}
SORTS: Mapping[Sort, str] = {
    "change": "change",
    "difference": "largest loss",
    "score": "lowest score",
    "cost": "highest cost",
    "time": "longest time",
    "row": "row",
}
RunId = Annotated[str, Query(max_length=40)]
RunIds = Annotated[list[str], Query(max_length=10)]


def read_query(
    change: Annotated[list[str], Query(max_length=10)] = [],  # noqa: B006
    label: Annotated[str, Query(max_length=600)] = "",
    criterion: Annotated[str | None, Query(max_length=2000)] = None,
    became: Literal["met", "not_met"] = "not_met",
    sort: Sort = "change",
    after: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
) -> RowQuery:
    return RowQuery(_changes(change), _metadata(label), criterion, became == "met", sort, after, _ROWS)


@router.get("")
async def compare(
    request: Request,
    context: ContextOf,
    query: Annotated[RowQuery, Depends(read_query)],
    run: RunIds = [],  # noqa: B006
    baseline: RunId = "",
    report: Literal["1"] | None = None,
) -> Response:
    if not baseline or not run:
        return await run_in_threadpool(_choose, request, context.services, [*filter(None, [baseline, *run])])
    chosen = [baseline, *run]
    found = [await run_in_threadpool(runs.get_run, context.services, each) for each in chosen]
    # A large comparison takes seconds, so it is computed only on request
    matrix = None
    if report or sum(each.counts.total for each in found) <= len(found) * REPORTED_AT_ONCE:
        matrix = await to_thread.run_sync(compare_runs, context.services, chosen, query, limiter=context.reports)
    return page(request, "runs/compare.html", runs=found, matrix=matrix, **_shown(request, matrix, query))


def _changes(names: Sequence[str]) -> frozenset[Change]:
    if len(names) == 1 and names[0] in _GROUPS:
        return _GROUPS[names[0]]
    known = {each.name.lower(): each for each in Change}
    if unknown := [name for name in names if name not in known]:
        raise Invalid.at("/change", f"There is no change {unknown[0][:80]}.", "invalid_filter")
    return frozenset(known[name] for name in names)


def _metadata(label: str) -> dict[str, str]:
    if not label:
        return {}
    key, equals, value = label.partition("=")
    if not equals or not key.strip():
        raise Invalid.at("/label", "Write a label as key=value.", "invalid_filter")
    return {key.strip(): value.strip()}


def _choose(request: Request, services: Services, chosen: Sequence[str]) -> Response:
    # The oldest of the runs that were selected in the list is the baseline
    if 2 <= len(set(chosen)) == len(chosen) <= RUNS_MAX:
        ordered = sorted((runs.get_run(services, each) for each in chosen), key=lambda run: run.created_at)
        baseline, *others = [each.id for each in ordered]
        return see_other("/runs/compare", baseline=baseline, run=others)
    known, _ = run_listing.list_runs(services, cursor=None, limit=_CHOICES)
    others = [run.id for run in known if run.id not in chosen]
    view: dict[str, Any] = {"chosen": [*chosen, *others][:2], "number": len(chosen), "most": RUNS_MAX}
    return page(request, "runs/choose.html", runs=known, **view)


def _shown(request: Request, matrix: Matrix | None, query: RowQuery) -> dict[str, Any]:
    if matrix is None:
        return {}
    has_more = matrix.number > query.after + _ROWS
    names = list(dict.fromkeys(metric.name for each in matrix.against for metric in each.metrics))
    figures = [(name, [_figure(each.metrics, name) for each in matrix.against]) for name in names]
    filters = [(each.name.lower(), each.words, matrix.counts[each]) for each in Change if matrix.counts.get(each)]
    groups = [(name, name, sum(matrix.counts.get(each, 0) for each in group)) for name, group in _GROUPS.items()]
    return {
        "figures": figures,
        "by_criterion": [_criterion(request, each) for each in matrix.criteria[:_CRITERIA]],
        "chosen": query,
        "filters": [*groups, *filters],
        "total": sum(matrix.counts.values()),
        "next_address": address(request, after=query.after + _ROWS) if has_more else None,
        "is_first": query.after == 0,
        "changes": request.query_params.getlist("change"),
        "label": request.query_params.get("label", ""),
        "sort": query.sort,
        "sorts": SORTS,
    }


def _criterion(request: Request, found: ComparedCriterion) -> dict[str, Any]:
    """Return the counts and differences of a criterion in words, with links to the rows behind them."""
    chosen = {"criterion": found.id, "change": None, "after": None}
    rows = [(became, address(request, became=became, **chosen)) for became in _BECAME]
    numbers = (len(found.newly_not_met), len(found.newly_met))
    words = [(rate, wording.share(rate.returned)) if rate else None for rate in found.rates]
    changes = [
        each and f"{wording.points(each.value)} ({wording.span(each, wording.points)})" for each in found.differences
    ]
    return {
        "id": found.id,
        "text": found.text,
        "items": urlencode({"not_met": found.id}),
        "rates": list(zip(words, [None, *changes], strict=True)),
        "changed": [(number, *each) for number, each in zip(numbers, rows, strict=True) if number],
    }


def _figure(metrics: Sequence[Metric], name: str) -> tuple[str, str] | None:
    """The values of both runs, and the difference with its interval; None if no row has the figure in both."""
    metric = next((each for each in metrics if each.name == name), None)
    return metric and wording.metric(metric)


@router.get("/row")
def show_row(
    request: Request,
    services: ServicesOf,
    baseline: RunId,
    row: Annotated[str, Query(max_length=2000)],
    run: RunIds = [],  # noqa: B006
    repeat: Annotated[int, Query(ge=1, le=100)] = 1,
) -> Response:
    """Show the question of a row, all answers, their differences word by word, and the verdicts by criterion."""
    sides = run_listing.get_sides(services, [baseline, *run][:RUNS_MAX], row, repeat)
    known = [side for _, side in sides if side]
    shown: dict[str, Any] = {
        "question": next((side.question for side in known if side.question), None),
        "diffs": _diffs(sides),
        "criteria": _criteria([side for _, side in sides]),
        "repeats": min(run.repeat for run, _ in sides),
    }
    return page(request, "runs/row.html", sides=sides, row=row, repeat=repeat, **shown)


def _diffs(sides: Sequence[tuple[Run, Side | None]]) -> list[tuple[Run, ShownDiff]]:
    """Compare the answer of the first run with those of the others."""
    first = sides[0][1]
    if first is None or not first.answer:
        return []
    return [(run, compare_answers(first.answer, side.answer)) for run, side in sides[1:] if side and side.answer]


def _criteria(sides: Sequence[Side | None]) -> list[tuple[str, str, list[Any]]]:
    """Each criterion with its result in each run, in the order of the first run that has it."""
    by_side = [
        {each.id: each for each in side.evaluation.criteria} if side and side.evaluation else {} for side in sides
    ]
    texts = {name: each.text or each.id for criteria in by_side for name, each in criteria.items()}
    return [(name, words, [criteria.get(name) for criteria in by_side]) for name, words in texts.items()]
