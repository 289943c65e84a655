"""`/jobs`: all jobs, narrowed by the address; what is done to many at once."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from starlette.responses import StreamingResponse

from api.dependencies import ServicesOf
from api.http.downloads import disposition
from api.pages.jobs.job_filters import (
    FILTERS,
    chips,
    filters_of,
    is_narrowed,
    link,
    only_jobs,
    pairs_of,
    read_filter,
    read_shown,
    tidy_address,
    write_shown,
)
from api.pages.parts.forms import Form, FormOf
from api.pages.parts.rendering import own_path, page, pages_router, see_other
from api.pages.parts.sparklines import sparkline
from redraft.domain.jobs.states import JobKind, JobStatus, StopReason
from redraft.errors import Invalid
from redraft.operations.jobs import job_lists
from redraft.operations.jobs.job_lists import COUNT_MAX, Action, ActionResult, JobLines
from redraft.operations.services import Services
from redraft.storage.jobs.jobs import JobFilter

router = pages_router()

_IDS_MAX = 100
_MARKED, _ALL = "marked", "all"


@router.get("/jobs")
def show_jobs(request: Request, services: ServicesOf) -> Response:
    """A page of the list; or, for a page that is open, the same jobs as they are now."""
    if tidy := tidy_address(request):
        return RedirectResponse(tidy, 303)
    try:
        found, criteria = _look(request, services)
    except Invalid as error:
        errors = {field_error.pointer.removeprefix("/"): field_error.detail for field_error in error.errors}
        return page(request, "jobs/list.html", 422, **_context(request, services, JobLines([], None), errors=errors))
    return page(request, "jobs/list.html", **_context(request, services, found, criteria))


def _look(request: Request, services: Services) -> tuple[JobLines, JobFilter]:
    params = request.query_params
    criteria, cursor, shown = read_filter(params.multi_items()), params.get("after"), params.get("shown")
    if shown:
        return job_lists.refresh(services, criteria, read_shown(shown), cursor), criteria
    return job_lists.list_lines(services, criteria, cursor), criteria


def _context(
    request: Request,
    services: Services,
    found: JobLines,
    criteria: JobFilter | None = None,
    errors: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "found": found,
        "criteria": criteria or JobFilter(),
        "errors": errors or {},
        "labels": FILTERS,
        "is_narrowed": is_narrowed(request.query_params.multi_items()),
        "has_any": bool(found.lines) or job_lists.has_any(services),
        "shown": write_shown([line.id for line in found.lines]) or None,
        "filters": urlencode(filters_of(request.query_params.multi_items())),
        "chips": chips(request),
        "link": link,
        "sparkline": sparkline,
        "models": services.providers.models(),
        "statuses": [each.value for each in JobStatus],
        "stop_reasons": [each.value for each in StopReason],
        "kinds": [each.value for each in JobKind],
    }


@router.get("/jobs/export")
def export_jobs(request: Request, services: ServicesOf) -> Response:
    """The marked jobs, or all that match, as a file of JSON lines."""
    params = request.query_params
    ids = only_jobs(params.getlist("job"))[:_IDS_MAX]
    if params.get("which") == _MARKED and not ids:
        return see_other("/jobs", notice="none_marked")
    lines: Iterator[str] = (
        job_lists.export(services, ids) if ids else job_lists.export_matching(services, _wanted(request))
    )
    headers = {"Content-Disposition": disposition("redraft-jobs", "redraft-jobs", ".jsonl")}
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


def _wanted(request: Request) -> JobFilter:
    return read_filter(filters_of(request.query_params.multi_items()))


@dataclass(frozen=True, slots=True)
class _Bulk:
    """What is to be done to whom.

    Attributes:
        ids: the marked jobs; empty: all that match `filters`, which is a part of an address.
    """

    deed: Action
    ids: list[str]
    filters: str
    back: str

    @classmethod
    def read(cls, deed: str, ids: list[str], filters: str, back: str) -> "_Bulk":
        """Raises Invalid for what nobody can do."""
        if deed not in {"cancel", "delete"}:
            raise Invalid.at("/do", "Only cancel and delete are possible.", "unknown_deed")
        # It goes into an address.
        is_own = own_path(f"/jobs?{back}") != "/"
        return cls(cast("Action", deed), only_jobs(ids)[:_IDS_MAX], filters, back if is_own else "")

    @property
    def criteria(self) -> JobFilter:
        return read_filter(pairs_of(self.filters))


@router.get("/jobs/bulk")
def confirm(request: Request, services: ServicesOf) -> Response:
    """Ask before many jobs are canceled or deleted; afterwards, tell to how many it was done."""
    params = request.query_params
    filters = params.get("filters", "")
    bulk = _Bulk.read(params.get("do", ""), params.getlist("job"), filters, params.get("back", filters))
    if params.get("which") == _MARKED and not bulk.ids:
        return see_other("/jobs", notice="none_marked")
    if "done" in params:
        return page(
            request,
            "jobs/bulk.html",
            bulk=bulk,
            state="over",
            done=_number(params["done"]),
            kept=_number(params.get("kept", "")),
        )
    return page(request, "jobs/bulk.html", state="asking", **_frozen(services, bulk))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _frozen(services: Services, bulk: _Bulk) -> dict[str, Any]:
    """For the jobs that are there now, and how many of them it can be done to."""
    if bulk.ids:
        return {"bulk": bulk, "total": len(bulk.ids), "most": COUNT_MAX}
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
    """Cancel or delete the marked jobs, or a batch of those that match."""
    bulk = _bulk_of(form)
    sums = _sums(form, _do(services, bulk, form.text("cursor") or None))
    if sums.cursor is None:
        return see_other("/jobs/bulk", do=bulk.deed, done=str(sums.done), kept=str(sums.kept), back=bulk.back)
    return page(request, "jobs/bulk.html", bulk=bulk, state="going", total=_number(form.text("total")), **asdict(sums))


def _bulk_of(form: Form) -> _Bulk:
    """Raises Invalid when it does not say which jobs are meant."""
    bulk = _Bulk.read(form.text("do"), form.texts("job"), form.text("filters"), form.text("back"))
    if not bulk.ids and form.text("which") != _ALL:
        raise Invalid.at("/job", "Which jobs?", "missing")
    return bulk


def _do(services: Services, bulk: _Bulk, cursor: str | None) -> ActionResult:
    if bulk.ids:
        return job_lists.act_on(services, bulk.deed, bulk.ids)
    return job_lists.act_on_matching(services, bulk.deed, bulk.criteria, cursor)


def _sums(form: Form, result: ActionResult) -> ActionResult:
    """With what the batches before came to."""
    done, kept = _number(form.text("done")) + result.done, _number(form.text("kept")) + result.kept
    return replace(result, done=done, kept=kept)
