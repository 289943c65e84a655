"""Observations: one per accepted answer, read in order and by index."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, insert, text

from redraft.domain.jobs.ids import new_id
from redraft.storage.admin import observations
from redraft.storage.admin.observations import ObservationFilter
from redraft.storage.engine.tables import observations as table
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import jobs
from redraft.storage.jobs.jobs import JobRecord
from tests.support.databases.plans import explained, whole_table_reads
from tests.support.rows.observed import add_observation

pytestmark = pytest.mark.both_databases

AddJob = Callable[..., JobRecord]
ALL = ObservationFilter()
START = datetime(2026, 11, 1, tzinfo=UTC)


def ids(
    database: Database,
    criteria: ObservationFilter = ALL,
    *,
    after: tuple[datetime, str] | None = None,
    limit: int = 100,
) -> list[str]:
    with database.read() as connection:
        found = observations.list_page(connection, criteria, after=after, limit=limit)
    return [record.id for record in found]


def test_an_answer_is_observed_once(database: Database, add_job: AddJob):
    job = add_job()
    first = add_observation(database, job.id, 2)
    add_observation(database, job.id, 2, score=0.1)
    second = add_observation(database, job.id, 3)
    assert ids(database) == [first, second]


def test_observations_go_with_their_job(database: Database, add_job: AddJob):
    ended = add_job(status="succeeded", stop_reason="accepted", finished_at=START)
    add_observation(database, ended.id)
    kept = add_observation(database, add_job().id)
    with database.write() as connection:
        assert jobs.remove(connection, ended.id)
    assert ids(database) == [kept]


def test_pages_follow_each_other_without_gaps_also_within_one_moment(database: Database, add_job: AddJob):
    job = add_job()
    found = [add_observation(database, job.id, n, at=START + timedelta(seconds=n // 3)) for n in range(1, 8)]
    with database.read() as connection:
        place = observations.position_of(connection, found[2])
        assert observations.position_of(connection, "obs_none") is None
    assert ids(database, limit=3) == found[:3]
    assert ids(database, after=place, limit=3) == found[3:6]
    assert ids(database, after=place) == found[3:]


def test_a_list_is_narrowed_by_job_and_time(database: Database, add_job: AddJob):
    one, other = add_job(), add_job()
    found = [add_observation(database, one.id, n, at=START + timedelta(days=n)) for n in range(3)]
    theirs = add_observation(database, other.id, at=START + timedelta(days=9))
    assert ids(database, ObservationFilter(job_id=other.id)) == [theirs]
    assert ids(database, ObservationFilter(job_id=one.id, created_after=START)) == found[1:]
    assert ids(database, ObservationFilter(created_before=START + timedelta(days=2))) == found[:2]
    with database.read(is_streamed=True) as connection:
        streamed = list(observations.stream_sources(connection, ObservationFilter(created_after=START)))
    assert [[each["cited"] for each in sources] for sources in streamed] == [[True, False]] * 3


STATEMENTS: dict[str, Callable[[Connection], Any]] = {
    "a page": lambda c: observations.list_page(c, ALL, after=None, limit=50),
    "the next page": lambda c: observations.list_page(c, ALL, after=(START, "obs_1"), limit=50),
    "a job's": lambda c: observations.list_page(c, ObservationFilter(job_id="job_1"), after=None, limit=50),
    "those of a time": lambda c: c.execute(observations.select_sources(ObservationFilter(created_after=START))),
    "a place": lambda c: observations.position_of(c, "obs_1"),
}


@pytest.fixture
def full(database: Database, add_job: AddJob) -> Database:
    job = add_job()
    shared: dict[str, Any] = {"job_id": job.id, "candidate": 1, "query": "Q", "sources": [], "profile": "criteria"}
    rows = [
        {**shared, "id": new_id("observation"), "iteration": n, "created_at": START - timedelta(minutes=n)}
        for n in range(1500)
    ]
    with database.write() as connection:
        connection.execute(insert(table), rows)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE")
        connection.commit()
    return database


def test_no_list_reads_the_whole_table(full: Database):
    found: dict[str, list[str]] = {}
    with full.read(is_streamed=True) as connection:
        if not full.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        for name, run in STATEMENTS.items():
            with explained(connection) as plans:
                run(connection)
            found[name] = [line for plan in plans for line in whole_table_reads(plan)]
            found[name] += [plan for plan in plans if "page" in name and "ix_observations_created" not in plan]
    assert {name: lines for name, lines in found.items() if lines} == {}
