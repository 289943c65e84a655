"""Steps that the gate turns away: they wait as rows, as if nobody had taken them up."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.jobs.lifecycle import cancel
from redraft.operations.steps.sweeper import sweep
from tests.model_server import ModelServer, Reply
from tests.operations.driving import Driver, Killed
from tests.support.valkey import ValkeyServer

MakeDriver = Callable[..., Driver]
SLOW_DOWN = Reply(
    status=429, raw={"error": {"message": "Slow down", "type": "requests", "code": "rate_limit_exceeded"}}
)


@pytest.fixture
def limited(make_driver: MakeDriver, valkey: ValkeyServer) -> Callable[..., Driver]:
    """A driver under limits that no other test has used up."""

    def make(limits: dict[str, Any], **changes: Any) -> Driver:
        driver = make_driver(model_limits=limits, **changes)
        for key in driver.services.queue._redis.scan_iter("redraft:gate:*"):
            driver.services.queue._redis.delete(key)
        return driver

    return make


class Guest:
    """Somebody else's job that holds slots of a model."""

    def __init__(self, driver: Driver, model: str, calls: int = 1) -> None:
        self._session = driver.services.limiter.session()
        message = StepMessage(Step.GENERATE, new_id("job"), 1)
        self._message, self._wanted = message, {model: [new_id("call") for _ in range(calls)]}
        self._calls = calls

    def __enter__(self) -> None:
        assert self._session.__enter__().acquire(self._message, self._wanted)[1].width == self._calls

    def __exit__(self, *_: object) -> None:
        self._session.__exit__(None, None, None)


def check_waits(driver: Driver, job_id: str, step: str, number: int) -> None:
    row = driver.row(job_id)
    assert (row.step, row.step_no, row.step_attempt, row.status) == (step, number, 0, "running")
    assert (row.lease_owner, row.lease_expires_at) == (None, None)
    assert "started" not in driver.call_statuses(job_id)


def test_a_step_that_finds_no_slot_waits_as_a_row_and_is_done_later(limited: MakeDriver, model_server: ModelServer):
    driver = limited({"openai:writer": {"calls_at_once": 1}})
    job_id = driver.submit()
    with Guest(driver, "openai:writer"):
        for _ in range(3):
            driver.go_on(job_id)
            check_waits(driver, job_id, "generate", 1)
        assert driver.event_types(job_id) == ["job.queued", "job.started", "iteration.started"]
        assert sweep(driver.services).undelivered == []
        assert driver.call_statuses(job_id) == []
    driver.go_on(job_id)
    driver.check_order(job_id)
    assert driver.job(job_id).stop_reason == "accepted"
    assert driver.call_statuses(job_id) == ["ok", "ok"]
    assert driver.event_types(job_id).count("iteration.started") == 1


def test_the_next_step_may_be_turned_away_too_and_loses_nothing(limited: MakeDriver, model_server: ModelServer):
    driver = limited({"openai:judge": {"calls_at_once": 1}})
    job_id = driver.submit()
    with Guest(driver, "openai:judge"):
        driver.go_on(job_id)
        check_waits(driver, job_id, "evaluate", 2)
    driver.go_on(job_id)
    driver.check_order(job_id)
    assert driver.call_statuses(job_id) == ["ok", "ok"]


def test_a_job_goes_on_with_its_slot_and_leaves_it_at_the_end(limited: MakeDriver, model_server: ModelServer):
    driver = limited({"openai:*": {"calls_at_once": 1}})
    model_server.script(evaluate=[0.4, 0.9])
    job_id = driver.submit()
    driver.go_on(job_id)
    assert driver.call_statuses(job_id) == ["ok"] * 4
    driver.check_order(job_id)
    with Guest(driver, "openai:writer"):
        pass


def test_a_step_wider_than_the_limit_takes_its_turns(limited: MakeDriver, model_server: ModelServer):
    driver = limited({"openai:*": {"calls_at_once": 2}})
    model_server.script(evaluate=[0.9], latency_s=0.03)
    job_id = driver.submit(candidates=5)
    driver.go_on(job_id)
    driver.check_order(job_id)
    assert driver.call_statuses(job_id) == ["ok"] * 10
    assert max(model_server.log.max_in_flight.values()) == 2


