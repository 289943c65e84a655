"""Workers die; jobs do not."""

import signal
import time
from collections import Counter
from collections.abc import Callable

from sqlalchemy import select, text

from redraft.operations.services import Services
from redraft.storage.engine.tables import calls
from redraft.storage.jobs import transitions
from tests.journeys.conftest import ON_POSTGRESQL, Desk
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.waiting import patient, wait_until

pytestmark = ON_POSTGRESQL
StartWorker = Callable[..., WorkerProcess]


# Case D03
def test_a_stopping_worker_finishes_its_call_and_hands_the_job_on(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=[Reply(text="one", latency_s=1.0)], evaluate=[0.9])
    first = start_worker(services).wait_ready()
    job = desk.submit()
    wait_until(lambda: model_server.requests("generate"), within_s=20)
    assert first.stop(within_s=10) == 0
    start_worker(services)
    job = desk.finished(job["id"])
    assert (job["stop_reason"], job["usage"]["calls"]) == ("accepted", 2)


def test_calls_longer_than_the_grace_go_to_another_worker_at_once(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=[Reply(text="never seen", latency_s=60), "one"], evaluate=[0.9])
    first = start_worker(services, REDRAFT_SHUTDOWN_GRACE_S="0.5", REDRAFT_LEASE_S="120").wait_ready()
    job = desk.submit()
    wait_until(lambda: model_server.requests("generate"), within_s=20)
    assert first.stop(within_s=10) == 0
    start_worker(services)
    assert desk.finished(job["id"])["stop_reason"] == "accepted"


def waiting_for_locks(services: Services) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'redraft'"
    with services.database.read() as connection:
        return connection.execute(text(query)).scalar_one()


def test_a_step_that_is_being_claimed_when_its_worker_is_told_to_stop_has_the_grace_and_no_more(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=[Reply(text="never seen", latency_s=60)])
    job_id = desk.submit()["id"]
    with services.database.write() as connection:
        transitions.lock(connection, [job_id])
        worker = start_worker(services, REDRAFT_SHUTDOWN_GRACE_S="2", REDRAFT_LEASE_S="120").wait_ready()
        wait_until(lambda: waiting_for_locks(services), within_s=20, what="the claim")
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "Warm shutdown" in worker.log_text(), within_s=20, what="the shutdown")
    wait_until(lambda: model_server.requests("generate"), within_s=20, what="its call")
    assert worker.process.wait(timeout=patient(20)) == 0
    assert desk.client.get(f"/v1/jobs/{job_id}").json()["usage"]["calls"] == 1


def test_a_worker_that_stops_and_a_reply_that_is_kept_wait_for_the_job_before_any_call(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    """Else each could hold what the other needs next."""
    slow, hanging = Reply(score=0.9, latency_s=1.0), Reply(fault="hang")
    model_server.respond(
        lambda asked: Reply(text="one") if asked.role == "generate" else slow if asked.model == "quick" else hanging
    )
    timers = {"REDRAFT_SHUTDOWN_GRACE_S": "1", "REDRAFT_LEASE_S": "120", "REDRAFT_HEARTBEAT_S": "30"}
    worker = start_worker(services, **timers).wait_ready()
    job_id = desk.submit(evaluation={"panel": ["openai:quick", "openai:slow"]})["id"]
    wait_until(lambda: len(model_server.requests("evaluate")) == 2, within_s=20, what="the panel's calls")
    with services.database.write() as connection:
        transitions.lock(connection, [job_id])
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: waiting_for_locks(services) >= 2, within_s=20, what="both")
        mine = select(calls.c.id).where(calls.c.job_id == job_id).with_for_update(nowait=True)
        assert len(connection.execute(mine).all()) == 3
    assert worker.process.wait(timeout=patient(20)) == 0
    assert Counter(call["status"] for call in desk.calls(job_id)) in (
        {"succeeded": 2, "failed": 1},
        {"succeeded": 1, "failed": 2},
    )


def test_a_stopping_worker_counts_the_calls_that_are_out_and_those_that_a_cancel_aborted(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=[Reply(text="never seen", latency_s=60)])
    # No heartbeat comes by itself: the cancel asks for it
    timers = {"REDRAFT_SHUTDOWN_GRACE_S": "1", "REDRAFT_LEASE_S": "3000", "REDRAFT_HEARTBEAT_S": "600"}
    worker = start_worker(services, **timers).wait_ready()
    jobs = [desk.submit(instruct=f"Question {n}?", stream=n == 1)["id"] for n in range(3)]
    wait_until(lambda: len(model_server.requests("generate")) == 3, within_s=20)
    for job_id in jobs[:2]:
        desk.client.post(f"/v1/jobs/{job_id}/cancel")
        wait_until(lambda job_id=job_id: desk.calls(job_id)[0]["status"] == "failed", what="the call aborted")
    assert model_server.open_connections == 1
    assert worker.stop(within_s=10) == 0
    for job_id, code in zip(jobs, ("canceled", "canceled", "worker_lost"), strict=True):
        (call,) = desk.calls(job_id)
        assert (call["status"], call["error"]["code"]) == ("failed", code)
        usage = desk.client.get(f"/v1/jobs/{job_id}").json()["usage"]
        assert (usage["calls"], usage["cost_usd"]) == (1, None)


def test_jobs_wait_in_the_database_while_there_is_no_worker(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=["one"], evaluate=[0.9])
    waiting = [desk.submit()["id"] for _ in range(5)]
    with services.queue._redis as broker:
        broker.flushall()
    start_worker(services)
    assert {desk.finished(job_id)["stop_reason"] for job_id in waiting} == {"accepted"}


def test_a_worker_with_100_calls_in_flight_stops_within_its_grace_and_another_takes_them_at_once(
    desk: Desk, make_services: Callable[..., Services], model_server: ModelServer, start_worker: StartWorker
) -> None:
    grace_s = 12.0
    services = make_services(worker_concurrency=100, lease_s=300.0, shutdown_grace_s=grace_s)
    model_server.script(generate=[Reply(text="never seen", latency_s=300)])
    first = start_worker(services).wait_ready()
    jobs = [desk.submit(instruct=f"Question {n}?", score_threshold=0)["id"] for n in range(100)]
    wait_until(lambda: len(model_server.requests("generate")) == 100, within_s=60)

    model_server.script(generate=["one"], evaluate=[0.9])
    second = start_worker(services).wait_ready(2)
    stopped_at = time.monotonic()
    assert first.stop() == 0
    # A busy machine may take a little longer to tell us
    assert time.monotonic() - stopped_at <= grace_s * 3
    assert {desk.finished(job_id)["stop_reason"] for job_id in jobs} == {"accepted"}
    assert {call["iteration"] for job_id in jobs[:20] for call in desk.calls(job_id)} == {1}
    assert second.process.poll() is None
