"""A worker dies, stops or loses its database at a named boundary of a step: what that costs, to the call."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.conftest import Scene
from tests.model_server.scripts import Reply
from tests.support.waiting import let_pass, wait_until

# Where the first worker dies in its first step, what the ledger shows then, and how often the provider was asked.
DEATHS = {
    "claiming": (["ok", "ok"], 2),
    "claimed": (["unknown", "ok", "ok"], 2),
    "called": (["unknown", "ok", "ok"], 3),
    "storing": (["unknown", "ok", "ok"], 3),
    # The commit has claimed and reserved the next step, too, whose call was not made
    "stored": (["ok", "unknown", "ok"], 2),
}


# To the ledger these are deaths that others show: at `called`, and of a worker that stops at `claimed`.
SHOWN_BY_OTHERS = {"claimed", "storing"}


@pytest.mark.parametrize(
    "fault_point", [pytest.param(each, marks=pytest.mark.long) if each in SHOWN_BY_OTHERS else each for each in DEATHS]
)
def test_a_worker_that_dies_at_a_boundary_wastes_the_call_in_flight_and_no_other(scene: Scene, fault_point: str):
    expected, requests = DEATHS[fault_point]
    scene.stage.start_worker(f"{fault_point}=kill@1")
    job_id = scene.submit(iter_max=1)
    scene.wait_dead()
    assert scene.stage.workers[0].process.returncode == -signal.SIGKILL
    scene.stage.start_worker()
    scene.finish()

    assert scene.driver.job(job_id).stop_reason == "accepted"
    assert scene.driver.call_statuses(job_id) == expected
    assert len(scene.provider.requests()) == requests
    assert scene.problems() == []


# Where the first worker dies, how many calls are lost, and how often the provider is asked at most
DEATHS_IN_OVERLAPS = {"kept=kill@1": (1, 5), "called=kill@2": (0, 4), "stored=kill@2": (1, 4)}


@pytest.mark.parametrize("fault", DEATHS_IN_OVERLAPS)
def test_a_worker_that_dies_while_it_evaluates_and_generates_loses_no_recorded_reply(scene: Scene, fault: str):
    lost, requests = DEATHS_IN_OVERLAPS[fault]
    scene.provider.script(generate=["one", "two", "three"], evaluate=[0.2, 0.2, 0.9])
    scene.stage.start_worker(fault)
    job_id = scene.submit(iter_max=2, evaluation={"when": "overlap"})
    scene.wait_dead()
    scene.stage.start_worker()
    scene.finish()
    assert sorted(scene.driver.call_statuses(job_id)) == ["ok"] * 4 + ["unknown"] * lost
    assert len(scene.provider.requests()) <= requests
    assert scene.problems() == []


@pytest.mark.parametrize("fault_point", ["claiming", "storing"])
def test_a_database_that_fails_within_a_unit_of_work_wastes_no_call(scene: Scene, fault_point: str):
    scene.stage.start_worker(f"{fault_point}=fail@1")
    job_id = scene.submit(iter_max=1)
    scene.finish()
    assert scene.driver.job(job_id).stop_reason == "accepted"
    assert scene.driver.call_statuses(job_id) == ["ok", "ok"]
    assert len(scene.provider.requests()) == 2
    assert scene.problems() == []


def test_a_worker_stopped_past_its_lease_writes_nothing_when_it_wakes_and_its_reply_is_kept(scene: Scene):
    scene.provider.script(generate=["late", "first"], evaluate=[0.9])
    scene.stage.start_worker("called=stop@1")
    job_id = scene.submit(iter_max=1)
    scene.wait_stopped()
    scene.stage.start_worker()
    wait_until(lambda: scene.driver.row(job_id).finished_at, what="the end of the job")
    before = scene.driver.row(job_id)

    scene.stage.workers[0].signal(signal.SIGCONT)
    wait_until(lambda: "dup" in scene.driver.call_statuses(job_id), what="the late reply in the ledger")
    scene.finish()
    after = scene.driver.row(job_id)
    assert (after.result, after.event_seq, after.lease_token) == (before.result, before.event_seq, before.lease_token)
    assert after.result is not None
    assert after.result["final_answer"] == "first"
    assert [call["reply_text"] for call in scene.driver.ledger(job_id) if call["status"] == "dup"] == ["late"]
    assert len(scene.provider.requests()) == 3
    assert scene.problems() == []


def test_a_reply_kept_by_a_late_worker_spares_the_next_one_its_call(scene: Scene):
    scene.provider.script(generate=["late", "lost", "never asked for"], evaluate=[0.9])
    scene.stage.start_worker("called=stop@1")
    job_id = scene.submit(iter_max=1)
    scene.wait_stopped()
    scene.stage.start_worker("called=kill@1")
    scene.wait_dead(1)
    scene.stage.workers[0].signal(signal.SIGCONT)
    wait_until(lambda: "ok" in scene.driver.call_statuses(job_id), what="the late reply in the ledger")
    scene.stage.workers[0].signal(signal.SIGKILL)
    scene.stage.start_worker()
    scene.finish()

    result = scene.driver.row(job_id).result
    assert result is not None
    assert result["final_answer"] == "late"
    assert scene.driver.call_statuses(job_id) == ["ok", "unknown", "ok"]
    assert len(scene.provider.requests("generate")) == 2
    assert scene.problems() == []


def test_a_worker_stopped_before_its_call_does_not_make_it_when_another_has_done_the_step(scene: Scene):
    scene.stage.start_worker("claimed=stop@1")
    job_id = scene.submit(iter_max=1)
    scene.wait_stopped()
    scene.stage.start_worker()
    scene.finish()
    assert len(scene.provider.requests()) == 2

    scene.stage.workers[0].signal(signal.SIGCONT)
    assert scene.stage.workers[0].stop() == 0
    assert len(scene.provider.requests()) == 2
    assert scene.driver.call_statuses(job_id) == ["error", "ok", "ok"]
    call = scene.driver.ledger(job_id)[0]
    assert is_unsent(call), call["error"]
    assert scene.problems() == []


def is_unsent(call: dict[str, Any]) -> bool:
    """Closed as never made, at no cost."""
    return "never sent" in call["error"]["detail"] and call["cost_nano_usd"] == 0


def test_a_worker_that_slept_between_claim_and_call_makes_none_for_a_job_that_was_canceled_meanwhile(
    make_scene: Callable[..., Scene],
):
    """Its lease is still good, and no heartbeat has told it anything."""
    scene = make_scene("sqlite", lease_s=60.0, heartbeat_s=15.0)
    scene.stage.start_worker("claimed=stop@1")
    job_id = scene.submit(iter_max=1)
    scene.wait_stopped()
    scene.cancel(job_id)
    let_pass(2.1)
    scene.stage.workers[0].signal(signal.SIGCONT)
    wait_until(lambda: scene.driver.call_statuses(job_id) == ["error"], what="the end of the call")
    assert scene.provider.requests() == []
    call = scene.driver.ledger(job_id)[0]
    assert is_unsent(call), call["error"]
    assert scene.problems() == []


def test_a_job_canceled_between_claim_and_call_is_not_called_for(make_scene: Callable[..., Scene]):
    # Long enough for the pause and for what the worker does after it
    scene = make_scene("sqlite", shutdown_grace_s=20.0)
    scene.stage.start_worker("claimed=pause:4@1")
    job_id = scene.submit(iter_max=1)
    wait_until(lambda: scene.driver.row(job_id).status == "running", what="the claim")
    scene.cancel(job_id)
    assert scene.stage.workers[0].stop() == 0
    assert scene.provider.requests() == []
    call = scene.driver.ledger(job_id)[0]
    assert is_unsent(call), call["error"]
    assert scene.driver.event_types(job_id)[-1] == "done"


def test_a_failure_that_a_late_worker_brings_does_not_end_a_job_that_goes_on(scene: Scene):
    refused = Reply(status=401, raw={"error": {"message": "bad key"}})
    scene.provider.script(generate=[refused, "first"], evaluate=[Reply(score=0.9, is_held=True)])
    scene.stage.start_worker("called=stop@1")
    job_id = scene.submit(iter_max=1)
    scene.wait_stopped()
    scene.stage.start_worker()
    wait_until(lambda: scene.provider.requests("evaluate"), within_s=20, what="the next step")
    scene.stage.workers[0].signal(signal.SIGCONT)
    wait_until(lambda: "error" in scene.driver.call_statuses(job_id), what="the late failure in the ledger")
    scene.provider.release()
    scene.finish()
    assert scene.driver.job(job_id).stop_reason == "accepted"
    assert scene.driver.call_statuses(job_id) == ["error", "ok", "ok"]
    assert scene.problems() == []
