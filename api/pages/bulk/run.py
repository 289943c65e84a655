"""The pages of a run: its progress, its report, its items, and actions on the run."""

import json
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import Depends, Query, Request, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from api.dependencies import ContextOf, ServicesOf
from api.http.parameters import NUMBER_MAX
from api.pages.bulk.run_forms import read_resume
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import address, confirm_page, page, pages_router, see_other
from api.routes.bulk.run_results import ItemStatus
from redraft.domain.statistics.estimates import share
from redraft.errors import Conflict
from redraft.operations.admin.readiness import alive_workers
from redraft.operations.bulk import deletion, run_listing, runs
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_listing import ItemFilter, ItemPage
from redraft.operations.bulk.run_previews import ResumePreview, Retry, preview_resume
from redraft.operations.bulk.run_resources import Run, RunCounts
from redraft.operations.jobs import webhooks
from redraft.operations.services import Services
from redraft.reports import wording
from redraft.reports.html import render_body
from redraft.reports.run_report import run_report

router = pages_router("/runs/{run_id}")

# Above this number of items a report takes seconds, so it is computed only on request
REPORTED_AT_ONCE = 500
_ITEMS = 50
# A report appends this to the id of a row that runs several times
_REPEAT = re.compile(r" \(repeat \d+\)\Z")


@router.get("")
async def show_run(request: Request, context: ContextOf, run_id: str, report: Literal["1"] | None = None) -> Response:
    view = await run_in_threadpool(run_listing.view_run, context.services, run_id)
    is_small = view.run.counts.total <= REPORTED_AT_ONCE
    body, sections = None, list[tuple[str, str]]()
    if report or (view.has_ended and is_small):
        body, sections = await to_thread.run_sync(_report, context.services, run_id, limiter=context.reports)
    shown: dict[str, Any] = {
        "report": body,
        "sections": sections,
        # The page is not refreshed while it shows a report, because a person may be reading it
        "is_live": not view.has_ended and body is None,
        "lacks_worker": not view.has_ended and not await run_in_threadpool(alive_workers, context.services),
        "settings": _settings(view.run),
        "rate": share(view.run.counts.accepted, view.run.counts.succeeded),
    }
    return page(request, "runs/run.html", view=view, run=view.run, wording=wording, **shown)


def _settings(run: Run) -> list[tuple[str, str]]:
    given = (("Defaults", run.defaults), ("Overrides", run.overrides))
    return [(words, json.dumps(fields, indent=2, ensure_ascii=False)) for words, fields in given if fields]


def _report(services: Services, run_id: str) -> tuple[Markup, list[tuple[str, str]]]:
    """Render the report, with links from criteria, errors and examples to the items. Also return its sections."""
    items = f"/runs/{run_id}/items"
    tables = run_tables(services, run_id)
    failing = {rate.id for rate in tables.report.criteria if rate.not_met}

    def row(name: str) -> str:
        return _link(items, row=_REPEAT.sub("", name))

    def criterion(name: str) -> str | None:
        return _link(items, not_met=name) if name in failing else None

    def error(code: str) -> str:
        return _link(items, error_code=code)

    links = {"criteria": criterion, "errors": error, "accepted": row, "lowest": row, "helped": row, "hurt": row}
    body = render_body(tables, links)
    return body, [(section.key, section.title) for section in run_report(tables).sections]


def _link(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}"


def get_chosen(
    status: Annotated[list[ItemStatus], Query(max_length=6)] = [],  # noqa: B006
    accepted: Literal["yes", "no"] | None = None,
    error_code: Annotated[str | None, Query(max_length=100)] = None,
    row: Annotated[str | None, Query(max_length=2000)] = None,
    not_met: Annotated[str | None, Query(max_length=2000)] = None,
) -> ItemFilter:
    return ItemFilter(tuple(status), None if accepted is None else accepted == "yes", error_code, row, not_met)


@router.get("/items")
def list_items(
    request: Request,
    services: ServicesOf,
    run_id: str,
    chosen: Annotated[ItemFilter, Depends(get_chosen)],
    after: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
    before: Annotated[int | None, Query(ge=1, le=NUMBER_MAX)] = None,
    at: Annotated[int | None, Query(ge=0, le=NUMBER_MAX)] = None,
) -> Response:
    """Show a page of items. `at`, the number of items before the page, is in the URL, because counting is slow."""
    run = runs.get_run(services, run_id)
    found = run_listing.list_items(services, run_id, chosen, after=after, before=before, limit=_ITEMS)
    total = _matching(run.counts, chosen) if found.total is None else found.total
    # Without a filter, the number of an item is its position in the list
    if chosen == ItemFilter() and found.items:
        at = found.items[0].number - 1
    places = Places(request, found, at if after or before else 0)
    return page(request, "runs/items.html", run=run, items=found.items, chosen=chosen, places=places, total=total)


