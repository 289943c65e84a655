import json
from collections.abc import Callable
from itertools import islice

import httpx2
import pytest

from api.intervals import Intervals
from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.jobs.resources import EventData
from redraft.operations.services import Services
from tests.api.conftest import REQUEST, assert_problem
from tests.operations.driving import Driver
from tests.support.api_server import ApiServer
from tests.support.event_stream import follow
from tests.support.waiting import patient, wait_until


@pytest.fixture
def ended_job(services: Services, submit_job: Callable[..., str]) -> str:
    """A job with eight events: submitted, ended and taken up again three times, ended."""
    job_id = submit_job()
    for _ in range(3):
        lifecycle.cancel(services, job_id)
        lifecycle.continue_job(services, job_id, ContinueJob())
    lifecycle.cancel(services, job_id)
    return job_id


def test_a_stream_tells_all_in_order_and_ends_with_the_job(client: httpx2.Client, services: Services, ended_job: str):
    stored, _ = queries.list_events(services, ended_job, 0)
    with follow(client, ended_job) as stream:
        frames = list(stream.frames())
    events = [frame for frame in frames if frame.type]
    assert [(e.seq, e.type, e.data) for e in events] == [(e.seq, e.type, e.data) for e in stored]
    assert [e.seq for e in events] == list(range(1, 9))
    assert events[-1].type == "done"
    assert all(e.data["message"] and e.data["at"].endswith("Z") for e in events)
    assert all(frame.id is None for frame in frames if not frame.type)


# Case E02
def test_a_stream_can_pass_through_proxies(client: httpx2.Client, submit_job: Callable[..., str]):
    with follow(client, submit_job(), Accept_Encoding="gzip, br") as stream:
        headers = stream.response.headers
        assert headers["content-type"].startswith("text/event-stream")
        assert headers["cache-control"] == "no-cache, no-store"
        assert headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in headers
        assert "content-length" not in headers
        assert next(stream.frames()).id is None


# Case E03
@pytest.mark.parametrize("by_header", [True, False])
def test_a_stream_goes_on_after_the_last_event_that_was_seen(client: httpx2.Client, ended_job: str, by_header):
    def seen(position: str) -> list[int]:
        query = "" if by_header else f"?after={position}"
        headers = {"Last-Event-ID": position} if by_header else {}
        response = client.get(f"/v1/jobs/{ended_job}/events{query}", headers=headers, timeout=patient(20))
        assert response.status_code == 200
        return [int(line[4:]) for line in response.text.splitlines() if line.startswith("id: ")]

    assert seen("3") == [4, 5, 6, 7, 8]
    assert seen("0") == seen("") == list(range(1, 9))
    assert seen("7") == [8]


# Case E03
def test_nothing_newer_than_the_end_is_204(client: httpx2.Client, ended_job: str):
    for accept in ("text/event-stream", "application/json"):
        response = client.get(
            f"/v1/jobs/{ended_job}/events", headers={"Last-Event-ID": "8", "Accept": accept}, timeout=patient(20)
        )
        assert (response.status_code, response.content) == (204, b"")


# Case E03
def test_a_position_that_never_was_is_refused(client: httpx2.Client, ended_job: str, submit_job: Callable[..., str]):
    """The case has 400 for it; by the contract values that are not valid are 422."""
    for position in ("abc", "-1", "1.5", "999", "99999999999999999999", "9", "1e3", "٣"):
        for job_id in (ended_job, submit_job()):
            response = client.get(
                f"/v1/jobs/{job_id}/events", headers={b"Last-Event-ID": position.encode()}, timeout=patient(20)
            )
            assert_problem(response, 422)
            response = client.get(f"/v1/jobs/{job_id}/events", params={"after": position}, timeout=patient(20))
            assert_problem(response, 422)


def test_the_header_is_stronger_than_the_query(client: httpx2.Client, ended_job: str):
    response = client.get(f"/v1/jobs/{ended_job}/events?after=1", headers={"Last-Event-ID": "7"})
    assert "id: 8\n" in response.text
    assert "id: 2\n" not in response.text


def test_a_dropped_stream_that_comes_back_misses_nothing_and_repeats_nothing(
    start_api: Callable[..., ApiServer], services: Services, submit_job: Callable[..., str]
):
    client, job_id = start_api(intervals=Intervals(poll_s=50, poll_offline_s=50)).client(), submit_job()
    seen: list[int] = []
    for _ in range(6):
        headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
        with follow(client, job_id, **headers) as stream:
            frames = stream.events()
            if seen:
                lifecycle.cancel(services, job_id)
                lifecycle.continue_job(services, job_id, ContinueJob())
            seen.append(next(frames).seq)
    lifecycle.cancel(services, job_id)
    with follow(client, job_id, Last_Event_ID=str(seen[-1])) as stream:
        seen += [event.seq for event in stream.events()]
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) == len(queries.list_events(services, job_id, 0)[0])


def test_a_live_stream_is_woken_and_ends_at_done(start_api, services: Services, submit_job: Callable[..., str]):
    client, job_id = (
        start_api(intervals=Intervals(poll_s=50, poll_offline_s=50)).client(timeout=patient(20)),
        submit_job(),
    )
    with follow(client, job_id) as stream:
        events = stream.events()
        assert next(events).type == "job.queued"
        lifecycle.cancel(services, job_id)
        assert [event.type for event in events] == ["done"]


