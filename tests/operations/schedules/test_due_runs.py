"""Runs of schedules: one per time, once after an outage, with gates and webhooks, however many workers race."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from redraft.domain.bulk.run_requests import CreateRun, RunWebhook
from redraft.domain.bulk.schedule_requests import CreateSchedule, RunGates
from redraft.errors import Conflict, Invalid, NotFound
from redraft.operations.bulk import deletion, runs
from redraft.operations.jobs import webhooks
from redraft.operations.schedules import run_schedules as schedules
from redraft.operations.schedules.due_runs import check_ended_runs, start_due_runs
from redraft.operations.schedules.run_schedules import Schedule
from redraft.storage.engine.bulk_tables import run_schedules
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import DEFAULTS, dataset, rows, work_off
from tests.operations.driving import Driver
from tests.support.receiver import LOOPBACK, SECRET, Receiver

NOW = datetime(2026, 11, 30, 5, 30, tzinfo=UTC)
SIX = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
BOTH: Any = ["run.finished", "run.gate_failed"]


def create(driver: Driver, *, cron: str = "0 * * * *", gates: RunGates | None = None, **fields: Any) -> Schedule:
    defaults = {**DEFAULTS, "iter_max": 1}
    run = CreateRun(dataset_id=dataset(driver.services, rows(2)), defaults=defaults, **fields)
    body = CreateSchedule(cron=cron, run=run, gates=gates or RunGates())
    return schedules.create_schedule(driver.services, body, clock=lambda: NOW)


def start_at(driver: Driver, at: datetime) -> None:
    start_due_runs(driver.services, clock=lambda: at)


def run_ids(driver: Driver) -> list[str]:
    return [run.id for run in runs.list_runs(driver.services, cursor=None, limit=50)[0]]


@pytest.mark.both_databases
def test_a_run_starts_at_its_time_and_once(driver: Driver):
    schedule = create(driver)
    assert (schedule.status, schedule.next_at) == ("active", SIX)
    start_at(driver, SIX - timedelta(seconds=1))
    assert run_ids(driver) == []
    for later in (0, 1, 59):
        start_at(driver, SIX + timedelta(minutes=later))
    [run_id] = run_ids(driver)
    shown = schedules.get_schedule(driver.services, schedule.id)
    assert [(tick.tick, tick.run_id) for tick in shown.ticks] == [(SIX, run_id)]
    assert shown.next_at == SIX + timedelta(hours=1)


@pytest.mark.both_databases
def test_racing_workers_start_one_run(driver: Driver):
    schedule = create(driver)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(start_at, driver, SIX) for _ in range(8)]:
            done.result()
    assert len(run_ids(driver)) == 1
    assert len(schedules.get_schedule(driver.services, schedule.id).ticks) == 1


def test_after_an_outage_only_the_latest_time_is_caught_up(driver: Driver):
    schedule = create(driver)
    start_at(driver, SIX + timedelta(hours=5, minutes=20))
    shown = schedules.get_schedule(driver.services, schedule.id)
    assert [tick.tick for tick in shown.ticks] == [SIX + timedelta(hours=5)]
    assert shown.next_at == SIX + timedelta(hours=6)


def test_no_run_starts_while_the_previous_one_is_running(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    schedule = create(driver)
    start_at(driver, SIX)
    start_at(driver, SIX + timedelta(hours=1))
    newest, first = schedules.get_schedule(driver.services, schedule.id).ticks
    assert (newest.run_id, newest.error and newest.error.code) == (None, "run_not_ended")
    assert first.run_id is not None
    work_off(driver, runs.get_run(driver.services, first.run_id))
    start_at(driver, SIX + timedelta(hours=2))
    assert len(run_ids(driver)) == 2


def test_a_schedule_that_cannot_be_read_does_not_hold_up_others(driver: Driver):
    broken, whole = create(driver), create(driver)
    with driver.services.database.write() as connection:
        connection.execute(update(run_schedules).values(request={}).where(run_schedules.c.id == broken.id))
    start_at(driver, SIX)
    [tick] = schedules.get_schedule(driver.services, broken.id).ticks
    assert (tick.run_id, tick.error and tick.error.code) == (None, "internal_error")
    assert [schedules.get_schedule(driver.services, whole.id).ticks[0].run_id] == run_ids(driver)


def test_a_paused_schedule_starts_nothing_and_catches_nothing_up(driver: Driver):
    schedule = create(driver)
    assert schedules.pause_schedule(driver.services, schedule.id).status == "paused"
    start_at(driver, SIX + timedelta(hours=2))
    assert run_ids(driver) == []
    later = SIX + timedelta(hours=2, minutes=5)
    resumed = schedules.resume_schedule(driver.services, schedule.id, clock=lambda: later)
    assert resumed.next_at == SIX + timedelta(hours=3)


def test_a_deleted_schedule_leaves_its_runs_and_its_dataset(driver: Driver):
    schedule = create(driver)
    with pytest.raises(Conflict, match=schedule.id):
        deletion.delete_dataset(driver.services, schedule.dataset_id)
    start_at(driver, SIX)
    schedules.delete_schedule(driver.services, schedule.id)
    assert len(run_ids(driver)) == 1
    with pytest.raises(NotFound):
        schedules.get_schedule(driver.services, schedule.id)


def test_a_schedule_of_no_dataset_or_with_bad_words_is_refused(driver: Driver):
    with pytest.raises(Invalid, match="five"):
        create(driver, cron="hourly")
    run = CreateRun(dataset_id="ds_missing", defaults=DEFAULTS)
    with pytest.raises(NotFound):
        schedules.create_schedule(driver.services, CreateSchedule(cron="0 * * * *", run=run))


@pytest.mark.both_databases
def test_a_failed_gate_is_stored_once_and_sent(make_driver: Any, model_server: ModelServer, receiver: Receiver):
    driver = make_driver(webhook_secret=SECRET, webhook_allow_private=LOOPBACK)
    model_server.script(generate=["a"], evaluate=[0.2])
    gates = RunGates(min_pass_rate=0.5, fail_on_regression=True)
    schedule = create(driver, gates=gates, webhook=RunWebhook(url=receiver.url, events=BOTH))
    start_at(driver, SIX)
    [run_id] = run_ids(driver)
    check_ended_runs(driver.services)
    assert schedules.get_schedule(driver.services, schedule.id).ticks[0].gates is None
    work_off(driver, runs.get_run(driver.services, run_id))
    check_ended_runs(driver.services)
    check_ended_runs(driver.services)
    # The first run has no run to be compared with
    [gate] = schedules.get_schedule(driver.services, schedule.id).ticks[0].gates or []
    assert (gate.gate, gate.passed) == ("min_pass_rate", False)
    sent = webhooks.list_deliveries(driver.services, run_id)
    assert sorted(each.type for each in sent) == BOTH


def test_the_second_run_is_compared_with_the_first(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    schedule = create(driver, gates=RunGates(fail_on_regression=True))
    for hour in range(2):
        start_at(driver, SIX + timedelta(hours=hour))
        work_off(driver, runs.get_run(driver.services, run_ids(driver)[0]))
        check_ended_runs(driver.services)
    newest, first = schedules.get_schedule(driver.services, schedule.id).ticks
    assert first.gates == []
    assert [(gate.gate, gate.passed) for gate in newest.gates or []] == [("fail_on_regression", True)]
