"""One run: how far it has come, its report, its items; and what people do to it."""

import json
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import Depends, Query, Request, Response
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, ServicesOf
from api.http.parameters import NUMBER_MAX
from api.pages.bulk.run_forms import read_resume
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import address, page, pages_router, see_other
from api.routes.bulk.run_results import ItemStatus
from redraft.domain.statistics.estimates import share
from redraft.errors import Conflict
from redraft.operations.bulk import removing, run_listing, runs
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_listing import ItemFilter
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs import webhooks
from redraft.operations.services import Services
from redraft.reports import wording
from redraft.reports.html import render_body

router = pages_router("/runs/{run_id}")

REPORTED_AT_ONCE = 500
"""A report of more items is reckoned when it is asked for."""

_ITEMS = 50
_REPEAT = re.compile(r" \(repeat \d+\)\Z")


@router.get("")
async def show_run(request: Request, context: ContextOf, run_id: str, report: Literal["1"] | None = None) -> Response:
    """How far a run has come and, once it has ended or if it is asked for, its report."""
    view = await run_in_threadpool(run_listing.view_run, context.services, run_id)
    is_small = view.run.counts.total <= REPORTED_AT_ONCE
    body = await _compute(context, run_id) if report or (view.has_ended and is_small) else None
    rate = share(view.run.counts.accepted, view.run.counts.succeeded)
    shown: dict[str, Any] = {
        "report": body,
        "is_live": not view.has_ended and body is None,
        "settings": _settings(view.run),
    }
    return page(request, "runs/run.html", view=view, run=view.run, rate=rate, wording=wording, **shown)


def _settings(run: Run) -> list[tuple[str, str]]:
    given = (("Defaults", run.defaults), ("Overrides", run.overrides))
    return [(words, json.dumps(fields, indent=2, ensure_ascii=False)) for words, fields in given if fields]


async def _compute(context: Context, run_id: str) -> Markup:
    return await to_thread.run_sync(_report, context.services, run_id, limiter=context.reports)


def _report(services: Services, run_id: str) -> Markup:
    """The report, with ways from its error groups and lowest scores to the items."""
    items = f"/runs/{run_id}/items"
    return render_body(
        run_tables(services, run_id),
        {
            "errors": lambda code: f"{items}?{urlencode({'error_code': code})}",
            "lowest": lambda name: f"{items}?{urlencode({'row': _REPEAT.sub('', name)})}",
        },
    )


def get_chosen(
    status: Annotated[list[ItemStatus], Query(max_length=6)] = [],  # noqa: B006
    accepted: Literal["yes", "no"] | None = None,
    error_code: Annotated[str | None, Query(max_length=100)] = None,
    row: Annotated[str | None, Query(max_length=2000)] = None,
) -> ItemFilter:
    """The item filter of the query."""
    return ItemFilter(tuple(status), None if accepted is None else accepted == "yes", error_code, row)


@router.get("/items")
def list_items(
    request: Request,
    services: ServicesOf,
    run_id: str,
    chosen: Annotated[ItemFilter, Depends(get_chosen)],
    after: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
) -> Response:
    """Items, all or some of them."""
    run = runs.get_run(services, run_id)
    items, more = run_listing.list_items(services, run_id, chosen, after=after, limit=_ITEMS)
    following = address(request, after=more) if more is not None else None
    shown: dict[str, Any] = {"chosen": chosen, "next_address": following, "is_first": after == 0}
    return page(request, "runs/items.html", run=run, items=items, **shown)


@router.post("/cancel")
def cancel_run(services: ServicesOf, run_id: str) -> Response:
    """Start no more items, and cancel those under way."""
    runs.cancel_run(services, run_id)
    return see_other(f"/runs/{run_id}", notice="canceled")


@router.post("/resume")
def resume_run(services: ServicesOf, run_id: str, form: FormOf) -> Response:
    """Resume the open items and, if chosen, the failed ones."""
    runs.resume_run(services, run_id, read_resume(form))
    return see_other(f"/runs/{run_id}", notice="run_resumed")


@router.post("/deliveries/{delivery_id}/redeliver")
def redeliver(services: ServicesOf, run_id: str, delivery_id: str) -> Response:
    """Send a delivery of the run's webhook again."""
    webhooks.redeliver(services, run_id, delivery_id)
    return see_other(f"/runs/{run_id}", notice="resent")


@router.get("/delete")
def ask_to_delete(request: Request, services: ServicesOf, run_id: str) -> Response:
    """Ask for confirmation."""
    return page(request, "runs/delete.html", run=runs.get_run(services, run_id), trouble=None)


@router.post("/delete")
def delete_run(request: Request, services: ServicesOf, run_id: str) -> Response:
    """Remove a run that has ended, with its items and their jobs."""
    try:
        removing.delete_run(services, run_id)
    except Conflict as error:
        return page(request, "runs/delete.html", 409, run=runs.get_run(services, run_id), trouble=error.message)
    return see_other("/runs", notice="deleted")
