"""A job's pages: its answer, its iterations, its calls, its events, its request."""

import json
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response

from api.dependencies import ServicesOf
from api.pages.jobs.job_charts import draw_waterfall
from api.pages.jobs.job_frame import JobIdOf, job_page
from api.pages.jobs.job_tabs import answer_tab, iterations_tab
from api.pages.jobs.job_texts import plain_text, request_texts
from api.pages.parts.rendering import pages_router
from redraft.errors import NotFound
from redraft.operations.jobs import queries, views

router = pages_router("/jobs/{job_id}")

Candidate = Annotated[int, Query(ge=1, le=1_000_000)]
Number = Annotated[int, Path(ge=1, le=1_000_000)]
After = Annotated[int, Query(ge=0, le=10**9)]
JSON_CHARS = 20_000


@router.get("")
def show_answer(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    """The answer, or the best so far, and how the job can go on."""
    return answer_tab(request, views.view_history(services, job_id))


@router.get("/answer.txt")
def get_answer(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    """The whole answer as plain text."""
    job = queries.get_job(services, job_id)
    if job.result is None:
        raise NotFound("answer", job_id)
    return plain_text(request, job.result["final_answer"], job.request["instruct"], job_id)


@router.get("/iterations")
def show_iterations(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    """What each iteration wrote, and what was said of it."""
    return iterations_tab(request, views.view_history(services, job_id))


@router.get("/iterations/{number}/answer.txt")
def get_iteration_answer(
    request: Request, services: ServicesOf, job_id: JobIdOf, number: Number, candidate: Candidate = 1
) -> Response:
    """The whole answer of one candidate as plain text."""
    found = queries.list_iterations(services, job_id, number)
    answer = next((each.answer for each in found if each.candidate == candidate), None)
    if answer is None:
        raise NotFound("candidate", f"{job_id}/{number}/{candidate}")
    return plain_text(request, answer, f"{job_id} iteration {number}", job_id)


@router.get("/calls")
def show_calls(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    """Every request to a model provider, on one clock."""
    view = views.view_calls(services, job_id)
    fall = draw_waterfall(view.calls) if view.calls else None
    return job_page(request, "job/calls.html", view, tab="/calls", calls=view.calls, has_more=view.has_more, fall=fall)


@router.get("/calls/{call_id}")
def show_call(request: Request, services: ServicesOf, job_id: JobIdOf, call_id: str) -> Response:
    """What was sent, and what came back."""
    view = views.view_call(services, job_id, call_id)
    texts = [("Request", _pretty(view.call.request)), ("Response", _pretty(view.call.response))]
    return job_page(
        request, "job/call.html", view, tab=f"/calls/{call_id}", call=view.call, texts=texts, json_chars=JSON_CHARS
    )


@router.get("/events")
def show_events(request: Request, services: ServicesOf, job_id: JobIdOf, after: After = 0) -> Response:
    """What happened, in order."""
    view = views.view_events(services, job_id, after)
    return job_page(request, "job/events.html", view, tab="/events", after=after)


@router.get("/request")
def show_request(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    """What was asked for, and how to ask for it again."""
    view = views.view_request(services, job_id)
    texts = request_texts(request, view.job)
    return job_page(
        request,
        "job/request.html",
        view,
        tab="/request",
        as_json=_pretty(view.job.request),
        json_chars=JSON_CHARS,
        **texts,
    )


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)
