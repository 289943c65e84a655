"""Statements of several threads in one transaction on PostgreSQL: all of a group are stored, or none."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from redraft.clock import Clock
from redraft.storage.engine.driver import Statement
from redraft.storage.engine.group_commit import GroupCommit
from redraft.storage.engine.tables import jobs as job_rows
from redraft.storage.engine.unit_of_work import Database, notify_after_commit
from redraft.storage.jobs import jobs as stored_jobs
from redraft.storage.jobs import step_claims, transitions
from redraft.storage.jobs.jobs import JobRecord
from tests.storage.conftest import job_values
from tests.support.databases.pgbouncer import PgBouncer, needs_pgbouncer
from tests.support.databases.postgres import PostgresServer
from tests.support.waiting import patient, wait_until

RENAME = "UPDATE jobs SET model = $2, version = version + 1 WHERE id = $1 AND version = $3 RETURNING version"


@pytest.fixture
def database_url(make_database_url: Callable[[str], str]) -> str:
    """In place of one of each kind."""
    return make_database_url("postgresql")


@pytest.fixture
def group_commit(database: Database) -> GroupCommit:
    assert database.group_commit is not None
    return database.group_commit


def renaming(job: JobRecord, model: str = "openai:new") -> Callable[[Connection], Statement]:
    return lambda _connection: Statement(RENAME, (job.id, model, job.version))


class Group:
    """The statements of threads that wait while the first thread holds the connection, so that they form one group."""

    def __init__(self, group_commit: GroupCommit, first: JobRecord) -> None:
        self._group_commit = group_commit
        self._threads = ThreadPoolExecutor(32)
        self._has_begun, self._may_go_on = threading.Event(), threading.Event()
        self.first = self._threads.submit(group_commit.execute, first.id, self._held(renaming(first)))
        assert self._has_begun.wait(patient(10))

    def _held(self, build: Callable[[Connection], Statement]) -> Callable[[Connection], Statement]:
        def held(connection: Connection) -> Statement:
            self._has_begun.set()
            assert self._may_go_on.wait(patient(10))
            return build(connection)

        return held

    def add(self, job: JobRecord, build: Callable[[Connection], Statement]) -> Future[tuple[Any, ...] | None]:
        waiting = self._group_commit.waiting
        added = self._threads.submit(self._group_commit.execute, job.id, build)
        wait_until(lambda: self._group_commit.waiting > waiting, what="a waiting statement")
        return added

    def go_on(self) -> None:
        self._may_go_on.set()

    def close(self) -> None:
        self.go_on()
        self._threads.shutdown()


@pytest.fixture
def group(group_commit: GroupCommit, add_job: Callable[..., JobRecord]) -> Iterator[Group]:
    with closing(Group(group_commit, add_job())) as group:
        yield group


def transactions_of(database: Database, jobs: list[JobRecord]) -> set[str]:
    """The ids of the transactions that last changed the jobs."""
    with database.read() as connection:
        changed = select(text("xmin::text")).select_from(job_rows).where(job_rows.c.id.in_([job.id for job in jobs]))
        return set(connection.scalars(changed))


def test_statements_that_wait_are_stored_by_one_transaction(
    database: Database, group: Group, add_job: Callable[..., JobRecord]
) -> None:
    jobs = [add_job() for _ in range(10)]
    added = [group.add(job, renaming(job)) for job in jobs]
    late = group.add(jobs[1], renaming(jobs[1], "openai:late"))
    group.go_on()
    assert group.first.result(patient(10)) == (2,)
    assert [each.result(patient(10)) for each in added] == [(2,)] * 10
    assert late.result(patient(10)) is None
    assert len(transactions_of(database, jobs)) == 1


def test_of_a_group_with_a_wrong_statement_nothing_is_stored(
    database: Database, group: Group, group_commit: GroupCommit, add_job: Callable[..., JobRecord]
) -> None:
    one, wrong, other = sorted((add_job() for _ in range(3)), key=lambda job: job.id)
    added = [
        group.add(one, renaming(one)),
        group.add(wrong, renaming(wrong, "x" * 300)),
        group.add(other, renaming(other)),
    ]
    group.go_on()
    assert [each.result(patient(10)) for each in added] == [None, None, None]
    assert group.first.result(patient(10)) == (2,)
    assert len(transactions_of(database, [one, wrong, other])) == 3
    # Alone, each right statement is stored, and the connection is usable
    assert [group_commit.execute(job.id, renaming(job)) for job in (one, other)] == [(2,), (2,)]


@pytest.mark.parametrize("uses", ["raises", "executes"])
def test_a_statement_that_cannot_be_built_does_not_harm_its_thread_or_others(
    group: Group, group_commit: GroupCommit, add_job: Callable[..., JobRecord], uses: str
) -> None:
    def build(connection: Connection) -> Statement:
        if uses == "raises":
            raise LookupError
        connection.execute(text("SELECT 1"))
        return renaming(wrong)(connection)

    right, wrong = add_job(), add_job()
    added = [group.add(right, renaming(right)), group.add(wrong, build)]
    group.go_on()
    assert [each.result(patient(10)) for each in added] == [None, None]
    assert group_commit.execute(right.id, renaming(right)) == (2,)


def test_a_locked_job_does_not_hold_up_a_group_for_long(
    database: Database, group: Group, group_commit: GroupCommit, add_job: Callable[..., JobRecord]
) -> None:
    free, locked = add_job(), add_job()
    with database.write() as connection:
        connection.execute(select(job_rows.c.id).where(job_rows.c.id == locked.id).with_for_update())
        added = [group.add(job, renaming(job)) for job in (free, locked)]
        group.go_on()
        assert [each.result(patient(10)) for each in added] == [None, None]
    assert group_commit.execute(locked.id, renaming(locked)) == (2,)


def test_after_a_lost_connection_the_next_statement_gets_a_new_one(
    database: Database, group_commit: GroupCommit, add_job: Callable[..., JobRecord]
) -> None:
    job = add_job()
    pids: list[int] = []

    def build(connection: Connection) -> Statement:
        pids.append(connection.connection.driver_connection.info.backend_pid)  # type: ignore[union-attr]
        with database.write() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pids[0]})
        return renaming(job)(connection)

    assert group_commit.execute(job.id, build) is None
    assert group_commit.execute(job.id, renaming(job)) == (2,)


def test_groups_and_transactions_that_lock_many_jobs_do_not_end_each_other(
    database: Database, group_commit: GroupCommit, add_job: Callable[..., JobRecord]
) -> None:
    claimed: list[JobRecord] = []
    for _ in range(12):
        job = add_job()
        with database.write() as connection:
            claim = step_claims.claim(connection, job.id, job.step, job.step_no, owner="w", lease_s=60)
        assert claim is not None
        claimed.append(claim.job)

    def rename(job: JobRecord) -> int:
        version, stored = job.version, 0
        for _ in range(30):
            given = (job.id, "openai:new", version)
            row = group_commit.execute(job.id, lambda _connection, given=given: Statement(RENAME, given))
            version, stored = (row[0], stored + 1) if row else (version, stored)
        return stored

    def extend(order: list[JobRecord]) -> int:
        held = 0
        for _ in range(30):
            with database.write() as connection:
                held += len(transitions.extend_leases(connection, "w", [job.id for job in order], 60))
        return held

    with ThreadPoolExecutor(16) as threads:
        extended = [threads.submit(extend, order) for order in (claimed, claimed[::-1])]
        renamed = list(threads.map(rename, claimed))
    assert [each.result() for each in extended] == [12 * 30] * 2
    assert renamed == [30] * 12


@needs_pgbouncer
def test_behind_a_pooler_no_group_is_stored(postgres: PostgresServer) -> None:
    pooler = PgBouncer(postgres).start()
    try:
        with closing(Database(pooler.url_of(postgres.create_database()))) as database:
            with database.write() as connection:
                job = stored_jobs.add(connection, job_values(), 600)
            assert job is not None
            assert database.group_commit is not None
            assert database.group_commit.execute(job.id, renaming(job)) is None
    finally:
        pooler.remove()


def test_threads_that_read_changed_tables_are_woken_after_the_commit(
    database: Database, group_commit: GroupCommit, add_job: Callable[..., JobRecord]
) -> None:
    job = add_job()

    def build(connection: Connection) -> Statement:
        notify_after_commit(connection, "webhooks")
        assert not database.changed_tables["webhooks"].is_set()
        return renaming(job)(connection)

    assert group_commit.execute(job.id, build) is not None
    assert database.changed_tables["webhooks"].is_set()


class LaterClock(Clock):
    """A clock that a test sets forward."""

    later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


def test_an_idle_connection_that_the_server_has_closed_is_replaced(
    database_url: str, database: Database, add_job: Callable[..., JobRecord]
) -> None:
    jobs, clock = [add_job(), add_job()], LaterClock()
    with closing(Database(database_url, clock=clock)) as idle:
        assert idle.group_commit is not None
        assert idle.group_commit.execute(jobs[0].id, renaming(jobs[0])) == (2,)
        with database.read() as connection:
            others = (
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert all(connection.scalars(text(others)))
        clock.later_s = 60.0
        assert idle.group_commit.execute(jobs[1].id, renaming(jobs[1])) == (2,)
