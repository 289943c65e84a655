"""Runs with items that cannot be started: the others go on, the run says why, and it ends."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, text, update

from redraft.domain.bulk.run_requests import ResumeRun
from redraft.operations.bulk import run_results, runs, scheduler
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from redraft.storage.bulk import run_items
from redraft.storage.engine.bulk_tables import dataset_items
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import now, rows, start, under_way, work_off
from tests.operations.driving import Driver
from tests.support.waiting import wait_until

FOREIGN = b'{"custom_id": "foreign", "instruct": "Q", "model": "anthropic:claude-haiku-4-5"}\n'


def mixed(driver: Driver) -> Run:
    """A run whose first item is under way, and the second of which needs a provider that not every worker has."""
    return start(driver, rows(1) + FOREIGN + rows(3)[len(rows(1)) :], max_in_flight=1)


def feed_and_work(driver: Driver, run: Run) -> Run:
    for job_id in under_way(driver, run):
        driver.run(job_id)
    scheduler.schedule_all(driver.services)
    return now(driver, run)


def test_an_item_that_no_worker_can_start_keeps_no_other_waiting_and_ends_the_run_with_its_reason(
    driver: Driver, make_driver: Callable[..., Driver], model_server: ModelServer
):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = mixed(driver)
    keyless = make_driver(anthropic_api_key=None, anthropic_base_url=None, run_give_up_s=1.0, sweep_s=0.1)
    seen: list[Run] = [run]

    def has_ended() -> bool:
        seen.append(feed_and_work(keyless, run))
        return seen[-1].status != "running"

    wait_until(has_ended, within_s=20, every_s=0.2, what="the end of the run")
    errors = [each.error for each in seen if each.error and each.status == "running"]
    assert (errors[0].code, errors[0].items) == ("provider_auth", 1)
    assert "anthropic" in errors[0].detail.lower()
    ended = seen[-1]
    assert (ended.status, ended.stop_reason) == ("canceled", "error")
    assert (ended.counts.succeeded, ended.counts.canceled) == (3, 1)
    assert ended.error is not None
    assert ended.error.code == "provider_auth"

    resumed = runs.resume_run(driver.services, run.id, ResumeRun())
    assert (resumed.status, resumed.error) == ("running", None)
    done = work_off(driver, run)
    assert (done.stop_reason, done.counts.succeeded) == ("finished", 4)


def test_an_item_that_was_put_off_is_started_by_a_worker_that_can(
    driver: Driver, make_driver: Callable[..., Driver], model_server: ModelServer
):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = mixed(driver)
    keyless = make_driver(anthropic_api_key=None, anthropic_base_url=None, sweep_s=0.05)
    wait_until(lambda: feed_and_work(keyless, run).error, what="an item that is put off")
    ended = work_off(driver, run)
    assert (ended.stop_reason, ended.error, ended.counts.succeeded) == ("finished", None, 4)


def test_a_row_that_nobody_foresaw_is_an_error_of_its_own(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(3), max_in_flight=1)
    with driver.services.database.write() as connection:
        second = dataset_items.c.position == 1
        row = connection.scalars(select(dataset_items.c.row).where(second)).one()
        connection.execute(update(dataset_items).where(second).values(row={**row, "nobody": "knows"}))
    ended = work_off(driver, run)
    assert (ended.stop_reason, ended.counts.succeeded, ended.counts.invalid) == ("finished", 2, 1)
    (item,) = run_results.list_items(driver.services, run.id, after=0, limit=9, statuses=["invalid"])
    assert "cannot become a job" in item["error"]


def refuse_jobs_that_say(services: Services, word: str) -> None:
    with services.database.write() as connection:
        if connection.dialect.name == "sqlite":
            condition = f"WHEN CAST(NEW.request AS TEXT) LIKE '%{word}%' BEGIN SELECT RAISE(ABORT, 'no'); END"
            connection.execute(text(f"CREATE TRIGGER refuse BEFORE INSERT ON jobs {condition}"))
        else:
            check = f"CHECK (request::text NOT LIKE '%{word}%') NOT VALID"
            connection.execute(text(f"ALTER TABLE jobs ADD CONSTRAINT refuse {check}"))


@pytest.mark.both_databases
def test_an_item_that_cannot_be_stored_takes_no_other_one_with_it(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(5), max_in_flight=2)
    refuse_jobs_that_say(driver.services, "case:r2")
    # It is stored together with the next one
    ended = work_off(driver, run)
    assert (ended.counts.succeeded, ended.counts.invalid) == (4, 1)


@pytest.mark.both_databases
def test_a_run_that_cannot_be_fed_at_all_says_so_and_ends(
    driver: Driver, make_driver: Callable[..., Driver], model_server: ModelServer
):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(3), max_in_flight=1)
    with driver.services.database.write() as connection:
        if connection.dialect.name == "sqlite":
            refused = "WHEN NEW.status = 'running' AND OLD.status = 'queued' BEGIN SELECT RAISE(ABORT, 'no'); END"
            connection.execute(text(f"CREATE TRIGGER refuse BEFORE UPDATE ON run_items {refused}"))
            refused = "WHEN NEW.status = 'invalid' BEGIN SELECT RAISE(ABORT, 'no'); END"
            connection.execute(text(f"CREATE TRIGGER refuse_too BEFORE UPDATE ON run_items {refused}"))
        else:
            check = "CHECK (status NOT IN ('running', 'invalid')) NOT VALID"
            connection.execute(text(f"ALTER TABLE run_items ADD CONSTRAINT refuse {check}"))
    hurried = make_driver(run_give_up_s=0.5, sweep_s=0.05)
    seen: list[Any] = []

    def has_ended() -> bool:
        seen.append(feed_and_work(hurried, run))
        return seen[-1].status != "running"

    wait_until(has_ended, within_s=20, every_s=0.2, what="the end of the run")
    assert {each.error.code for each in seen if each.error} == {"run_not_fed"}
    assert (seen[-1].status, seen[-1].stop_reason, seen[-1].counts.canceled) == ("canceled", "error", 2)


def test_an_item_that_has_ended_at_the_same_moment_is_not_started_again(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = work_off(driver, start(driver, rows(1)))
    with driver.services.database.write() as connection:
        assert not run_items.update_item(connection, run.id, 1, status="running")
    assert now(driver, run).counts.succeeded == 1
