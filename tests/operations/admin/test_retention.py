"""Pruning removes what ended long ago, whole, and nothing else."""

import threading
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from redraft.domain.jobs.requests import ContinueJob
from redraft.domain.jobs.states import JobStatus
from redraft.errors import Invalid, NotFound
from redraft.operations.admin import retention
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.storage.admin.retention import EndedJob, find_ended, remove_ended
from redraft.storage.engine.admin_tables import worker_heartbeats
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import metadata
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver

DAY_S = 86_400.0


def rows(services: Services) -> dict[str, int]:
    """How many rows each table of what jobs leave behind holds, without the empty ones."""
    with services.database.read() as connection:
        counts = {
            name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in metadata.tables.items()
            if name != "profile_versions"  # they belong to no job
        }
    return {name: count for name, count in counts.items() if count}


def ended(driver: Driver, ago_s: float, **fields: object) -> str:
    job = driver.run_new(**fields)
    driver.set_back(job.id, finished_at=-ago_s)
    return job.id


def prune(services: Services, older_s: float = 30 * DAY_S, *statuses: str) -> dict[str, int]:
    return retention.prune(services, retention.too_old(services, older_s, statuses))


@pytest.mark.both_databases
def test_jobs_that_ended_long_ago_go_with_all_that_hangs_on_them(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["one", "two"], evaluate=[0.2, 0.9])
    ended(driver, 31 * DAY_S)
    before = rows(driver.services)
    assert {"jobs", "iterations", "evaluations", "calls", "events"} <= before.keys()
    assert prune(driver.services) == {"succeeded": 1}
    assert rows(driver.services) == {}


@pytest.mark.both_databases
def test_what_ended_lately_and_what_is_alive_stays(driver: Driver):
    young, live = ended(driver, 29 * DAY_S), driver.submit()
    driver.set_back(live, created_at=-400 * DAY_S, available_at=-400 * DAY_S)
    before = rows(driver.services)
    assert prune(driver.services) == {}
    assert rows(driver.services) == before
    assert driver.job(young).status == "succeeded"


@pytest.mark.both_databases
def test_only_the_statuses_that_were_asked_for_go(driver: Driver):
    kept = ended(driver, 40 * DAY_S)
    canceled = driver.submit()
    lifecycle.cancel(driver.services, canceled)
    driver.set_back(canceled, finished_at=-40 * DAY_S)
    assert prune(driver.services, 30 * DAY_S, "canceled", "failed") == {"canceled": 1}
    assert driver.job(kept).status == "succeeded"


@pytest.mark.parametrize("status", ["running", "queued", "done", ""])
def test_a_status_that_no_job_ends_with_is_refused(services: Services, status: str):
    with pytest.raises(Invalid, match="is not one of canceled, failed, succeeded"):
        retention.too_old(services, DAY_S, [status])


def test_counting_removes_nothing(driver: Driver):
    for _ in range(3):
        ended(driver, 31 * DAY_S)
    before = rows(driver.services)
    assert retention.count(driver.services, retention.too_old(driver.services, 30 * DAY_S)) == {"succeeded": 3}
    assert rows(driver.services) == before


