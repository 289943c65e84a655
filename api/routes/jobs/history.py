"""Routes for the history of a job: its iterations, its model calls and its events."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, ServicesOf
from api.http.bodies import StrictRoute
from api.http.downloads import MEDIA_FILE, disposition, stem_of
from api.http.parameters import ITERATION_MAX, Listed
from api.http.responses import prefers_json, render
from api.streams.jobs import PAGE, stream
from redraft.domain.jobs.attachments import MEDIA_TYPES
from redraft.errors import Invalid
from redraft.operations.jobs import attachments, diffs, queries
from redraft.operations.jobs.diffs import AnswerDiff
from redraft.operations.jobs.iterations import CriteriaMatrix, Iteration
from redraft.operations.jobs.resources import Call, Event

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["history"], route_class=StrictRoute)

Full = Annotated[bool, Query(description="Return complete texts. Without it, texts over 256 KB are cut.")]


_EVENT_ID = re.compile(r"[0-9]{1,9}")
_NUMBER: dict[str, Any] = {"pattern": f"^({_EVENT_ID.pattern})?$"}
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", description="Overrides `after`.", json_schema_extra=_NUMBER)
]
_STREAM = """`text/event-stream`, or a page of JSON if Accept prefers JSON. A stream ends when the job has ended, or
after five minutes. A client reconnects with Last-Event-ID.

If the job has `stream: true`, the stream also has the text of the answer while it is generated, as events
`answer.delta`: `{message, at, iteration, candidate, attempt, offset, text}`. `offset` is the number of characters
before this delta. These events have no id and are not stored. A client that connects late receives only later deltas. A
client that reads too slowly misses deltas, and the offsets have a gap. The event `iteration.generated` contains the
whole answer, and no delta of its iteration follows. A client must discard the text of a candidate in these cases: a
`step.retrying` with `withdrawn: true` has the same or a higher `attempt`; a delta has a higher `attempt`; a delta has
`offset` 0."""


_FILES = {name: {"schema": {"type": "string", "format": "binary"}} for name in MEDIA_TYPES}


class IterationList(Listed[Iteration]):
    """Iterations in order. An iteration with several candidates has an entry for each."""


class CallList(Listed[Call]):
    """Model calls, oldest first, with retries and failed calls."""


@router.get("/iterations", response_model=IterationList)
def list_iterations(services: ServicesOf, job_id: str) -> Response:
    """List all iterations with their evaluations."""
    return render(IterationList(data=queries.list_iterations(services, job_id)))


@router.get("/iterations/{number}", response_model=IterationList)
def get_iteration(services: ServicesOf, job_id: str, number: Annotated[int, Path(ge=1, le=ITERATION_MAX)]) -> Response:
    """Get one iteration, as a list with one entry for each candidate."""
    return render(IterationList(data=queries.list_iterations(services, job_id, number)))


@router.get("/criteria", response_model=CriteriaMatrix)
def get_criteria(services: ServicesOf, job_id: str) -> Response:
    """Get the matrix of criteria and iterations: the criteria that each iteration met, and those it lost again."""
    return render(queries.criteria_matrix(services, job_id))


@router.get("/diff", response_model=AnswerDiff)
def get_diff(
    services: ServicesOf,
    job_id: str,
    old: Annotated[int, Query(alias="from", ge=1, le=ITERATION_MAX, description="The number of the older iteration.")],
    new: Annotated[int, Query(alias="to", ge=1, le=ITERATION_MAX, description="The number of the newer iteration.")],
) -> Response:
    """Compare the answers of two iterations word by word."""
    return render(diffs.diff(services, job_id, old, new))


@router.get("/calls", response_model=CallList)
def list_calls(services: ServicesOf, job_id: str, full: Full = False) -> Response:  # noqa: FBT002
    """List all model calls with their usage and cost."""
    return render(CallList(data=queries.list_calls(services, job_id, full=full)))


@router.get("/calls/{call_id}", response_model=Call)
def get_call(services: ServicesOf, job_id: str, call_id: str, full: Full = False) -> Response:  # noqa: FBT002
    """Get one model call."""
    return render(queries.get_call(services, job_id, call_id, full=full))


class EventPage(Listed[Event]):
    """Events in order. A request with `?after=` and the value of `next_after` returns later events."""

    next_after: str
    is_over: bool = Field(description="Whether the job has ended and there is no later event.")


@router.get(
    "/events",
    response_model=EventPage,
    responses={
        200: {"description": _STREAM, "content": {"text/event-stream": {}, "application/json": {}}},
        204: {"description": "The job has ended and there is no later event."},
    },
)
async def list_job_events(
    request: Request,
    context: ContextOf,
    job_id: str,
    after: Annotated[str | None, Query(description="Only events after this number.", json_schema_extra=_NUMBER)] = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow the events of a job."""
    start = read_position(last_event_id, after)
    events, is_over = await run_in_threadpool(events_after, context, job_id, start)
    if is_over and not events:
        return Response(status_code=204)
    if prefers_json(request):
        next_after = events[-1].seq if events else start
        return render(EventPage(data=events, next_after=str(next_after), is_over=is_over))
    return stream(context, job_id, start)


def read_position(last_event_id: str | None, after: str | None) -> int:
    """Return the number of the last event that the client has, or 0. Raises Invalid if the id is not a number."""
    # The header has precedence, because a browser that reconnects sends the header with the original URL
    text, pointer = (last_event_id, "header/Last-Event-ID") if last_event_id else (after, "query/after")
    if not text:
        return 0
    if not _EVENT_ID.fullmatch(text):
        raise Invalid.at(pointer, "The id of an event must be a number.", "invalid_event_id")
    return int(text)


def events_after(context: Context, job_id: str, start: int) -> tuple[list[Event], bool]:
    """Return the first events after number `start`, and whether the job has no later events.

    Raises NotFound if there is no such job, and Invalid if the job has no event `start`.
    """
    events, is_over = queries.list_events(context.services, job_id, max(0, start - 1), PAGE)
    if not start:
        return events, is_over
    # Without this check, a client with the number of another job's event would wait forever
    if not events or events[0].seq != start:
        raise Invalid.at("query/after", f"Job {job_id} has no event {start}.", "unknown_event_id")
    return events[1:], is_over


@router.get(
    "/attachments/{digest}",
    response_class=Response,
    responses={200: {"description": "The file. A browser shows an image, and saves a PDF.", "content": _FILES}},
)
def get_attachment(services: ServicesOf, job_id: str, digest: str) -> Response:
    """Get the file of an attachment, by its digest in the request of the job."""
    file = attachments.get(services, job_id, digest)
    kind, suffix = file.media_type.split("/")
    name = stem_of(file.title or "", MEDIA_FILE)
    header = disposition(name, digest[:12], f".{suffix}", kind="inline" if kind == "image" else "attachment")
    # The middleware adds nosniff and a policy with a sandbox, so a file cannot run as a page
    return Response(file.data, media_type=file.media_type, headers={"Content-Disposition": header})
