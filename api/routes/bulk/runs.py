"""Bulk runs: start, look, follow, cancel, resume, delete."""

from typing import Annotated

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.openapi.models import Example
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from api.dependencies import ContextOf, IdempotencyOf, ServicesOf
from api.description import Answers, answers
from api.http.bodies import StrictRoute
from api.http.responses import POLL_AFTER_S, render
from api.routes.bulk.datasets import PageQuery
from api.routes.jobs.events import prefers_json
from api.streams import runs as run_streams
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.operations.bulk import removing, runs
from redraft.operations.bulk.run_resources import Run

router = APIRouter(prefix="/v1/runs", tags=["bulk"], route_class=StrictRoute)

_OPEN = ResumeRun()
_EXAMPLE: dict[str, Example] = {
    "questions": {
        "summary": "All rows of a dataset, evaluated by the same criteria",
        "value": {
            "dataset_id": "ds_0190f3c2d1a07c3e8f5b6a7c8d9e0f11",
            "defaults": {"eval_crit": "Correct and complete.", "iter_max": 3},
            "max_in_flight": 32,
            "max_cost_usd": 5,
        },
    }
}
_STREAM = """`text/event-stream`, or the run itself where Accept prefers JSON. `run.progress` comes whenever the counts
have changed, at most twice a second, and `done` at the end: `{message, at, id, name, status, stop_reason, counts,
usage, version}`. Nothing is stored, and each event tells the whole state; a stream that was cut or has ended after five
minutes is simply opened again."""


class RunPage(BaseModel):
    """One page of runs; `next_cursor` is the next one's `after`, null on the last."""

    data: list[Run]
    next_cursor: str | None


def _run_answers(code: int, description: str) -> Answers:
    return {code: {"description": description, "model": Run}}


def render_run(run: Run, status: int = 200, **headers: str) -> Response:
    """A run and, while it goes on, when to look again."""
    response = render(run, status)
    response.headers.update(headers)
    if run.status == "running":
        response.headers["Retry-After"] = str(POLL_AFTER_S)
    return response


@router.post(
    "",
    status_code=202,
    response_model=Run,
    responses={
        **_run_answers(202, "The run is stored, and its first items are started."),
        **_run_answers(200, "A replay of an earlier request with the same Idempotency-Key."),
        **answers(400, 404, 413, 415, 422),
    },
)
def create_run(
    services: ServicesOf, idempotency: IdempotencyOf, body: Annotated[CreateRun, Body(openapi_examples=_EXAMPLE)]
) -> Response:
    """Do a dataset's rows as jobs, a window of them at a time, behind whatever people ask for meanwhile."""
    run, is_replay = runs.create_run_once(services, body, idempotency)
    headers = {"Location": run.urls["self"], **({"Idempotent-Replayed": "true"} if is_replay else {})}
    return render_run(run, 200 if is_replay else 202, **headers)


@router.get("", response_model=RunPage, responses=answers(422))
def list_runs(services: ServicesOf, query: Annotated[PageQuery, Query()]) -> Response:
    """A page of runs, newest first."""
    data, next_cursor = runs.list_runs(services, cursor=query.after, limit=query.limit)
    return render(RunPage(data=data, next_cursor=next_cursor))


@router.get("/{run_id}", response_model=Run, responses=answers(404))
def get_run(services: ServicesOf, run_id: str) -> Response:
    """One run: how many of its items are where, and what they have cost."""
    return render_run(runs.get_run(services, run_id))


@router.get(
    "/{run_id}/events",
    response_model=None,
    responses={
        200: {
            "description": _STREAM,
            "content": {"text/event-stream": {}, "application/json": {"schema": {"$ref": "#/components/schemas/Run"}}},
        },
        204: {"description": "The run has ended, and you have heard so."},
        **answers(404),
    },
)
async def follow_run(
    request: Request,
    context: ContextOf,
    run_id: str,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The id that `done` had, as browsers send it.")
    ] = None,
) -> Response:
    """Follow a run."""
    run = await run_in_threadpool(runs.get_run, context.services, run_id)
    if prefers_json(request.headers.get("accept", "")):
        return render_run(run)
    if run.status != "running" and last_event_id == str(run.version):
        return Response(status_code=204)
    return run_streams.stream(context, run_id)


@router.post(
    "/{run_id}/cancel",
    status_code=202,
    response_model=Run,
    responses={
        **_run_answers(202, "The run is canceled."),
        **_run_answers(200, "It had ended before."),
        **answers(404),
    },
)
def cancel_run(services: ServicesOf, run_id: str) -> Response:
    """Start no more items, and cancel those under way; what has ended is kept."""
    run, is_ended_now = runs.cancel_run(services, run_id)
    return render_run(run, 202 if is_ended_now else 200)


@router.post(
    "/{run_id}/resume",
    status_code=202,
    response_model=Run,
    responses={
        **_run_answers(202, "The run goes on."),
        **_run_answers(200, "There was nothing to do."),
        **answers(400, 404, 409, 413, 415, 422),
    },
)
def resume_run(services: ServicesOf, run_id: str, body: Annotated[ResumeRun, Body()] = _OPEN) -> Response:
    """Do what is open: items that were never started or were canceled, and failed ones with `retry: errors`.

    A run whose budget is used up goes on with a larger `max_cost_usd`.
    """
    run = runs.resume_run(services, run_id, body)
    return render_run(run, 202 if run.status == "running" else 200)


@router.delete("/{run_id}", status_code=204, responses=answers(404, 409))
def delete_run(services: ServicesOf, run_id: str) -> Response:
    """Remove a run that has ended, with its items and their jobs; its dataset stays.

    It answers when all is gone. A deletion that was broken off goes on where it stopped when it is asked for again.
    """
    removing.delete_run(services, run_id)
    return Response(status_code=204)
