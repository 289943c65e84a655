"""Streams of events that are cut: both clients resume them after the last event."""

import asyncio
from collections.abc import Callable

import pytest
from redraft_client import ApiError, AsyncRedraft, Redraft, Retries, StreamedEvent, UnexpectedResponse

from tests.support.receiver import Answer, Receiver

SOON = Retries(attempts=2, first_pause_s=0.01)
DATA = 'data: {"message": "m", "at": "2026-01-01T00:00:00Z"'
OPENING = "retry: 1000\n: events follow\n\n"
CUT = f"{OPENING}id: 1\nevent: job.queued\n{DATA}}}\n\nid: 2\nevent: job.started\n{DATA}"
REST = f'{OPENING}id: 2\nevent: job.started\n{DATA}}}\n\nevent: answer.delta\n{DATA}, "text": "Pa"}}\n\n'
END = f"id: 3\nevent: done\n{DATA}}}\n\n"

Follow = Callable[[str], list[StreamedEvent]]


def stream(text: str, *, promises: int = 0) -> Answer:
    """A response that ends before its promised length if that is larger than the text."""
    length = max(promises, len(text.encode()))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {length}\r\n\r\n"
    return Answer(raw=(head + text).encode())


def follow(url: str) -> list[StreamedEvent]:
    with Redraft(url, retries=SOON) as redraft:
        return list(redraft.jobs.events("job_1"))


def follow_asynchronously(url: str) -> list[StreamedEvent]:
    async def collect() -> list[StreamedEvent]:
        async with AsyncRedraft(url, retries=SOON) as redraft:
            return [each async for each in redraft.jobs.events("job_1")]

    return asyncio.run(collect())


BOTH = pytest.mark.parametrize("events_at", [follow, follow_asynchronously])


@BOTH
def test_a_cut_stream_goes_on_after_the_last_event(events_at: Follow):
    answers = (stream(CUT, promises=9999), Answer(503, {"Retry-After": "0"}), stream(REST + END), Answer(204))
    with Receiver(*answers) as receiver:
        events = events_at(f"http://127.0.0.1:{receiver.port}")
    assert [(each.type, each.id) for each in events] == [
        ("job.queued", 1), ("job.started", 2), ("answer.delta", None), ("done", 3),
    ]  # fmt: skip
    assert events[2].data.text == "Pa"
    assert [hit.headers.get("last-event-id") for hit in receiver.hits] == [None, "1", "1", "3"]


@BOTH
def test_a_stream_that_cannot_be_had_is_an_error(events_at: Follow):
    with Receiver(Answer(404, body=b"nothing")) as receiver, pytest.raises(ApiError, match="404"):
        events_at(f"http://127.0.0.1:{receiver.port}")
    assert len(receiver.hits) == 1


@BOTH
def test_an_event_that_cannot_be_read_is_an_error(events_at: Follow):
    answer = stream("event: done\ndata: no JSON\n\n")
    with Receiver(answer) as receiver, pytest.raises(UnexpectedResponse, match="event done"):
        events_at(f"http://127.0.0.1:{receiver.port}")


def test_a_reader_that_stops_early_closes_the_stream(url: str):
    """The server counts open streams of a caller, and refuses too many."""

    async def look() -> list[str]:
        async with AsyncRedraft(url) as redraft:
            job = await redraft.submit(instruct="x", eval_crit="y")
            kinds: list[str] = []
            for _ in range(120):
                events = redraft.jobs.events(job.id)
                kinds.append((await anext(events)).type)
                await events.aclose()
            await redraft.jobs.wait(job.id)
            return kinds

    assert set(asyncio.run(look())) == {"job.queued"}
