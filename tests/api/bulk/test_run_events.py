"""Following a bulk run: each change once, the end, and no more work for many who watch than for one."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from sqlalchemy import event

from api.intervals import Intervals
from redraft.operations.bulk import runs, scheduler
from redraft.operations.services import Services
from tests.api.bulk.test_runs_api import lines, running, started
from tests.model_server import ModelServer
from tests.operations.driving import Driver
from tests.support.api_server import ApiServer
from tests.support.event_stream import EventStream
from tests.support.waiting import patient, wait_until

QUICK = Intervals(run_poll_s=0.05)


@contextmanager
def follow(client: httpx2.Client, run: dict[str, Any], **headers: str) -> Iterator[EventStream]:
    asked = {"Accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
    with client.stream("GET", run["urls"]["events"], headers=asked) as response:
        yield EventStream(response)


@pytest.fixture
def quick(start_api: Callable[..., ApiServer]) -> ApiServer:
    return start_api(intervals=QUICK)


def test_a_stream_tells_each_state_and_the_end(quick: ApiServer, services: Services, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    client, driver = quick.client(), Driver(services)
    run = started(client, lines(2), max_in_flight=1)
    with follow(client, run) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.response.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in stream.response.headers
        events = stream.events()
        first = next(events)
        assert (first.id, first.type) == (None, "run.progress")
        assert (first.data["counts"]["running"], first.data["counts"]["queued"]) == (1, 1)
        assert first.data["message"] == "0 of 2 items have ended, 0 of them accepted; 1 are running."
        assert first.data["at"].endswith("Z")
        driver.run(running(client, run)[0])
        wait_until(lambda: next(events).data["counts"]["succeeded"] == 1, what="the first item's end")
        scheduler.schedule_all(services)
        driver.run(running(client, run)[0])
        scheduler.schedule_all(services)
        told = list(events)
    assert told[-1].type == "done"
    assert (told[-1].data["status"], told[-1].data["counts"]["accepted"]) == ("succeeded", 2)
    assert all(a.data != b.data for a, b in pairwise(told))
    with follow(client, run) as late:
        assert [each.type for each in late.events()] == ["done"]
    with follow(client, run, Last_Event_ID=told[-1].id or "") as again:
        assert again.response.status_code == 204
    with follow(client, run, Last_Event_ID="garbage") as again:
        assert again.response.status_code == 200


def test_without_a_wish_for_a_stream_it_is_the_run(client: httpx2.Client):
    run = started(client, lines(1))
    assert client.get(run["urls"]["events"], headers={"Accept": "application/json"}).json()["id"] == run["id"]
    head = client.head(run["urls"]["events"])
    assert (head.status_code, head.headers["content-type"]) == (200, "application/json")


def test_events_come_at_most_twice_a_second(api: ApiServer, services: Services, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    client, driver = api.client(), Driver(services)
    run = started(client, lines(6), max_in_flight=6)
    with follow(client, run) as stream:
        events = stream.events()
        next(events)
        began = time.monotonic()
        while under_way := running(client, run):
            for job_id in under_way:
                driver.run(job_id)
            scheduler.schedule_all(services)
        told = list(events)
        assert len(told) <= 2 * (time.monotonic() - began) + 1
    assert told[-1].type == "done"


def test_many_who_watch_cost_as_much_as_one(quick: ApiServer, services: Services, caplog: pytest.LogCaptureFixture):
    client = quick.client()
    run = started(client, lines(1))
    watches = quick.app.state.context.run_watches
    looks: list[str] = []
    engine = quick.app.state.context.services.database.engine
    event.listen(engine, "before_cursor_execute", lambda _c, _u, statement, *_: looks.append(statement))
    with ExitStack() as stack:
        crowd = quick.client()
        streams = [stack.enter_context(follow(crowd, run)) for _ in range(50)]
        assert {next(stream.events()).data["counts"]["running"] for stream in streams} == {1}
        assert quick.open_requests == 50
        looks.clear()
        began = time.monotonic()
        wait_until(lambda: len(looks) > 30, what="some looks")
        seconds = time.monotonic() - began
        whole = sum("FROM runs" in statement for statement in list(looks))
        assert whole <= seconds / QUICK.run_poll_s + 2
        runs.cancel_run(services, run["id"])
        assert {list(stream.events())[-1].type for stream in streams} == {"done"}
    crowd.close()
    wait_until(lambda: quick.open_requests == 0)
    wait_until(lambda: not watches.run_ids and not quick.app.state.context.notifications.channels)
    assert [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


def test_dropped_streams_leave_nothing_behind(quick: ApiServer, caplog: pytest.LogCaptureFixture):
    run = started(quick.client(), lines(1))
    with ExitStack() as stack:
        crowd = quick.client()
        for _ in range(10):
            next(stack.enter_context(follow(crowd, run)).events())
    crowd.close()
    wait_until(lambda: quick.open_requests == 0)
    wait_until(lambda: not quick.app.state.context.run_watches.run_ids)
    assert [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


def test_a_silent_stream_is_kept_open_and_ends_in_time(start_api: Callable[..., ApiServer]):
    client = start_api(intervals=Intervals(ping_s=0.05, stream_s=1.5, run_poll_s=0.05)).client()
    run = started(client, lines(1))
    with follow(client, run) as stream:
        frames = list(stream.frames())
    assert [frame.type for frame in frames if frame.type] == ["run.progress"]
    pings = [frame for frame in frames if frame.comment == "ping"]
    assert pings
    assert {frame.id for frame in frames} == {None}


def test_a_server_that_stops_lets_its_streams_go(start_api: Callable[..., ApiServer]):
    api = start_api()
    client = api.client()
    run = started(client, lines(1))
    with follow(client, run) as stream:
        frames = stream.frames()
        wait_until(lambda: next(frames).type == "run.progress")
        began = time.monotonic()
        api.stop()
        assert "stops" in (list(frames)[-1].comment or "")
        assert time.monotonic() - began < patient(1.25)
