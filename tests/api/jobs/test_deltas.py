"""The text of an answer on its way to whoever watches: published by hand, read as server-sent events."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from api.intervals import Intervals
from api.notifications.jobs import Notifications, Subscription
from redraft.messages import Delta
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.results.job_results import event
from redraft.operations.services import Services
from redraft.queue import Queue, delta_channel, job_channel
from redraft.storage.jobs import events, jobs, transitions
from tests.support.api_server import ApiServer
from tests.support.event_stream import EventStream, Frame, follow
from tests.support.valkey import ValkeyServer
from tests.support.waiting import patient, wait_until

# Slower than any test waits: whoever tells something was woken.
ONLY_WOKEN = Intervals(poll_s=50, poll_offline_s=50, ping_s=50)


@pytest.fixture
def api(start_api: Callable[..., ApiServer]) -> ApiServer:
    return start_api(intervals=ONLY_WOKEN)


def store(services: Services, job_id: str, kind: str, **facts: Any) -> None:
    """An event as a worker stores it: committed, then the watchers are woken."""
    with services.database.write() as connection:
        first_seq = transitions.change(connection, job_id, {}, when=transitions.is_live(), new_events=1)
        job = jobs.get(connection, job_id)
        assert first_seq
        assert job
        events.add(connection, job, first_seq, [event(kind, "Something happened.", **facts)])
    services.queue.wake(job_id)


def piece(offset: int, text: str, *, iteration: int = 1, candidate: int = 1, attempt: int = 1) -> Delta:
    return Delta(iteration, candidate, attempt, offset, text)


def publish_unwatched(services: Services, job_id: str, delta: Delta, server: ValkeyServer) -> None:
    """Publish a delta and return once the broker has sent it: only a subscriber of our own heard it."""
    with server.client() as broker, broker.pubsub(ignore_subscribe_messages=True) as other:
        other.subscribe(delta_channel(job_id))
        wait_until(lambda: server.listeners(delta_channel(job_id)), what="the subscription")
        services.queue.publish_delta(job_id, delta)
        wait_until(other.get_message, what="the publication")
    wait_until(lambda: not server.listeners(delta_channel(job_id)), what="the end of the subscription")


@contextmanager
def watched(client: httpx2.Client, job_id: str, valkey: ValkeyServer, **headers: str) -> Iterator[Iterator[Frame]]:
    """The events of a stream that hears deltas by now; the first is the job's first one."""
    with follow(client, job_id, **headers) as stream:
        yield listening(stream, job_id, valkey)


def listening(stream: EventStream, job_id: str, valkey: ValkeyServer) -> Iterator[Frame]:
    found = stream.events()
    wait_until(lambda: valkey.listeners(delta_channel(job_id)), what="the subscription")
    return found


def told(frames: Iterator[Frame]) -> list[tuple[str | None, Any]]:
    """The type of each, and the iteration or the text that it is about."""
    return [(each.type, each.data.get("text") or each.data.get("iteration")) for each in frames]


def test_text_comes_between_the_events_without_an_id(api, services: Services, submit_job, valkey):
    job_id, publish = submit_job(stream=True), services.queue.publish_delta
    with watched(api.client(timeout=patient(10)), job_id, valkey) as frames:
        assert next(frames).type == "job.queued"
        store(services, job_id, "iteration.started", iteration=1)
        publish(job_id, piece(0, "Blue\nlight "))
        assert next(frames).type == "iteration.started"
        first = next(frames)
        assert (first.id, first.type) == (None, "answer.delta")
        assert first.data.pop("at").endswith("Z")
        assert first.data == {
            "message": "Iteration 1 is being generated.",
            "iteration": 1,
            "candidate": 1,
            "attempt": 1,
            "offset": 0,
            "text": "Blue\nlight ",
        }
        publish(job_id, piece(11, "scatters \u2028\ud800."))
        store(services, job_id, "iteration.generated", iteration=1, candidate=1, answer="…")
        assert told([next(frames), next(frames)]) == [
            ("answer.delta", "scatters \u2028\ud800."),
            ("iteration.generated", 1),
        ]
        publish(job_id, piece(20, "from a worker that is too late"))
        store(services, job_id, "iteration.started", iteration=2)
        publish(job_id, piece(0, "More", iteration=2))
        lifecycle.cancel(services, job_id)
        assert told(frames) == [("iteration.started", 2), ("answer.delta", "More"), ("done", None)]
    assert "answer.delta" not in {each.type for each in queries.list_events(services, job_id, 0)[0]}


