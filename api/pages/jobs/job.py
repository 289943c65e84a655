"""The pages of a job, one for each tab: answer, iterations, calls, events and request."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response

from api.dependencies import ServicesOf
from api.http.parameters import ITERATION_MAX
from api.pages.jobs.job_answers import answer_of, pending_of
from api.pages.jobs.job_calls import changes_of, messages_of, neighbors_of, reply_of, reported_calls, verdict_of
from api.pages.jobs.job_charts import draw_scores
from api.pages.jobs.job_comparisons import compared_of
from api.pages.jobs.job_frame import JobIdOf, job_page
from api.pages.jobs.job_progress import best_attempts, by_number, continuations_after, same_answers, strip_of
from api.pages.jobs.job_texts import plain_text, request_texts
from api.pages.jobs.job_trace import trace_of
from api.pages.new.job_form_fields import LABELS
from api.pages.parts.answer_diffs import readable
from api.pages.parts.forms import Filled
from api.pages.parts.rendering import pages_router
from redraft.errors import NotFound
from redraft.operations.admin.installation import list_models
from redraft.operations.bulk import evaluator_tests
from redraft.operations.evaluation.ratings import Rating
from redraft.operations.jobs import queries, views
from redraft.operations.jobs.resources import Call, Job
from redraft.operations.jobs.views import HistoryView
from redraft.operations.services import Services

router = pages_router("/jobs/{job_id}")

Candidate = Annotated[int, Query(ge=1, le=ITERATION_MAX)]
Number = Annotated[int, Path(ge=1, le=ITERATION_MAX)]
After = Annotated[int, Query(ge=0, le=10**9)]
JSON_CHARS = 20_000
_EMPTY = Filled()


@router.get("")
def show_answer(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    return answer_tab(request, services, views.view_history(services, job_id))


@router.get("/answer.txt")
def get_answer(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    job = queries.get_job(services, job_id)
    if job.result is None:
        raise NotFound("answer", job_id)
    return plain_text(request, job.result["final_answer"], job.request["instruct"], job_id)


@router.get("/iterations")
def show_iterations(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    return iterations_tab(request, views.view_history(services, job_id))


@router.get("/iterations/{number}/answer.txt")
def get_iteration_answer(
    request: Request, services: ServicesOf, job_id: JobIdOf, number: Number, candidate: Candidate = 1
) -> Response:
    found = queries.list_iterations(services, job_id, number)
    answer = next((each.answer for each in found if each.candidate == candidate), None)
    if answer is None:
        raise NotFound("candidate", f"{job_id}/{number}/{candidate}")
    return plain_text(request, answer, f"{job_id} iteration {number}", job_id)


@router.get("/calls")
def show_trace(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    view = views.view_trace(services, job_id)
    trace = trace_of(view, datetime.now(UTC)) if view.calls else None
    at = request.query_params.get("at", "")
    row = trace.find(at) if trace else None
    call = queries.get_call(services, job_id, row.call.id) if row and row.call else None
    reply = reply_of(call.response) if call else ""
    shown: dict[str, Any] = {"trace": trace, "at": at, "row": row, "call": call, "reply": reply}
    return job_page(request, "job/calls.html", view, tab="/calls", **shown, verdict=_verdict(call, reply))


@router.get("/calls/{call_id}")
def show_call(request: Request, services: ServicesOf, job_id: JobIdOf, call_id: str) -> Response:
    view = views.view_call(services, job_id, call_id)
    texts = [("Request", _pretty(view.call.request)), ("Response", _pretty(view.call.response))]
    near = neighbors_of(view.call, view.calls)
    earlier = queries.get_call(services, job_id, near.earlier.id) if near.earlier else None
    reply = reply_of(view.call.response)
    shown: dict[str, Any] = {
        "call": view.call,
        "texts": texts,
        "json_chars": JSON_CHARS,
        "near": near,
        "messages": messages_of(view.call.request),
        "reply": reply,
        "verdict": _verdict(view.call, reply),
        "changes": list(readable(changes_of(view.call, earlier))),
    }
    return job_page(request, "job/call.html", view, tab=f"/calls/{call_id}", **shown)


@router.get("/events")
def show_events(request: Request, services: ServicesOf, job_id: JobIdOf, after: After = 0) -> Response:
    view = views.view_events(services, job_id, after)
    reported = reported_calls(view.events, view.calls)
    return job_page(request, "job/events.html", view, tab="/events", after=after, reported=reported)


@router.get("/request")
def show_request(request: Request, services: ServicesOf, job_id: JobIdOf) -> Response:
    view = views.view_request(services, job_id)
    shown: dict[str, Any] = {
        "as_json": _pretty(view.job.request),
        "json_chars": JSON_CHARS,
        **request_texts(request, view.job),
    }
    return job_page(request, "job/request.html", view, tab="/request", **shown)


def _verdict(call: Call | None, reply: str) -> list[tuple[str, str]]:
    return verdict_of(reply) if call and call.type != "generate" else []


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)


def answer_tab(
    request: Request, services: Services, view: HistoryView, form: Filled = _EMPTY, status: int = 200
) -> Response:
    best = best_attempts(view.iterations)
    return job_page(
        request,
        "job/answer.html",
        view,
        status=status,
        strip=strip_of(view.job, best),
        answer=answer_of(view.job, view.iterations, request.query_params.get("view")),
        pending=pending_of(view.job, view.iterations),
        attempts=best,
        form=form,
        labels=LABELS,
        models=list_models(services),
        evaluator_warnings=_evaluator_warnings(services, view.job),
    )


def _evaluator_warnings(services: Services, job: Job) -> list[str]:
    return evaluator_tests.warnings_about(services, [(" + ".join(job.evaluators), job.request["profile"])])


def iterations_tab(request: Request, view: HistoryView, form: Filled = _EMPTY, status: int = 200) -> Response:
    best = best_attempts(view.iterations)
    ratings: dict[str, list[Rating]] = {}
    for rating in view.ratings:
        ratings.setdefault(rating.evaluation_id, []).append(rating)
    return job_page(
        request,
        "job/iterations.html",
        view,
        tab="/iterations",
        status=status,
        strip=strip_of(view.job, best),
        groups=[(number, same_answers(group)) for number, group in by_number(view.iterations)],
        continued=continuations_after(view.iterations, view.continued),
        best=best,
        best_of={each.number: each for each in best},
        chart=draw_scores(view.matrix, view.job.progress.score_threshold),
        matrix=view.matrix,
        ratings=ratings,
        compared=compared_of(view, best, request.query_params),
        form=form,
    )