# Case E02
def test_silence_is_filled_with_pings_that_move_no_cursor(start_api, submit_job: Callable[..., str]):
    client, job_id = start_api(intervals=Intervals(ping_s=0.05)).client(timeout=patient(20)), submit_job()
    with follow(client, job_id) as stream:
        frames = list(islice(stream.frames(), 6))
    assert frames[1].type == "job.queued"
    assert {(frame.comment, frame.id, frame.type) for frame in frames[2:]} == {("ping", None, None)}


# Case E02
def test_the_usual_pace_pings_well_within_fifteen_seconds():
    assert Intervals().ping_s <= 12
    assert Intervals().stream_s == 300


def test_a_stream_ends_when_its_time_is_over(start_api, submit_job: Callable[..., str]):
    client, job_id = start_api(intervals=Intervals(stream_s=0.2)).client(timeout=patient(20)), submit_job()
    with follow(client, job_id) as stream:
        assert [event.seq for event in stream.events()] == [1]


def test_a_stream_ends_when_the_job_is_deleted_or_the_server_stops(start_api, services: Services, submit_job):
    api = start_api(intervals=Intervals(poll_s=0.05))
    doomed, other = submit_job(), submit_job()
    with follow(api.client(timeout=patient(20)), doomed) as stream:
        frames = stream.frames()
        assert next(frames).comment
        with services.database.write() as connection:
            connection.exec_driver_sql("DELETE FROM jobs WHERE id = '" + doomed + "'")
        assert len(list(frames)) <= 1
    with follow(api.client(timeout=patient(20)), other) as stream:
        events = stream.events()
        assert next(events).seq == 1
        api.stop()
        assert list(events) == []


def test_events_come_as_a_page_for_whoever_asks_for_json(client: httpx2.Client, ended_job: str, submit_job):
    def page(job_id: str, accept: str = "application/json", **query: int) -> httpx2.Response:
        return client.get(f"/v1/jobs/{job_id}/events", params=query, headers={"Accept": accept})

    found = page(ended_job).json()
    assert [event["seq"] for event in found["data"]] == list(range(1, 9))
    assert (found["next_after"], found["is_over"]) == ("8", True)
    assert [event["seq"] for event in page(ended_job, after=6).json()["data"]] == [7, 8]
    live = submit_job()
    assert page(live, after=1).json() == {"data": [], "next_after": "1", "is_over": False}
    for accept in ("application/json;q=0.9, text/event-stream;q=0.5", "application/json; q=1, */*"):
        assert page(ended_job, accept).headers["content-type"] == "application/json"
    for accept in ("*/*", "text/event-stream, application/json;q=0.5", "text/event-stream, application/json", ";q=."):
        assert page(ended_job, accept).headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("database_url", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True)
def test_a_real_job_is_followed_to_its_end_over_drops(
    api: ApiServer, client: httpx2.Client, services: Services, model_server, start_worker
):
    model_server.script(generate=["first", "second"], evaluate=[0.4, 0.9])
    start_worker(services)
    response = client.post("/v1/generate-answer", json=REQUEST)
    job_id, seen = response.json()["id"], []
    while not seen or seen[-1].type != "done":
        position = {"Last-Event-ID": str(seen[-1].seq)} if seen else {}
        with follow(client, job_id, **position) as stream:
            seen += islice(stream.events(), 2)
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert [event.type for event in seen if event.type != "step.retrying"] == [
        "job.queued",
        "job.started",
        "iteration.started",
        "iteration.generated",
        "iteration.evaluated",
        "thinking",
        "iteration.started",
        "iteration.generated",
        "iteration.evaluated",
        "done",
    ]
    job = client.get(f"/v1/jobs/{job_id}?include=iterations").json()
    assert job["result"] == seen[-1].data["result"]
    assert seen[-1].data.keys() <= EventData.model_fields.keys()
    assert job["result"]["final_answer"] == "second"
    assert [each["evaluation"]["score"] for each in job["iterations"]] == [0.4, 0.9]
    calls = client.get(f"/v1/jobs/{job_id}/calls").json()["data"]
    assert [call["type"] for call in calls] == ["generate", "evaluate"] * 2
    assert client.get(f"/v1/jobs/{job_id}/calls/{calls[0]['id']}").json() == calls[0]
    assert "sk-test" not in json.dumps(calls)
    wait_until(lambda: api.open_requests == 0)
    assert client.get("/readyz").json()["status"] == "ready"


def test_a_stream_of_an_answered_job_goes_on_until_it_is_evaluated(client: httpx2.Client, services: Services):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    body = {**REQUEST, "evaluation": {"when": "after_answer"}}
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    job = client.post("/v1/generate-answer", json=body, headers=headers).json()
    assert job["trace_id"] == trace
    driver = Driver(services)
    driver.step(job["id"])
    assert client.get(job["urls"]["self"], headers={"Prefer": "wait=20"}).json()["stop_reason"] == "answered"
    with follow(client, job["id"]) as stream:
        frames = stream.frames()
        done = next(frame for frame in frames if frame.type == "done")
        driver.step(job["id"])
        *_, last = (frame for frame in frames if frame.type)
    assert (last.type, last.data["result"]["final_answer"]) == ("evaluated", done.data["result"]["final_answer"])
    assert done.data["trace_id"] == last.data["trace_id"] == trace
    ended = client.get(f"/v1/jobs/{job['id']}/events?after={last.seq}")
    assert ended.status_code == 204


@pytest.mark.parametrize("sent", ["00-0-0-01", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"ff-{'a' * 32}-{'b' * 16}-01"])
def test_a_trace_that_is_not_valid_is_ignored(client: httpx2.Client, sent: str):
    job = client.post("/v1/generate-answer", json=REQUEST, headers={"traceparent": sent}).json()
    assert job["trace_id"] is None