def test_in_a_hurry_the_order_holds_too(api, services: Services, submit_job, valkey):
    job_id = submit_job()
    with watched(api.client(timeout=patient(10)), job_id, valkey) as frames:
        for number in range(1, 11):
            store(services, job_id, "iteration.started", iteration=number)
            for offset in range(5):
                services.queue.publish_delta(job_id, piece(offset, str(offset), iteration=number))
            store(services, job_id, "iteration.generated", iteration=number)
        lifecycle.cancel(services, job_id)
        seen = [(each.type, each.data.get("iteration"), each.data.get("text")) for each in frames]
    one = [
        ("iteration.started", None),
        *(("answer.delta", str(offset)) for offset in range(5)),
        ("iteration.generated", None),
    ]
    expected = [(kind, number, text) for number in range(1, 11) for kind, text in one]
    # A machine may be so slow that a delta comes too late: then it is left out, since the answer is there
    rest = iter(expected)
    assert all(each in rest for each in seen[1:-1])
    assert [each for each in seen[1:-1] if each[0] != "answer.delta"] == [
        each for each in expected if each[0] != "answer.delta"
    ]


def test_a_retry_is_told_between_the_attempts(api, services: Services, submit_job, valkey):
    job_id, publish = submit_job(), services.queue.publish_delta
    with watched(api.client(timeout=patient(10)), job_id, valkey) as frames:
        publish(job_id, piece(0, "cut"))
        store(services, job_id, "step.retrying", step="generate", iteration=1, attempt=1)
        publish(job_id, piece(0, "whole", attempt=2))
        lifecycle.cancel(services, job_id)
        seen = [(each.type, each.data.get("attempt"), each.data.get("text")) for each in frames]
    assert seen[1:-1] == [("answer.delta", 1, "cut"), ("step.retrying", 1, None), ("answer.delta", 2, "whole")]


def test_a_stream_that_comes_back_goes_on_from_its_last_event(api, services: Services, submit_job, valkey):
    client, job_id, publish = api.client(timeout=patient(10)), submit_job(), services.queue.publish_delta
    with watched(client, job_id, valkey) as frames:
        publish(job_id, piece(0, "one "))
        assert [next(frames).id, next(frames).id] == ["1", None]
    wait_until(lambda: not valkey.listeners(delta_channel(job_id)), what="the end of the subscription")
    publish_unwatched(services, job_id, piece(4, "two "), valkey)
    with watched(client, job_id, valkey, Last_Event_ID="1") as frames:
        publish(job_id, piece(8, "three"))
        found = next(frames)
        assert (found.id, found.data["offset"], found.data["text"]) == (None, 8, "three")
        lifecycle.cancel(services, job_id)
        assert [each.seq for each in frames] == [2]


def test_each_of_two_watchers_is_told_and_other_jobs_are_not(api, services: Services, submit_job, valkey):
    job_id, other, publish = submit_job(), submit_job(), services.queue.publish_delta
    client = api.client(timeout=patient(10))
    with (
        watched(client, job_id, valkey) as one,
        watched(client, job_id, valkey) as two,
        watched(client, other, valkey) as three,
    ):
        frames = [one, two, three]
        assert {next(each).type for each in frames} == {"job.queued"}
        publish(job_id, piece(0, "Hello"))
        publish(other, piece(0, "Good-bye"))
        assert [next(each).data["text"] for each in frames] == ["Hello", "Hello", "Good-bye"]
        lifecycle.cancel(services, job_id)
        lifecycle.cancel(services, other)
        assert [[each.type for each in rest] for rest in frames] == [["done"]] * 3
    wait_until(lambda: not api.app.state.context.notifications.channels)


def test_without_a_watcher_nothing_is_kept(client: httpx2.Client, services: Services, submit_job, valkey):
    job_id = submit_job(stream=True)
    publish_unwatched(services, job_id, piece(0, "Nobody hears this."), valkey)
    lifecycle.cancel(services, job_id)
    with follow(client, job_id) as stream:
        assert [each.type for each in stream.events()] == ["job.queued", "done"]
    page = client.get(f"/v1/jobs/{job_id}/events", headers={"Accept": "application/json"}).json()
    assert [each["type"] for each in page["data"]] == ["job.queued", "done"]


def test_a_long_poll_does_not_hear_text(api, services: Services, submit_job, valkey):
    client, job_id, notifications = api.client(timeout=patient(60)), submit_job(), api.app.state.context.notifications
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"/v1/jobs/{job_id}", headers={"Prefer": "wait=40"})
        wait_until(lambda: notifications.channels)
        assert notifications.channels == {job_channel(job_id)}
        services.queue.publish_delta(job_id, piece(0, "Not for polls."))
        assert not valkey.listeners(delta_channel(job_id))
        lifecycle.cancel(services, job_id)
        assert waiting.result(timeout=patient(10)).json()["status"] == "canceled"


