"""PostgreSQL behind a pooler that gives each transaction another session, and servers that are replaced."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import ProgrammingError

from redraft.domain.jobs.requests import GenerateAnswer
from redraft.errors import Unavailable
from redraft.operations.jobs.submit import submit
from redraft.operations.services import Services
from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import jobs
from redraft.storage.jobs.jobs import JobRecord
from tests.operations.driving import Driver
from tests.storage.conftest import job_values
from tests.support.databases.pgbouncer import PgBouncer, needs_pgbouncer
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

TIMEOUTS = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"


@pytest.fixture
def pooler(postgres: PostgresServer) -> Iterator[PgBouncer]:
    pooler = PgBouncer(postgres)
    try:
        yield pooler.start()
    finally:
        pooler.remove()


@pytest.fixture
def database_url(make_database_url: Callable[[str], str]) -> str:
    """In place of one of each kind."""
    return make_database_url("postgresql")


@pytest.fixture
def on_postgresql(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url, pool_size=2)) as database:
        yield database


def add_and_read(connection: Connection) -> JobRecord | None:
    """Statements as every step runs them, often enough for the driver to prepare them."""
    record = jobs.add(connection, job_values(), 600)
    assert record is not None
    return jobs.get(connection, record.id)


@needs_pgbouncer
def test_transactions_of_many_threads_share_few_sessions_of_a_pooler(postgres: PostgresServer, pooler: PgBouncer):
    name = postgres.create_database()
    with closing(Database(pooler.url_of(name))) as one, closing(Database(pooler.url_of(name))) as other:

        def work(number: int) -> Any:
            with (one, other)[number % 2].write() as connection:
                add_and_read(connection)
                return connection.execute(text(TIMEOUTS)).one()

        with ThreadPoolExecutor(16) as pool:
            found = {tuple(row) for row in pool.map(work, range(300))}
        assert found == {("30s", "10s")}
        with one.read() as connection:
            assert connection.scalar(text("SELECT count(*) FROM jobs")) == 300
            assert connection.scalar(text("SELECT count(*) FROM pg_prepared_statements")) == 0
    with closing(Database(postgres.url_of(name))) as direct, direct.read() as connection:
        assert connection.execute(text(TIMEOUTS)).one() == ("30s", "10s")
    postgres.drop_database(name)


# Case T2-26
@needs_pgbouncer
def test_upgrades_behind_a_pooler_do_not_meet_and_leave_no_lock_and_no_setting(
    postgres: PostgresServer, pooler: PgBouncer
):
    name = postgres.create_database(is_bare=True)
    with closing(Database(pooler.url_of(name))) as database:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: schema.upgrade(database), range(2)))
        assert schema.current(database) == schema.head()
        held = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            assert connection.scalar(held) == 0
            assert {tuple(connection.execute(text(TIMEOUTS)).one()) for _ in range(9)} == {("0", "0")}
    postgres.drop_database(name)


# Case T2-27
@needs_pgbouncer
def test_all_of_thirty_jobs_are_accepted_behind_a_pooler(
    make_services: Callable[..., Services],
    start_worker: Callable[..., WorkerProcess],
    database_url: str,
    pooler: PgBouncer,
    model_server: Any,
):
    services = make_services(database_url=pooler.url_of(make_url(database_url).database or ""))
    model_server.script(generate=[f"line {number}" for number in range(120)], evaluate=[0.5, 0.9])
    start_worker(services)
    asked = GenerateAnswer(instruct="Write a line.", eval_crit="It is a line.", iter_max=4)
    ids = [submit(services, asked).job.id for _ in range(30)]
    driver = Driver(services)
    wait_until(lambda: all(driver.row(each).finished_at for each in ids), within_s=40, what="the end of all jobs")
    assert {driver.row(each).stop_reason for each in ids} == {"accepted"}
    assert {status for each in ids for status in driver.call_statuses(each)} == {"ok"}


def test_a_direct_connection_prepares_its_statements_and_keeps_them_after_a_read(on_postgresql: Database):
    for _ in range(2):
        with on_postgresql.write() as connection:
            add_and_read(connection)
    for _ in range(2):
        with on_postgresql.read() as connection:
            assert connection.scalar(text("SELECT count(*) FROM pg_prepared_statements")) > 1
            assert connection.execute(text(TIMEOUTS)).one() == ("30s", "10s")


def test_a_read_through_a_direct_connection_begins_no_transaction_unless_its_result_is_streamed(
    on_postgresql: Database,
):
    now = text("SELECT now()")
    with on_postgresql.read() as connection:
        assert connection.scalar(now) != connection.scalar(now)
    with on_postgresql.read(is_streamed=True) as connection:
        assert connection.scalar(now) == connection.scalar(now)


@pytest.mark.parametrize(("options", "expected"), [({}, "auto"), ({"plans_once": True}, "force_generic_plan")])
def test_only_a_process_that_asks_for_it_plans_once_for_all_parameters(
    database_url: str, options: dict[str, Any], expected: str
):
    with closing(Database(database_url, **options)) as database, database.read() as connection:
        assert connection.scalar(text("SELECT current_setting('plan_cache_mode')")) == expected


@pytest.mark.parametrize("undo", ["DEALLOCATE ALL", "SELECT pg_terminate_backend(pg_backend_pid())"])
def test_what_a_connection_has_lost_is_no_reason_to_lose_a_reply(on_postgresql: Database, undo: str):
    """As with a pooler that passes its server's number on: the session is another one than the driver knows."""
    for _ in range(8):
        on_postgresql.persist(add_and_read, for_s=0)
    with on_postgresql.engine.connect() as connection:
        driver_connection: Any = connection.connection.driver_connection
        try:
            driver_connection.pgconn.exec_(undo.encode())
        finally:
            connection.rollback()
    on_postgresql.persist(add_and_read, for_s=10)
    on_postgresql.persist(add_and_read, for_s=0)


@pytest.mark.parametrize(
    "state",
    ["25006", "53100", "53300", "55000", "55P03", "57P01", "57P05", "58030", "08P01", "XX000", "26000", "0A000"],
)
def test_what_ails_a_server_or_a_connection_is_a_database_that_is_away(on_postgresql: Database, state: str):
    words = f"DO $$ BEGIN RAISE EXCEPTION 'for now' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(Unavailable) as refused, on_postgresql.read() as connection:
        connection.exec_driver_sql(words)
    assert refused.value.code == "database_unavailable"
    on_postgresql.persist(add_and_read, for_s=0)


@pytest.mark.parametrize("state", ["42601", "42703"])
def test_a_wrong_statement_stays_a_bug(on_postgresql: Database, state: str):
    words = f"DO $$ BEGIN RAISE EXCEPTION 'for ever' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(ProgrammingError), on_postgresql.read() as connection:
        connection.exec_driver_sql(words)


# Case HB-D1
def test_a_reply_is_kept_while_the_server_is_a_read_only_standby(on_postgresql: Database, postgres: PostgresServer):
    on_postgresql.persist(add_and_read, for_s=0)
    name = on_postgresql.url.database or ""
    postgres.set_read_only(name, is_on=True)
    for words in ("terminating connection", "read-only transaction"):
        with pytest.raises(Unavailable, match=words) as refused:
            on_postgresql.persist(add_and_read, for_s=0)
        assert refused.value.code == "database_unavailable"
    back = threading.Timer(0.5, postgres.set_read_only, (name,), {"is_on": False})
    back.start()
    assert on_postgresql.persist(add_and_read, for_s=30)
    back.join()
