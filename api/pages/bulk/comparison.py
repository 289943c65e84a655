"""The pages that compare two runs, and the two answers to a row."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import Query, Request, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from api.dependencies import ContextOf, ServicesOf
from api.http.parameters import NUMBER_MAX
from api.pages.bulk.run import REPORTED_AT_ONCE
from api.pages.parts.rendering import address, page, pages_router, see_other
from redraft.domain.bulk.row_alignment import RowPair
from redraft.domain.text.diffs import compare_words
from redraft.operations.bulk import run_listing, runs
from redraft.operations.bulk.report_tables import compare_by_row
from redraft.operations.services import Services
from redraft.reports.html import render_body

router = pages_router("/runs/compare")

_ROWS = 50
_CHOICES = 100
RunId = Annotated[str, Query(max_length=40)]


@router.get("")
async def compare(
    request: Request,
    context: ContextOf,
    run: Annotated[list[str], Query(max_length=10)] = [],  # noqa: B006
    baseline: RunId = "",
    changed: Literal["1"] | None = None,
    after: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
    report: Literal["1"] | None = None,
) -> Response:
    if not baseline or len(run) != 1:
        return await run_in_threadpool(_choose, request, context.services, [*filter(None, [baseline, *run])])
    both = [await run_in_threadpool(runs.get_run, context.services, each) for each in (baseline, run[0])]
    # A large comparison takes seconds, so it is computed only on request
    is_small = sum(each.counts.total for each in both) <= 2 * REPORTED_AT_ONCE
    body, pairs = None, ()
    if report or is_small:
        body, pairs = await to_thread.run_sync(_compare, context.services, baseline, run[0], limiter=context.reports)
    shown = _rows(request, pairs, changed=changed is not None, after=after)
    return page(request, "runs/compare.html", baseline=both[0], new=both[1], body=body, **shown)


def _choose(request: Request, services: Services, chosen: Sequence[str]) -> Response:
    # If two runs were selected in the list, the older run is the baseline
    if len(chosen) == 2 and chosen[0] != chosen[1]:
        older, newer = sorted((runs.get_run(services, each) for each in chosen), key=lambda run: run.created_at)
        return see_other("/runs/compare", baseline=older.id, run=newer.id)
    known, _ = run_listing.list_runs(services, cursor=None, limit=_CHOICES)
    return page(request, "runs/choose.html", runs=known, chosen=[*chosen, "", ""][:2], number=len(chosen))


def _compare(services: Services, baseline_id: str, run_id: str) -> tuple[Markup, Sequence[RowPair]]:
    tables, pairs = compare_by_row(services, baseline_id, run_id)
    return render_body(tables), pairs


def _rows(request: Request, pairs: Sequence[RowPair], *, changed: bool, after: int) -> dict[str, Any]:
    wanted = [pair for pair in pairs if pair.change.is_change] if changed else pairs
    return {
        "rows": wanted[after : after + _ROWS],
        "number": len(wanted),
        "changes": sum(pair.change.is_change for pair in pairs),
        "is_changed_only": changed,
        "next_address": address(request, after=after + _ROWS) if len(wanted) > after + _ROWS else None,
        "is_first": after == 0,
    }


@router.get("/row")
def show_row(
    request: Request,
    services: ServicesOf,
    baseline: RunId,
    run: RunId,
    row: Annotated[str, Query(max_length=2000)],
    repeat: Annotated[int, Query(ge=1, le=100)] = 1,
) -> Response:
    """Show the question of a row, both answers, and their differences word by word."""
    sides = run_listing.get_sides(services, baseline, run, row, repeat)
    answers = [each.answer if each else None for each in (sides.baseline, sides.new)]
    diff = compare_words(answers[0], answers[1]) if answers[0] and answers[1] else None
    repeats = min(sides.baseline_run.repeat, sides.new_run.repeat)
    return page(request, "runs/row.html", sides=sides, row=row, repeat=repeat, repeats=repeats, diff=diff)
