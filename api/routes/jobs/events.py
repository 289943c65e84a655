"""What happens to a job: as server-sent events, or as a page of JSON."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.responses import render
from api.streams.jobs import PAGE, stream
from redraft.errors import Invalid
from redraft.operations.jobs import queries
from redraft.operations.jobs.resources import Event

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["history"], route_class=StrictRoute)

_EVENT_ID = re.compile(r"[0-9]{1,9}")
_NUMBER: dict[str, Any] = {"pattern": f"^({_EVENT_ID.pattern})?$"}
_QUALITY = re.compile(r"q=(\d?(?:\.\d{0,3})?)$")

_STREAM = """`text/event-stream`, or a page of JSON when Accept prefers that. A stream ends after the job's end or
five minutes; come back with Last-Event-ID.

Of a job with `stream: true` the stream also tells the answer's text while it is written, as `answer.delta`:
`{message, at, iteration, candidate, attempt, offset, text}`, where `offset` counts the characters before this piece.
These events have no id and are not stored. A stream that joins late gets them from then on, and a client that reads
too slowly misses some: a gap between offsets shows it. None comes after its iteration's `iteration.generated`, which
holds the whole answer. The text of an iteration's candidate counts until a `step.retrying` with `withdrawn: true` and
no lower `attempt`, a piece with a higher one, or an `offset` of 0, which begins it anew."""


class EventPage(BaseModel):
    """Events in order; ask again with `?after=next_after` for what came since."""

    data: list[Event]
    next_after: str
    is_over: bool = Field(description="The job has ended and no event is newer.")


@router.get(
    "/events",
    response_model=EventPage,
    responses={
        200: {
            "description": _STREAM,
            "content": {
                "text/event-stream": {},
                "application/json": {},
            },
        },
        204: {"description": "The job has ended and nothing is newer."},
        **answers(404, 422),
    },
)
async def list_job_events(
    request: Request,
    context: ContextOf,
    job_id: str,
    after: Annotated[
        str | None, Query(description="Only events newer than this number.", json_schema_extra=_NUMBER)
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="As `after`, and stronger than it.", json_schema_extra=_NUMBER),
    ] = None,
) -> Response:
    """Follow a job."""
    start = read_position(last_event_id, after)
    events, is_over = await run_in_threadpool(events_after, context, job_id, start)
    if is_over and not events:
        return Response(status_code=204)
    if prefers_json(request.headers.get("accept", "")):
        next_after = events[-1].seq if events else start
        return render(EventPage(data=events, next_after=str(next_after), is_over=is_over))
    return stream(context, job_id, start)


def read_position(last_event_id: str | None, after: str | None) -> int:
    """The number of the last event the client has; 0: none.

    Raises:
        Invalid: it is no number.
    """
    text, pointer = (last_event_id, "header/Last-Event-ID") if last_event_id else (after, "query/after")
    if not text:
        return 0
    if not _EVENT_ID.fullmatch(text):
        raise Invalid.at(pointer, "An event's id is a number.", "invalid_event_id")
    return int(text)


def events_after(context: Context, job_id: str, start: int) -> tuple[list[Event], bool]:
    """The first events newer than `start`, which must be one of the job's own.

    Raises:
        NotFound: there is no such job.
        Invalid: the job has had no such event yet; waiting for what is newer could take for ever.
    """
    events, is_over = queries.list_events(context.services, job_id, max(0, start - 1), PAGE)
    if not start:
        return events, is_over
    if not events or events[0].seq != start:
        raise Invalid.at("query/after", f"Job {job_id} has no event {start}.", "unknown_event_id")
    return events[1:], is_over


def prefers_json(accept: str) -> bool:
    """Whether a page is wanted more than a stream; without a preference it is a stream."""
    return _quality(accept, "application/json") > _quality(accept, "text/event-stream")


def _quality(accept: str, media_type: str) -> float:
    for each in accept.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        if name == media_type:
            found = _QUALITY.match(parameters[-1]) if parameters else None
            return float(found.group(1) or 0) if found and found.group(1) != "." else 1.0
    return 0.0