def test_many_go_in_batches_and_the_way_is_told(driver: Driver):
    ids = [driver.submit() for _ in range(70)]
    for number, job_id in enumerate(ids):
        lifecycle.cancel(driver.services, job_id)
        # Several of the same moment: a page may end between them
        driver.set_back(job_id, finished_at=-31 * DAY_S - number // 9)
    told: list[tuple[int, int]] = []
    what = retention.too_old(driver.services, 30 * DAY_S)
    assert retention.prune(driver.services, what, lambda done, of: told.append((done, of))) == {"canceled": 70}
    assert len(told) >= 3
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (70, 70)
    assert rows(driver.services) == {}


@pytest.mark.both_databases
def test_pages_follow_each_other_without_a_gap(driver: Driver):
    ids = {driver.submit() for _ in range(9)}
    for job_id in ids:
        lifecycle.cancel(driver.services, job_id)
    with driver.services.database.write() as connection:
        # All at the same moment
        connection.execute(metadata.tables["jobs"].update().values(finished_at=datetime.now(UTC) - timedelta(days=1)))
    what = retention.too_old(driver.services, 60.0)
    found: list[EndedJob] = []
    for _ in range(4):
        with driver.services.database.read() as connection:
            found += find_ended(connection, what.before, (), after=found[-1] if found else None, limit=4)
    assert [job.id for job in found] == sorted(ids)


@pytest.mark.both_databases
def test_a_job_that_is_continued_in_between_stays(driver: Driver):
    job_id = ended(driver, 31 * DAY_S, iter_max=1, score_threshold=1.0)
    what = retention.too_old(driver.services, 30 * DAY_S)
    with driver.services.database.read() as connection:
        (found,) = find_ended(connection, what.before, (), after=None, limit=10)
    lifecycle.continue_job(driver.services, job_id, ContinueJob())
    with driver.services.database.write() as connection:
        assert remove_ended(connection, [found.id], what.before).total() == 0
    assert driver.job(job_id).status == JobStatus.QUEUED


@pytest.mark.both_databases
def test_a_job_in_somebodys_hands_is_left_alone(driver: Driver):
    if driver.services.database.is_sqlite:
        pytest.skip("SQLite has one writer: there are no other hands")
    held, free = ended(driver, 31 * DAY_S), ended(driver, 31 * DAY_S)
    jobs = metadata.tables["jobs"]
    with driver.services.database.engine.connect() as other:
        other.execute(select(jobs.c.id).where(jobs.c.id == held).with_for_update())
        assert prune(driver.services) == {"succeeded": 1}
        other.rollback()
    assert driver.job(held).status == "succeeded"
    with pytest.raises(NotFound):
        driver.job(free)
    assert prune(driver.services) == {"succeeded": 1}


@pytest.mark.both_databases
def test_two_at_once_remove_each_job_once(driver: Driver, make_services: Callable[..., Services]):
    for _ in range(60):
        job_id = driver.submit()
        lifecycle.cancel(driver.services, job_id)
        driver.set_back(job_id, finished_at=-31 * DAY_S)
    removed: list[int] = []
    others = [make_services() for _ in range(2)]
    threads = [threading.Thread(target=lambda each=each: removed.append(sum(prune(each).values()))) for each in others]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    # What one holds the other leaves alone; both together miss nothing
    assert sum(removed) == 60
    assert rows(driver.services) == {}


def test_what_is_removed_is_not_read(driver: Driver):
    """Memory stays flat, however large the jobs are."""
    for _ in range(30):
        job_id = driver.submit(instruct="x" * 200_000)
        lifecycle.cancel(driver.services, job_id)
        driver.set_back(job_id, finished_at=-31 * DAY_S)
    tracemalloc.start()
    try:
        assert prune(driver.services) == {"canceled": 30}
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_workers_forget_what_is_older_than_the_setting_says(make_driver: Callable[..., Driver]):
    # At each sweep, since they are so rare
    driver = make_driver(retention_days=7, sweep_s=60)
    old, young, live = ended(driver, 8 * DAY_S), ended(driver, 6 * DAY_S), driver.submit()
    retention.forget_some(driver.services)
    with pytest.raises(NotFound):
        driver.job(old)
    assert [driver.job(each).id for each in (young, live)] == [young, live]


def test_without_the_setting_all_jobs_are_kept(make_driver: Callable[..., Driver]):
    driver = make_driver(sweep_s=60)
    job_id = ended(driver, 30_000 * DAY_S)
    retention.forget_some(driver.services)
    assert driver.job(job_id).status == "succeeded"


@pytest.mark.both_databases
def test_workers_that_were_not_heard_of_for_a_day_are_forgotten(services: Services):
    worker = {"host": "h", "pid": 1, "concurrency": 4, "version": "0"}
    with services.database.write() as connection:
        for name, ago_s in (("old", DAY_S + 9), ("young", DAY_S - 9)):
            connection.execute(worker_heartbeats.insert().values(id=name, seen_at=DbNow(-ago_s), **worker))
    prune(services)
    with services.database.read() as connection:
        assert list(connection.scalars(select(worker_heartbeats.c.id))) == ["young"]