def _matching(counts: RunCounts, chosen: ItemFilter) -> int:
    if chosen.is_accepted is not None:
        return counts.accepted if chosen.is_accepted else counts.succeeded - counts.accepted
    return sum(getattr(counts, status) for status in chosen.statuses) if chosen.statuses else counts.total


class Places:
    """The position of a page among all matching items: the positions of its items, and the pages beside it."""

    def __init__(self, request: Request, found: ItemPage, skipped: int | None) -> None:
        count, self.first, self.last = len(found.items), None, None
        if skipped is not None:
            self.first, self.last = skipped + 1, skipped + count
        self.earlier = self.later = None
        if found.items and found.has_earlier:
            at = None if skipped is None else max(0, skipped - _ITEMS)
            self.earlier = address(request, before=found.items[0].number, after=None, at=at)
        if found.items and found.has_later:
            self.later = address(request, after=found.items[-1].number, before=None, at=self.last)
        self.start = address(request, after=None, before=None, at=None)


@router.get("/cancel")
def ask_to_cancel(request: Request, services: ServicesOf, run_id: str) -> Response:
    run = runs.get_run(services, run_id)
    open_items = run.counts.queued + run.counts.running
    words = (
        f"{open_items:,} of {run.counts.total:,} items have not ended; they are canceled. The other items keep their "
        "results. Resume starts the canceled items later."
    )
    return confirm_page(
        request, "Cancel this run?", words, "Cancel the run", [("/runs", "Runs"), (f"/runs/{run_id}", run.name)]
    )


@router.post("/cancel")
def cancel_run(services: ServicesOf, run_id: str) -> Response:
    runs.cancel_run(services, run_id)
    return see_other(f"/runs/{run_id}", notice="canceled")


@router.get("/resume")
def ask_to_resume(request: Request, services: ServicesOf, run_id: str, retry: Retry = "open") -> Response:
    return _resume_page(request, preview_resume(services, run_id, retry))


@router.post("/resume")
def resume_run(request: Request, services: ServicesOf, run_id: str, form: FormOf) -> Response:
    body = read_resume(form)
    confirmed = form.text("items")[:9]
    if confirmed.isdecimal() and (shown := preview_resume(services, run_id, body.retry)).items > int(confirmed):
        # More items than the person has confirmed would cost more than the page has said
        trouble = f"The run has changed: the button said {confirmed}, and now there are {shown.items} such items."
        return _resume_page(request, shown, trouble, 409)
    runs.resume_run(services, run_id, body)
    return see_other(f"/runs/{run_id}", notice="run_resumed")


def _resume_page(request: Request, shown: ResumePreview, trouble: str | None = None, status: int = 200) -> Response:
    counts = shown.run.counts
    others = [
        ("open", f"Resume {counts.canceled:,} canceled"),
        ("failed", f"Retry {counts.failed:,} failed"),
        ("errors", f"Resume {counts.canceled:,} and retry {counts.failed:,}"),
    ]
    has_both = bool(counts.canceled and counts.failed) and shown.run.status != "running"
    kinds = [(shown.canceled, "resume", "canceled"), (shown.failed, "retry", "failed")]
    verbs = [f"{verb} {number:,}" for number, verb, _ in kinds if number]
    parts = [f"{number:,} {words}" for number, _, words in kinds if number]
    asked = {
        "verb": (" and ".join(verbs) or "Resume").capitalize(),
        "words": f"{' and '.join(parts)} {'item is' if shown.items == 1 else 'items are'} started again.",
    }
    view: dict[str, Any] = {"asked": asked, "others": others if has_both else [], "trouble": trouble}
    return page(request, "runs/resume.html", status, run=shown.run, shown=shown, **view)


@router.post("/deliveries/{delivery_id}/redeliver")
def redeliver(services: ServicesOf, run_id: str, delivery_id: str) -> Response:
    webhooks.redeliver(services, run_id, delivery_id)
    return see_other(f"/runs/{run_id}", notice="resent")


@router.get("/delete")
def ask_to_delete(request: Request, services: ServicesOf, run_id: str) -> Response:
    return page(request, "runs/delete.html", run=runs.get_run(services, run_id), trouble=None)


@router.post("/delete")
def delete_run(request: Request, services: ServicesOf, run_id: str) -> Response:
    try:
        deletion.delete_run(services, run_id)
    except Conflict as error:
        return page(request, "runs/delete.html", 409, run=runs.get_run(services, run_id), trouble=error.message)
    return see_other("/runs", notice="deleted")
