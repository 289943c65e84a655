"""A canceled job's calls are aborted from another thread, as the heartbeat does, and the ledger says so."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from redraft.operations.jobs.lifecycle import cancel
from redraft.operations.steps.leases import LeaseHolder
from redraft.storage.jobs import transitions
from tests.model_server import ModelServer, Reply
from tests.operations.driving import ENGINE, Driver, both_formats
from tests.support.waiting import patient, wait_until

MakeDriver = Callable[..., Driver]


@contextmanager
def working(driver: Driver, job_id: str, holder: LeaseHolder) -> Generator[threading.Thread]:
    """A worker's thread on its way through a job."""
    thread = threading.Thread(target=lambda: driver.go_on(job_id, holder=holder))
    thread.start()
    yield thread
    thread.join(patient(60))
    assert not thread.is_alive()


@pytest.mark.parametrize("reply", [Reply(fault="hang"), Reply(text="a b c", fault="stream_hang")])
@both_formats
def test_a_canceled_jobs_call_is_aborted(
    make_driver: MakeDriver, model_server: ModelServer, models: dict[str, str], reply: Reply
):
    driver = make_driver(**models)
    model_server.script(generate=[reply])
    holder = LeaseHolder(driver.services.settings, abort=ENGINE.abort)
    job_id = driver.submit(stream=reply.fault == "stream_hang")
    started = time.monotonic()
    with working(driver, job_id, holder):
        wait_until(model_server.requests, what="the call")
        cancel(driver.services, job_id)
        holder.beat(driver.services.database)
        wait_until(lambda: model_server.open_connections == 0, what="the connection closed")
    assert time.monotonic() - started < patient(30), "long before the call's own end"
    (call,) = driver.ledger(job_id)
    assert (call["status"], call["error"]["code"]) == ("error", "canceled")
    assert driver.job(job_id).status == "canceled"
    driver.check_order(job_id)


def test_all_candidates_are_aborted_also_on_connections_that_were_used_before(
    driver: Driver, model_server: ModelServer
):
    driver.run_new(candidates=3)
    model_server.script(generate=[Reply(fault="hang")])
    holder = LeaseHolder(driver.services.settings, abort=ENGINE.abort)
    job_id = driver.submit(candidates=3)
    before = len(model_server.requests("generate"))
    with working(driver, job_id, holder):
        wait_until(lambda: len(model_server.requests("generate")) == before + 3, what="the calls")
        cancel(driver.services, job_id)
        holder.beat(driver.services.database)
    assert [row["error"]["code"] for row in driver.ledger(job_id)] == ["canceled"] * 3


def test_an_evaluators_call_is_aborted_and_the_answer_stays(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[Reply(fault="hang")])
    holder = LeaseHolder(driver.services.settings, abort=ENGINE.abort)
    job_id = driver.submit()
    with working(driver, job_id, holder):
        wait_until(lambda: model_server.requests("evaluate"), what="the call")
        cancel(driver.services, job_id)
        holder.beat(driver.services.database)
    assert driver.call_statuses(job_id) == ["ok", "error"]
    result = driver.job(job_id).result
    assert result is not None
    assert result["final_answer"] == "draft 1"


def test_a_call_whose_lease_was_lost_goes_on_while_its_job_lives(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(text="late", latency_s=1.0)])
    holder = LeaseHolder(driver.services.settings, abort=ENGINE.abort)
    job_id = driver.submit()
    with working(driver, job_id, holder):
        wait_until(model_server.requests, what="the call")
        with driver.services.database.write() as connection:
            transitions.release_leases(connection, holder.owner)
        holder.beat(driver.services.database)
    assert driver.call_statuses(job_id) == ["ok"]


def test_other_jobs_calls_are_left_alone(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(fault="hang")], case="one")
    model_server.script(generate=[Reply(text="Paris.", latency_s=0.5)], case="two")
    holder = LeaseHolder(driver.services.settings, abort=ENGINE.abort)
    one, two = driver.submit(instruct="TASK [[case:one]]"), driver.submit(instruct="TASK [[case:two]]")
    with working(driver, one, holder), working(driver, two, holder):
        wait_until(lambda: len(model_server.requests("generate")) == 2, what="the calls")
        cancel(driver.services, one)
        holder.beat(driver.services.database)
    assert [driver.job(job_id).status for job_id in (one, two)] == ["canceled", "succeeded"]
