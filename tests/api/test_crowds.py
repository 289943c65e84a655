import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import httpx2
import pytest
from sqlalchemy import text

from api.intervals import Intervals
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.settings import Settings
from redraft.storage.engine.unit_of_work import Database
from tests.api.conftest import assert_problem
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.support.api_server import ApiServer
from tests.support.event_stream import follow
from tests.support.processes import WorkerProcess
from tests.support.waiting import patient, wait_until


def build_with_a_tiny_pool(settings: Settings) -> Services:
    services = build_runtime(settings)
    services.database.close()
    return replace(services, database=Database(settings.effective_database_url, pool_size=1))


def test_twenty_streams_and_a_pool_of_two_leave_room_for_others(
    start_api: Callable[..., ApiServer], services: Services, submit_job: Callable[..., str]
):
    api = start_api(build=build_with_a_tiny_pool, intervals=Intervals(poll_s=0.3, poll_offline_s=0.3))
    client, job_ids = api.client(), [submit_job(), submit_job()]
    with ExitStack() as stack:
        streams = [stack.enter_context(follow(client, job_ids[number % 2])) for number in range(20)]
        assert {next(stream.events()).seq for stream in streams} == {1}
        assert api.open_requests == 20
        for _ in range(10):
            started_at = time.monotonic()
            assert client.get("/v1/jobs").status_code == 200
            assert time.monotonic() - started_at < patient(1.25)
        assert idle_in_transaction(services) == 0


def test_a_caller_has_so_many_streams_open_and_no_more(
    start_api: Callable[..., ApiServer], submit_job: Callable[..., str]
):
    api = start_api(streams_max=3)
    client, job_id = api.client(), submit_job()
    with ExitStack() as stack:
        streams = [stack.enter_context(follow(client, job_id)) for _ in range(3)]
        assert {next(each.events()).seq for each in streams} == {1}
        for path in (f"/v1/jobs/{job_id}/events", "/news"):
            response = client.get(path, headers={"Accept": "text/event-stream"})
            assert_problem(response, 429, "too_many_streams")
            assert response.headers["retry-after"] == "10"
    wait_until(lambda: not api.open_requests, what="the end of the streams")
    with follow(client, job_id) as again:
        assert next(again.events()).seq == 1


@pytest.mark.parametrize("database_url", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True)
def test_streams_beside_slow_model_calls_leave_room_too(
    start_api: Callable[..., ApiServer],
    start_worker: Callable[..., WorkerProcess],
    services: Services,
    submit_job: Callable[..., str],
    model_server: ModelServer,
):
    """Case D10: two jobs in a worker's hands, twenty who watch them, and somebody else who only wants a list."""
    model_server.script(generate=[Reply(text="slow", is_held=True)], evaluate=[0.9])
    start_worker(services).wait_ready()
    client = start_api(build=build_with_a_tiny_pool, intervals=Intervals(poll_s=0.3, poll_offline_s=0.3)).client()
    job_ids = [submit_job(), submit_job()]
    with ExitStack() as stack:
        streams = [stack.enter_context(follow(client, job_ids[number % 2])) for number in range(20)]
        wait_until(lambda: len(model_server.requests()) == 2, what="both calls")
        for _ in range(10):
            started_at = time.monotonic()
            assert client.get("/v1/jobs").status_code == 200
            assert time.monotonic() - started_at < patient(1.25)
            assert idle_in_transaction(services) == 0
        model_server.release()
        assert {[event.type for event in stream.events()][-1] for stream in streams} == {"done"}


def idle_in_transaction(services: Services) -> int:
    if services.database.is_sqlite:
        return 0
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' "
        "AND datname = current_database() AND state_change < clock_timestamp() - interval '1 second'"
    )
    with services.database.read() as connection:
        return connection.execute(text(query)).scalar_one()


# Case E01
def test_fifty_streams_that_were_dropped_leave_nothing_behind(
    api: ApiServer, services: Services, submit_job: Callable[..., str], client: httpx2.Client, caplog
):
    job_id = submit_job()
    with ExitStack() as stack:
        crowd = api.client()
        streams = [stack.enter_context(follow(crowd, job_id)) for _ in range(50)]
        assert {next(stream.events()).seq for stream in streams} == {1}
        assert api.open_requests == 50
    crowd.close()
    wait_until(lambda: api.open_requests == 0, within_s=10)
    assert api.app.state.context.notifications.channels == frozenset()
    assert [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []
    Driver(services).run(job_id)
    assert client.get(f"/v1/jobs/{job_id}").json()["status"] == "succeeded"
