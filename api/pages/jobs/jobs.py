"""The pages `/jobs`: the job list with its filters, and the export, cancellation and deletion of many jobs."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.responses import StreamingResponse

from api.dependencies import ServicesOf
from api.http.downloads import disposition
from api.pages.jobs.job_charts import sparkline
from api.pages.jobs.job_filters import (
    FILTERS,
    SORTS,
    chips,
    filters_of,
    is_narrowed,
    link,
    only_jobs,
    pairs_of,
    quick_chips,
    read_filter,
    read_shown,
    tidy_address,
    write_shown,
)
from api.pages.jobs.job_frame import JobIdOf
from api.pages.parts.forms import Form, FormOf, read_count
from api.pages.parts.rendering import own_path, page, pages_router, see_other
from redraft.domain.jobs.states import JobKind, Outcome, StopReason
from redraft.errors import Invalid
from redraft.operations.jobs import job_lists
from redraft.operations.jobs.job_lists import COUNT_MAX, Action, ActionResult, JobLines
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter

router = pages_router()

# The maximum number of ids. No page of the list has more jobs, and a URL with so many ids is short enough for proxies
_IDS_MAX = 100
_MARKED, _ALL = "marked", "all"


@router.get("/jobs")
def show_jobs(request: Request, services: ServicesOf) -> Response:
    if tidy := tidy_address(request):
        return RedirectResponse(tidy, 303)
    try:
        found, criteria = _find_lines(request, services)
    except Invalid as error:
        context = _context(request, services, JobLines([], None), JobFilter())
        context["errors"] = {field_error.pointer.removeprefix("/"): field_error.detail for field_error in error.errors}
        return page(request, "jobs/list.html", 422, **context)
    return page(request, "jobs/list.html", **_context(request, services, found, criteria))


def _find_lines(request: Request, services: Services) -> tuple[JobLines, JobFilter]:
    params = request.query_params
    criteria, cursor, shown = read_filter(params.multi_items()), params.get("after"), params.get("shown")
    # An open page reloads only the jobs that it shows, because new jobs would move a row that a user is about to click
    if shown and not criteria.is_searched and criteria.sort == "time":
        return job_lists.refresh(services, criteria, read_shown(shown), cursor), criteria
    return job_lists.list_lines(services, criteria, cursor), criteria


def _context(request: Request, services: Services, found: JobLines, criteria: JobFilter) -> dict[str, Any]:
    return {
        "found": found,
        "criteria": criteria,
        "errors": {},
        "labels": FILTERS,
        "is_narrowed": is_narrowed(request.query_params.multi_items()),
        "has_any": bool(found.lines) or job_lists.count(services, JobFilter(), most=1) > 0,
        "shown": write_shown([line.id for line in found.lines]) or None,
        "filters": urlencode(filters_of(request.query_params.multi_items())),
        "place": urlencode([pair for pair in request.query_params.multi_items() if pair[0] not in {"shown", "notice"}]),
        "chips": chips(request),
        "quick": quick_chips(request, services),
        "sorts": SORTS,
        "link": link,
        "sparkline": sparkline,
        "models": services.providers.models(),
        "outcomes": [each.value for each in Outcome],
        "stop_reasons": [each.value for each in StopReason],
        "kinds": [each.value for each in JobKind],
    }


@router.get("/jobs/criteria")
def show_criteria(request: Request, services: ServicesOf) -> Response:
    """Show how many of the returned answers of a list of jobs meet each criterion."""
    pairs = filters_of(request.query_params.multi_items())
    rates = job_lists.rate_criteria(services, read_filter(pairs))
    others = [pair for pair in pairs if pair[0] not in {"not_met", "sort", "order", "limit"}]
    links = {each.id: f"/jobs?{urlencode([*others, ('not_met', each.id)])}" for each in rates.counts}
    view: dict[str, Any] = {"chips": chips(request), "quick": quick_chips(request, services), "links": links}
    return page(request, "jobs/criteria.html", rates=rates, filters=urlencode(pairs), **view)


@router.get("/jobs/{job_id}/beside")
def go_beside(
    services: ServicesOf, job_id: JobIdOf, to: Literal["previous", "next"], place: Annotated[str, Query(alias="list")]
) -> Response:
    """Redirect to the next or the previous job of a list. If there is no such job, redirect to the list."""
    pairs = pairs_of(place)
    found = job_lists.neighbour(services, read_filter(pairs), dict(pairs).get("after"), job_id, is_next=to == "next")
    if found:
        return see_other(f"/jobs/{found}", list=place)
    return RedirectResponse(f"/jobs?{urlencode([*pairs, ('notice', f'no_{to}')])}", 303)


@router.get("/jobs/export")
def export_jobs(request: Request, services: ServicesOf) -> Response:
    params = request.query_params
    ids = only_jobs(params.getlist("job"))[:_IDS_MAX]
    if params.get("which") == _MARKED and not ids:
        return see_other("/jobs", notice="none_marked")
    if ids:
        lines = job_lists.export(services, ids)
    else:
        lines = job_lists.export_matching(services, read_filter(filters_of(params.multi_items())))
    headers = {"Content-Disposition": disposition("redraft-jobs", "redraft-jobs", ".jsonl")}
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


@dataclass(frozen=True, slots=True)
class _Bulk:
    """An action on the jobs with these ids.

    Without ids, an action on all jobs that match the query string `filters`.
    """

    deed: Action
    ids: list[str]
    filters: str
    back: str

    @classmethod
    def read(cls, deed: str, ids: list[str], filters: str, back: str | None) -> "_Bulk":
        if deed not in {"cancel", "delete"}:
            raise Invalid.at("/do", "Only cancel and delete are possible.", "unknown_deed")
        back = filters if back is None else back
        # `back` becomes a part of a URL, so it must be safe
        is_own = own_path(f"/jobs?{back}") != "/"
        return cls(cast("Action", deed), only_jobs(ids)[:_IDS_MAX], filters, back if is_own else "")

    @property
    def criteria(self) -> JobFilter:
        return read_filter(pairs_of(self.filters))


@router.get("/jobs/bulk")
def confirm(request: Request, services: ServicesOf) -> Response:
    """Ask for confirmation before many jobs are canceled or deleted. Afterwards, show how many jobs have changed."""
    params = request.query_params
    bulk = _Bulk.read(params.get("do", ""), params.getlist("job"), params.get("filters", ""), params.get("back"))
    if params.get("which") == _MARKED and not bulk.ids:
        return see_other("/jobs", notice="none_marked")
    if "done" in params:
        numbers: dict[str, Any] = {name: read_count(params.get(name, "")) for name in ("done", "kept")}
        return page(request, "jobs/bulk.html", bulk=bulk, state="over", **numbers)
    return page(request, "jobs/bulk.html", state="asking", **_frozen(services, bulk))


def _frozen(services: Services, bulk: _Bulk) -> dict[str, Any]:
    if bulk.ids:
        return {"bulk": bulk, "total": len(bulk.ids), "most": COUNT_MAX}
    # A person confirms a number of jobs, so the action must not apply to jobs that are created later
    criteria = job_lists.freeze(services, bulk.criteria)
    possible = job_lists.possible(bulk.deed, criteria)
    total = job_lists.count(services, possible) if possible else 0
    until = criteria.created_before
    kept = [pair for pair in pairs_of(bulk.filters) if pair[0] != "created_before"]
    filters = urlencode([*kept, *([("created_before", until.isoformat())] if until else [])])
    frozen = _Bulk(bulk.deed, [], filters, bulk.back)
    return {"bulk": frozen, "total": total, "most": COUNT_MAX, "is_narrowed": is_narrowed(pairs_of(bulk.filters))}


@router.post("/jobs/bulk")
def do_to_many(request: Request, services: ServicesOf, form: FormOf) -> Response:
    # A request handles one batch, because thousands of jobs take longer than a proxy waits
    bulk = _Bulk.read(form.text("do"), form.texts("job"), form.text("filters"), form.text("back"))
    sums = _do(services, bulk, form)
    if sums.cursor is None:
        return see_other("/jobs/bulk", do=bulk.deed, done=str(sums.done), kept=str(sums.kept), back=bulk.back)
    return page(
        request, "jobs/bulk.html", bulk=bulk, state="going", total=read_count(form.text("total")), **asdict(sums)
    )


def _do(services: Services, bulk: _Bulk, form: Form) -> ActionResult:
    """Act on the jobs with these ids or on the next batch. Return the sums over all batches so far."""
    # A form without ids must not mean all jobs, because a faulty client can omit the ids
    if not bulk.ids and form.text("which") != _ALL:
        raise Invalid.at("/job", "Select jobs, or choose all jobs.", "missing")
    if bulk.ids:
        result = job_lists.act_on(services, bulk.deed, bulk.ids)
    else:
        result = job_lists.act_on_matching(services, bulk.deed, bulk.criteria, form.text("cursor") or None)
    done, kept = (read_count(form.text(name)) for name in ("done", "kept"))
    return replace(result, done=done + result.done, kept=kept + result.kept)
