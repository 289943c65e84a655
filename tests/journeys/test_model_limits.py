"""Models that are limited, or say that they are: jobs wait as rows, workers do not wait."""

import json
import time
from collections import Counter
from collections.abc import Callable

from redraft.operations.services import Services
from tests.journeys.conftest import ON_POSTGRESQL, Desk
from tests.model_server import ModelServer, Reply, Rule, Script
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

pytestmark = ON_POSTGRESQL
StartWorker = Callable[..., WorkerProcess]
SLOW_DOWN = Reply(
    status=429,
    raw={"error": {"message": "Slow down", "type": "requests", "code": "rate_limit_exceeded"}},
    headers={"retry-after": "2"},
)


def test_a_provider_that_asks_for_a_pause_gets_it_without_a_thread_that_waits(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    limited = Rule([SLOW_DOWN, SLOW_DOWN, SLOW_DOWN, "one"], role="generate", model="limited")
    model_server.play(Script(rules=(limited,)))
    start_worker(services, REDRAFT_WORKER_CONCURRENCY="1").wait_ready()
    started_at = time.monotonic()
    job = desk.submit(model="openai:limited")
    wait_until(lambda: model_server.requests("generate"), within_s=20)
    others = [desk.run()["stop_reason"] for _ in range(3)]
    waiting = desk.client.get(f"/v1/jobs/{job['id']}").json()
    job = desk.finished(job["id"])

    assert (waiting["finished_at"], others) == (None, ["accepted"] * 3), "its only thread was free for others"
    assert time.monotonic() - started_at >= 6
    assert (job["stop_reason"], len(desk.iterations(job["id"]))) == ("accepted", 1)
    made = [(call["type"], call["status"]) for call in desk.calls(job["id"])]
    assert made == [("generate", "failed")] * 3 + [("generate", "succeeded"), ("evaluate", "succeeded")]


def test_a_crowd_that_is_turned_away_leaves_the_worker_to_others_and_does_not_hammer(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.play(Script(rules=(Rule([SLOW_DOWN], model="limited"),)))
    start_worker(services, REDRAFT_WORKER_CONCURRENCY="8").wait_ready()
    crowd = [desk.submit(model="openai:limited")["id"] for _ in range(40)]
    wait_until(lambda: model_server.requests("generate"), within_s=20)
    others = [desk.run()["stop_reason"] for _ in range(5)]
    ended = [job_id for job_id in crowd if desk.client.get(f"/v1/jobs/{job_id}").json()["finished_at"]]
    asked = Counter(entry.model for entry in model_server.requests("generate"))

    assert (others, ended) == (["accepted"] * 5, [])
    assert asked["limited"] < len(crowd), "after a few failures in a row, one call at a time finds out"
    model_server.play(Script())
    assert Counter(desk.finished(job_id)["stop_reason"] for job_id in crowd) == {"accepted": 40}


def test_two_workers_together_keep_to_a_limit_and_use_it(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.play(
        Script(rules=(Rule(5 * [Reply("held", is_held=True)] + [Reply("one")], role="generate"),), latency_s=0.2)
    )
    limits = json.dumps({"openai:narrow": {"calls_at_once": 5}})
    # Sweepers that hardly ever look: those who wait are called
    rare = {"REDRAFT_SWEEP_S": "1.5", "REDRAFT_RING_AGAIN_S": "10"}
    workers = [start_worker(services, REDRAFT_MODEL_LIMITS=limits, **rare) for _ in range(2)]
    workers[0].wait_ready(2)
    crowd = [desk.submit(model="openai:narrow", evaluator_model="openai:narrow")["id"] for _ in range(36)]
    wait_until(lambda: model_server.log.max_in_flight.get("narrow") == 5, within_s=20, what="a call in each slot")
    model_server.release()
    assert Counter(desk.finished(job_id)["stop_reason"] for job_id in crowd) == {"accepted": 36}
    asked = model_server.requests()
    assert model_server.log.max_in_flight["narrow"] == 5
    assert len(asked) == 72, "nobody was asked twice"
    took_s = max(entry.finished_at or 0 for entry in asked) - asked[0].started_at
    assert took_s < 6 * len(asked) * 0.2 / 5, "the slots are in use most of the time"
