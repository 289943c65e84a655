"""Routes that start, list, get, follow, cancel, resume and delete bulk runs."""

from typing import Annotated

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.openapi.models import Example
from starlette.concurrency import run_in_threadpool

from api.dependencies import ContextOf, IdempotencyOf, ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Page, PageQuery
from api.http.responses import POLL_AFTER_S, prefers_json, render
from api.openapi import problems_of
from api.streams import runs as run_streams
from redraft.domain.bulk.run_requests import CreateRun, ResumeRun
from redraft.operations.bulk import deletion, runs
from redraft.operations.bulk.run_resources import Run

router = APIRouter(prefix="/v1/runs", tags=["bulk"], route_class=StrictRoute)

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
_STREAM = """`text/event-stream`, or the run itself if Accept prefers JSON. The event `run.progress` is sent when the
counts have changed, at most twice a second. The event `done` is sent at the end. The data of both is `{message, at, id,
name, status, stop_reason, counts, usage, version}`. Events are not stored. Each event has the whole state, so a client
that reconnects misses nothing. A stream ends after five minutes at the latest."""


class RunPage(Page[Run]): ...


def render_run(run: Run, status: int = 200, **headers: str) -> Response:
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
        202: {"description": "The run is stored, and its first items are started."},
        200: {"description": "A replay of an earlier request with the same Idempotency-Key.", "model": Run},
        # The path has no id, but 404 is possible, because the body names the dataset
        **problems_of(404),
    },
)
def create_run(
    services: ServicesOf, idempotency: IdempotencyOf, body: Annotated[CreateRun, Body(openapi_examples=_EXAMPLE)]
) -> Response:
    """Run the rows of a dataset as jobs, at most `max_in_flight` at a time. Single jobs have precedence over them."""
    run, is_replay = runs.create_run(services, body, idempotency)
    headers = {"Location": run.urls["self"], **({"Idempotent-Replayed": "true"} if is_replay else {})}
    return render_run(run, 200 if is_replay else 202, **headers)


@router.get("", response_model=RunPage)
def list_runs(services: ServicesOf, query: Annotated[PageQuery, Query()]) -> Response:
    """List runs, newest first."""
    data, next_cursor = runs.list_runs(services, cursor=query.after, limit=query.limit)
    return render(RunPage(data=data, next_cursor=next_cursor))


@router.get("/{run_id}", response_model=Run)
def get_run(services: ServicesOf, run_id: str) -> Response:
    """Get a run with the number of items in each state, and its usage."""
    return render_run(runs.get_run(services, run_id))


@router.get(
    "/{run_id}/events",
    response_model=None,
    responses={
        200: {
            "description": _STREAM,
            "content": {"text/event-stream": {}, "application/json": {"schema": {"$ref": "#/components/schemas/Run"}}},
        },
        204: {"description": "The run has ended, and the client has received `done`."},
    },
)
async def follow_run(
    request: Request,
    context: ContextOf,
    run_id: str,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The id of the event `done`, which browsers send.")
    ] = None,
) -> Response:
    """Follow the progress of a run."""
    run = await run_in_threadpool(runs.get_run, context.services, run_id)
    if prefers_json(request):
        return render_run(run)
    # Without this response, a browser would reconnect to the stream of an ended run forever
    if run.status != "running" and last_event_id == str(run.version):
        return Response(status_code=204)
    return run_streams.stream(context, run_id)


@router.post(
    "/{run_id}/cancel",
    status_code=202,
    response_model=Run,
    responses={
        202: {"description": "The run is canceled."},
        200: {"description": "The run had already ended.", "model": Run},
    },
)
def cancel_run(services: ServicesOf, run_id: str) -> Response:
    """Cancel a run: no more items are started, and running items are canceled. Ended items keep their results."""
    run, is_ended_now = runs.cancel_run(services, run_id)
    return render_run(run, 202 if is_ended_now else 200)


@router.post(
    "/{run_id}/resume",
    status_code=202,
    response_model=Run,
    responses={
        202: {"description": "The run is resumed."},
        200: {"description": "The run has no items to resume.", "model": Run},
        **problems_of(409),
    },
)
def resume_run(
    services: ServicesOf, run_id: str, body: Annotated[ResumeRun, Body(default_factory=ResumeRun)]
) -> Response:
    """Resume a run: execute its items that were not started or were canceled.

    With `retry: errors`, failed items are also executed again. A run that has used up its budget needs a larger
    `max_cost_usd`.
    """
    run = runs.resume_run(services, run_id, body)
    return render_run(run, 202 if run.status == "running" else 200)


@router.delete("/{run_id}", status_code=204, responses=problems_of(409))
def delete_run(services: ServicesOf, run_id: str) -> Response:
    """Delete a run that has ended, with its items and their jobs. Its dataset is kept.

    The response is sent when everything is deleted. After an interruption, the same request deletes the rest.
    """
    deletion.delete_run(services, run_id)
    return Response(status_code=204)