def test_a_second_asking_takes_place_in_the_slot_of_the_first(limited: MakeDriver, model_server: ModelServer):
    driver = limited({"openai:judge": {"calls_at_once": 1, "requests_per_minute": 2}})
    model_server.script(evaluate=[Reply(text="no verdict"), 0.9])
    first, second = driver.submit(), driver.submit()
    driver.go_on(first)
    assert driver.job(first).stop_reason == "accepted"
    driver.go_on(second)
    check_waits(driver, second, "evaluate", 2)


@pytest.mark.parametrize(
    ("limits", "is_speculative"),
    [
        ({"openai:*": {"calls_at_once": 1}}, False),
        ({"openai:*": {"calls_at_once": 2}}, True),
        ({"openai:writer": {"calls_at_once": 1}, "openai:judge": {"calls_at_once": 1}}, True),
        ({"openai:writer": {"requests_per_minute": 1}}, False),
    ],
)
def test_a_speculative_call_is_only_made_if_all_calls_are_admitted(
    limited: MakeDriver, model_server: ModelServer, limits: dict[str, Any], *, is_speculative: bool
):
    driver = limited(limits)
    job_id = driver.submit(evaluation={"when": "overlap"})
    driver.go_on(job_id)
    driver.check_order(job_id)
    assert driver.job(job_id).stop_reason == "accepted"
    assert [row["iteration"] for row in driver.ledger(job_id)] == [1, 1, *([2] if is_speculative else [])]


@pytest.mark.parametrize("happening", ["crash", "cancel"])
def test_slots_are_given_back_whatever_happens(limited: MakeDriver, model_server: ModelServer, happening: str) -> None:
    driver = limited({"openai:*": {"calls_at_once": 1}})
    job_id = driver.submit()

    def happen() -> None:
        if happening == "crash":
            raise Killed
        cancel(driver.services, job_id)

    try:
        driver.interrupted(happen).go_on(job_id)
    except Killed:
        assert happening == "crash"
    with Guest(driver, "openai:writer"):
        pass


def test_a_job_canceled_while_it_asks_makes_no_call(limited: MakeDriver, monkeypatch: pytest.MonkeyPatch):
    driver = limited({"openai:*": {"calls_at_once": 1}})
    job_id = driver.submit()
    enter = driver.services.limiter._limits.acquire

    def canceled_meanwhile(*args: Any) -> Any:
        cancel(driver.services, job_id)
        return enter(*args)

    monkeypatch.setattr(driver.services.limiter._limits, "acquire", canceled_meanwhile)
    driver.go_on(job_id)
    assert driver.call_statuses(job_id) == []
    assert driver.job(job_id).stop_reason == "canceled"


def test_a_waiting_job_ends_at_its_deadline(limited: MakeDriver):
    driver = limited({"openai:*": {"requests_per_minute": 1}})
    job_id = driver.submit()
    with Guest(driver, "openai:writer"):
        driver.go_on(job_id)
    assert (driver.row(job_id).available_at - driver.row(job_id).created_at).total_seconds() > 50
    driver.set_back(job_id, deadline_at=-1.0)
    sweep(driver.services)
    assert driver.job(job_id).stop_reason == "deadline_exceeded"


def test_a_model_that_fails_in_a_row_is_not_hammered(make_driver: MakeDriver, model_server: ModelServer):
    driver = make_driver(circuit_failures=3, circuit_wait_s=3.0, retry_wait_s=0.01)
    model_server.script(generate=[SLOW_DOWN] * 3 + ["one"], evaluate=[0.9])
    job_ids = [driver.submit() for _ in range(6)]
    for job_id in job_ids:
        driver.go_on(job_id)
    assert len(model_server.requests("generate")) == 3
    for job_id in job_ids[3:]:
        check_waits(driver, job_id, "generate", 1)
    assert {driver.run(job_id).stop_reason for job_id in job_ids} == {"accepted"}
    assert len(model_server.requests("generate")) == 9


def test_many_threads_never_make_more_calls_at_once(limited: MakeDriver, model_server: ModelServer):
    driver = limited({"openai:*": {"calls_at_once": 3}})
    model_server.script(evaluate=[0.9], latency_s=0.02)
    threads = [threading.Thread(target=driver.run_new) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(model_server.log.max_in_flight.values()) <= 3
    assert len(model_server.requests()) == 24
