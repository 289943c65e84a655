"""Workers that die together, that are replaced one by one, and messages that come thrice."""

import random
import signal
from collections.abc import Callable

import pytest
from sqlalchemy import text

from tests.chaos.conftest import Scene
from tests.chaos.storms.messages import Repeater
from tests.model_server.scripts import Reply
from tests.support.waiting import let_pass, wait_until

SLOW, OTHER = Reply(text="a slow line", latency_s=0.8), Reply(text="another line", latency_s=0.8)


def start_workers(scene: Scene, count: int) -> None:
    for _ in range(count):
        scene.stage.start_worker()
    scene.stage.wait_ready()


@pytest.mark.long
def test_all_workers_die_and_come_back_after_two_leases(on_postgresql: Scene):
    scene = on_postgresql
    scene.provider.script(generate=[SLOW], evaluate=[0.9])
    start_workers(scene, 3)
    job_ids = scene.submit_many(9, iter_max=1)
    wait_until(lambda: len(scene.provider.requests("generate")) == 9, within_s=20, what="all calls in flight")
    for worker in scene.stage.workers:
        worker.signal(signal.SIGKILL)
    in_flight = scene.count_calls("started")
    let_pass(2 * scene.stage.settings.lease_s)
    for worker in scene.stage.workers:
        worker.start_again()
    scene.finish()

    assert {scene.driver.job(job_id).stop_reason for job_id in job_ids} == {"accepted"}
    assert 0 < scene.count_calls("unknown") <= in_flight
    assert scene.count_calls("dup") == 0
    assert scene.problems() == []


@pytest.mark.long
def test_replacing_one_worker_after_the_other_wastes_no_call(scene: Scene):
    scene.provider.script(generate=[SLOW, OTHER], evaluate=[0.5, 0.9])
    start_workers(scene, 2)
    scene.submit_many(24, iter_max=2)
    for worker in list(scene.stage.workers):
        wait_until(lambda: scene.count_calls("started") > 0, what="calls in flight")
        scene.stage.start_worker()
        assert worker.stop(within_s=20) == 0
    scene.finish()
    assert scene.count_calls("unknown", "dup") == 0
    assert len(scene.provider.requests()) == 24 * 4
    assert scene.problems() == []


def test_every_message_thrice_and_shuffled_makes_each_call_once(scene: Scene):
    scene.provider.script(generate=["one", "two"], evaluate=[0.5, 0.9])
    start_workers(scene, 2)
    repeater = Repeater(scene.stage.valkey, random.Random(7), times=3, late_s=0.8).start()
    scene.submit_many(20, iter_max=2)
    scene.finish()
    repeater.stop()
    assert repeater.heard >= 20
    assert scene.count_calls("unknown", "dup") == 0
    assert len(scene.provider.requests()) == 20 * 4
    assert scene.problems() == []


def test_twice_as_many_calls_as_connections_are_in_flight_and_none_holds_a_transaction(
    make_scene: Callable[..., Scene],
):
    scene = make_scene("postgresql", worker_concurrency=24)
    scene.provider.script(generate=[Reply(text="a line", is_held=True)], evaluate=[0.9])
    start_workers(scene, 1)
    scene.submit_many(20, iter_max=1)
    wait_until(lambda: scene.provider.log.max_in_flight.get("writer") == 20, what="twenty calls at once")
    query = "SELECT count(*) FROM pg_stat_activity WHERE xact_start < now() - interval '0.5 s' AND datname LIKE 'red%'"
    with scene.stage.services.database.read() as connection:
        assert connection.scalar(text(query)) == 0
    scene.provider.release()
    scene.finish()
    assert scene.problems() == []