def test_what_a_slow_client_misses_shows_as_a_gap(api, services: Services, submit_job, valkey):
    job_id, size, count = submit_job(), 100_000, 300
    with watched(api.client(timeout=patient(30)), job_id, valkey) as frames:
        for number in range(count):
            services.queue.publish_delta(job_id, piece(number * size, "x" * size))
        services.queue.publish_delta(job_id, piece(count * size, "end"))
        lifecycle.cancel(services, job_id)
        seen = list(frames)
    assert (seen[0].type, seen[-1].type) == ("job.queued", "done")
    offsets = [each.data["offset"] for each in seen[1:-1]]
    assert offsets == sorted(offsets)
    # On a slow machine the first is among what it misses
    assert offsets[-1] == count * size
    assert len(offsets) < count


def test_a_watcher_keeps_a_bounded_amount_of_text():
    watch = Subscription(Notifications("redis://nowhere", Intervals()))
    for number in range(10_000):
        watch.deliver(piece(number, "y"))
    watch.deliver(piece(10_000, "z" * 1000))
    kept = watch.take_deltas()
    assert kept[-1].offset == 10_000
    assert sum(len(each.text) + 100 for each in kept) <= 256_000
    assert [each.offset for each in kept] == list(range(kept[0].offset, 10_001))
    watch.deliver(piece(0, "too long " * 100_000))
    watch.deliver(piece(1, "fits"))
    assert [each.text for each in watch.take_deltas()] == ["fits"]


def test_what_is_not_understood_is_passed_over(api, services: Services, submit_job, valkey: ValkeyServer):
    job_id = submit_job()
    with watched(api.client(timeout=patient(10)), job_id, valkey) as frames, valkey.client() as broker:
        for payload in (b"\xff", b"{", b"[]", b"7", json.dumps({"iteration": 1}), json.dumps({"unknown": 1})):
            broker.publish(delta_channel(job_id), payload)
        services.queue.publish_delta(job_id, piece(0, "Understood."))
        assert told([next(frames), next(frames)]) == [("job.queued", None), ("answer.delta", "Understood.")]


def test_a_stream_outlives_its_broker(start_api, make_services, submit_job):
    own = ValkeyServer().start()
    try:
        intervals = Intervals(poll_s=50, poll_offline_s=0.2, ping_s=50)
        api, services = start_api(intervals=intervals, broker_url=own.url), make_services(broker_url=own.url)
        job_id = submit_job()
        with watched(api.client(timeout=patient(30)), job_id, own) as frames:
            services.queue.publish_delta(job_id, piece(0, "one "))
            assert told([next(frames), next(frames)]) == [("job.queued", None), ("answer.delta", "one ")]
            own.stop(kill=True)
            lose(services, job_id, piece(4, "two "))
            own.start()
            wait_until(lambda: own.listeners(delta_channel(job_id)), what="the subscription")
            services.queue.publish_delta(job_id, piece(8, "three"))
            assert next(frames).data["offset"] == 8
            lifecycle.cancel(services, job_id)
            assert [each.type for each in frames] == ["done"]
    finally:
        own.remove()


def test_the_last_piece_comes_before_its_answer_though_its_bundle_waits(api, services: Services, submit_job, valkey):
    job_id, publish = submit_job(stream=True), services.queue.publish_delta
    with watched(api.client(timeout=patient(10)), job_id, valkey) as frames:
        publish(job_id, piece(0, "Blue "))
        assert [next(frames).type, next(frames).type] == ["job.queued", "answer.delta"]
        publish(job_id, piece(5, "light"))
        other = Queue(services.settings)
        store(replace(services, queue=other), job_id, "iteration.generated", iteration=1)
        assert [next(frames).type, next(frames).type] == ["answer.delta", "iteration.generated"]
        other.close()
        lifecycle.cancel(services, job_id)
        assert [each.type for each in frames] == ["done"]


def lose(services: Services, job_id: str, delta: Delta) -> None:
    """Publish through a queue of its own, which rests afterwards."""
    queue = Queue(services.settings)
    queue.publish_delta(job_id, delta)
    queue.close()


def test_a_broker_that_failed_is_left_alone_for_a_while(make_services):
    queue = make_services(broker_url="redis://127.0.0.1:1/0").queue
    queue.publish_delta("job_x", piece(0, "lost"))
    wait_until(queue._is_paused, what="a pause")
    queue.publish_delta("job_x", piece(4, "lost too"))
