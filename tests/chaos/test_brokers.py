"""A broker that is dead or hung: the door stays open, and jobs go on."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.chaos.conftest import Scene
from tests.support.failing_broker import FailingBroker
from tests.support.waiting import patient, wait_until


def post_many(scene: Scene, count: int) -> list[float]:
    """How long each of so many submissions took; every one is accepted."""
    seconds: list[float] = []
    for _ in range(count):
        body = scene.body(iter_max=1)
        started_at = time.monotonic()
        answer = scene.post(body)
        seconds.append(time.monotonic() - started_at)
        # 201 if it has ended by the time of the answer
        assert answer.status_code in {201, 202}, answer.text
        scene.accepted(answer.json()["id"])
    return seconds


def test_jobs_run_to_their_end_while_the_broker_is_dead(on_sqlite: Scene):
    scene = on_sqlite
    scene.stage.start_api()
    scene.stage.start_worker()
    scene.stage.wait_ready()
    scene.stage.valkey.stop(kill=True)
    assert max(post_many(scene, 5)) < patient(1.0)
    scene.finish()
    assert scene.problems() == []


def test_a_broker_that_fails_over_is_connected_to_again(on_sqlite: Scene):
    """Whoever waits for a message is told UNBLOCKED, and who comes meanwhile READONLY or MASTERDOWN."""
    scene = on_sqlite
    worker = scene.stage.start_worker()
    scene.stage.wait_ready()
    with scene.stage.valkey.client() as client:
        client.config_set("replica-serve-stale-data", "no")
        client.replicaof("127.0.0.1", "1")
        wait_until(lambda: "Link with MASTER is down" in worker.log_text(), within_s=20, what="the failover")
        client.replicaof("NO", "ONE")
    job_id = scene.submit(iter_max=1)
    scene.finish()
    assert scene.driver.job(job_id).stop_reason == "accepted"
    assert worker.is_alive
    assert worker.exits == []
    assert scene.problems() == []


REFUSALS = (
    "READONLY You can't write against a read only replica.",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    "LOADING Valkey is loading the dataset in memory",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM this user has no permissions to run the 'brpop' command",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN Hash slot not served",
    "MOVED 3999 127.0.0.1:6381",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "ERR max number of clients reached",
    "NEVERSEEN what no client knows",
)


def test_worker_and_api_outlive_each_error_of_a_broker_and_come_back_to_it(make_scene: Callable[..., Scene]):
    with FailingBroker() as broker:
        scene = make_scene("sqlite", broker_url=broker.url)
        broker.upstream = scene.stage.valkey.socket
        scene.stage.start_api()
        worker = scene.stage.start_worker()
        scene.stage.wait_ready()
        for refusal in REFUSALS:
            wait_until(lambda: broker.waits, within_s=30, what=f"a worker that listens before {refusal}")
            with broker.answering(refusal):
                wait_until(lambda: broker.refused >= 2, what=f"an answer {refusal}")
                post_many(scene, 1)
                scene.finish()
        wait_until(lambda: broker.waits, within_s=30, what="a worker that listens after all")
        assert worker.is_alive
        assert worker.exits == []
        assert scene.problems() == []


@pytest.mark.long
@pytest.mark.parametrize("without_data", [False, True], ids=["with its data", "without its data"])
def test_a_worker_hears_the_bell_again_after_the_broker_was_away(on_postgresql: Scene, without_data: bool):  # noqa: FBT001
    scene = on_postgresql
    scene.stage.start_api()
    scene.stage.start_worker()
    scene.stage.wait_ready()
    scene.stage.valkey.stop(kill=True)
    post_many(scene, 3)
    scene.stage.start_broker(without_data=without_data)
    scene.finish()
    post_many(scene, 3)
    scene.finish()
    assert scene.problems() == []


@pytest.mark.long
def test_a_hung_broker_delays_a_submission_by_its_time_limit_at_most(on_postgresql: Scene):
    scene = on_postgresql
    scene.stage.start_api()
    scene.stage.start_worker()
    scene.stage.wait_ready()
    os.kill(scene.stage.valkey.pid, signal.SIGSTOP)
    try:
        assert max(post_many(scene, 5)) < patient(1.5)
        scene.finish()
    finally:
        os.kill(scene.stage.valkey.pid, signal.SIGCONT)
    assert scene.problems() == []


# Case D02
def test_a_job_that_waits_runs_within_a_sweep_after_the_broker_is_back(on_sqlite: Scene):
    scene = on_sqlite
    scene.stage.start_api()
    scene.stage.valkey.stop(kill=True)
    wait_until(scene.stage.api_answers, within_s=20, what="the API")
    post_many(scene, 3)
    scene.stage.start_broker()
    scene.stage.start_worker()
    scene.stage.wait_ready()
    started_at = time.monotonic()
    scene.finish()
    assert time.monotonic() - started_at < patient(5.0)
    assert scene.problems() == []
