"""A database that crashes, is locked, or whose disk is full; and SQLite with several processes."""

import resource
import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import make_url

from tests.chaos.conftest import Scene
from tests.chaos.driver import Driver
from tests.chaos.storms.databases import lock_for
from tests.chaos.storms.load import Provider, draw_job
from tests.chaos.test_workers import start_workers
from tests.model_server.scripts import Reply
from tests.support.waiting import let_pass, patient, wait_until

SLOW, OTHER = Reply(text="a slow line", latency_s=0.5), Reply(text="another line", latency_s=0.5)


def test_crashes_of_postgresql_every_two_seconds_lose_no_job_and_waste_no_call(on_postgresql: Scene):
    scene = on_postgresql
    assert scene.stage.postgres is not None
    scene.provider.script(generate=[SLOW, OTHER], evaluate=[0.5, 0.9])
    start_workers(scene, 2)
    job_ids = scene.submit_many(30, iter_max=2)
    for _ in range(4):
        scene.stage.postgres.crash()
        scene.stage.postgres.start()
        let_pass(2.0)
    scene.finish()
    assert {scene.driver.job(job_id).stop_reason for job_id in job_ids} == {"accepted"}
    assert scene.count_calls("unknown", "dup") == 0
    assert scene.problems() == []


@pytest.mark.long
def test_an_outage_longer_than_a_lease_costs_no_more_than_the_calls_in_flight(on_postgresql: Scene):
    scene = on_postgresql
    assert scene.stage.postgres is not None
    scene.provider.script(generate=[SLOW], evaluate=[0.9])
    start_workers(scene, 2)
    job_ids = scene.submit_many(8, iter_max=1)
    wait_until(lambda: scene.count_calls("started") == 8, what="calls in flight")
    scene.stage.postgres.crash()
    let_pass(2 * scene.stage.settings.lease_s)
    scene.stage.postgres.start()
    scene.finish()
    assert {scene.driver.job(job_id).stop_reason for job_id in job_ids} == {"accepted"}
    assert scene.count_calls("unknown", "dup") <= 8
    assert scene.problems() == []


# Case HB-D1
def test_a_failover_to_a_read_only_standby_refuses_for_a_while_and_pays_for_no_reply_twice(on_postgresql: Scene):
    scene = on_postgresql
    assert scene.stage.postgres is not None
    name = make_url(scene.stage.settings.database_url).database or ""
    scene.provider.script(generate=[Reply(text="a line", is_held=True)], evaluate=[0.9])
    scene.stage.start_api()
    start_workers(scene, 1)
    job_ids = scene.submit_many(4, iter_max=1)
    wait_until(lambda: scene.count_calls("started") == 4, what="calls in flight")
    scene.stage.postgres.set_read_only(name, is_on=True)
    scene.provider.release()
    answers = [scene.post(scene.refused_body()) for _ in range(3)]
    let_pass(4.0)
    scene.stage.postgres.set_read_only(name, is_on=False)
    scene.finish()
    problems = [answer.json() for answer in answers]
    assert {(each["status"], each["code"], each["retryable"]) for each in problems} == {
        (503, "database_unavailable", True)
    }
    assert {scene.driver.job(job_id).stop_reason for job_id in job_ids} == {"accepted"}
    assert scene.count_calls("unknown", "dup", "error") == 0
    assert len(scene.provider.requests()) == 4 * 2
    assert all(member.is_alive for member in scene.stage.members)
    assert scene.problems() == []


def test_a_locked_sqlite_file_delays_submissions_and_refuses_none(on_sqlite: Scene):
    scene = on_sqlite
    scene.stage.start_api()
    start_workers(scene, 1)
    scene.submit_many(4, iter_max=2)
    locker = threading.Thread(target=lock_for, args=(scene.stage.sqlite_file, 4.0))
    locker.start()
    body = scene.body(iter_max=1)
    answer = scene.post(body, timeout_s=20)
    # 201 if it has ended by the time of the answer
    assert answer.status_code in {201, 202}, answer.text
    scene.accepted(answer.json()["id"])
    locker.join()
    scene.finish()
    assert scene.problems() == []


def test_a_full_disk_refuses_submissions_and_loses_no_job(on_sqlite: Scene):
    """Not the disk is full, but the files of these processes must not grow: SQLite meets the same failed write."""
    scene = on_sqlite
    api = scene.stage.start_api()
    start_workers(scene, 1)
    scene.provider.script(generate=[SLOW], evaluate=[0.9])
    job_ids = scene.submit_many(4, iter_max=1)
    wait_until(lambda: scene.count_calls("started") == 4, what="calls in flight")
    members = [api, *scene.stage.workers]
    for member in members:
        resource.prlimit(member.process.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    statuses = {scene.post(scene.refused_body(), timeout_s=20).status_code for _ in range(3)}
    let_pass(1.0)
    assert scene.driver.row(job_ids[0]).finished_at is None
    for member in members:
        resource.prlimit(member.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert statuses == {503}
    scene.finish()
    assert {scene.driver.job(job_id).stop_reason for job_id in job_ids} == {"accepted"}
    assert scene.problems() == []


@pytest.mark.long
def test_api_and_four_workers_on_one_sqlite_file_answer_everybody(make_scene: Callable[..., Scene]):
    scene = make_scene("sqlite", lease_s=20.0)
    scene.provider.respond(Provider(5, slowness=0.3, failing=0.0))
    scene.stage.start_api()
    start_workers(scene, 4)
    plans = [draw_job(5, number) for number in range(1, 41)]
    started_at = time.monotonic()
    submitted = Driver(scene.stage.url).submit_all(plans, every_s=0.05)
    scene.submitted += submitted
    scene.finish()
    assert time.monotonic() - started_at < patient(60)
    assert scene.count_calls("unknown", "dup") == 0
    assert all(seen.attempts == 1 + seen.plan.is_impatient for seen in submitted)
    assert scene.problems() == []
    assert "database is locked" not in "".join(member.log_text() for member in scene.stage.members)
