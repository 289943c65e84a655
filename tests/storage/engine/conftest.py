"""A filled database, in which the tests of this folder look at plans."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from redraft.domain.jobs.ids import new_id
from redraft.storage.engine.tables import calls as calls_table
from redraft.storage.engine.tables import jobs as table
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs.job_filters import Sort
from tests.storage.conftest import job_values
from tests.support.databases.postgres import PostgresServer
from tests.support.databases.sqlite import create_sqlite

NOW = datetime.now(UTC)
MANY = 1800
SORTS: tuple[Sort, ...] = ("best", "worst", "cost", "duration")


def fill(database: Database) -> None:
    """Store thousands of jobs and calls that have ended, and a few that have not."""
    rows = [
        job_values(
            created_at=NOW - timedelta(seconds=n),
            deadline_at=NOW,
            available_at=NOW,
            metadata={"n": str(n)},
            status="succeeded" if n % 600 else "queued",
            stop_reason="accepted" if n % 600 else None,
            finished_at=NOW - timedelta(minutes=n) if n % 600 else None,
            model=f"openai:{n % 50}",
            best_score=n % 101 / 101 if n % 3 else None,
            cost_nano_usd=n * 7919 % 1009,
        )
        for n in range(MANY)
    ]
    ledger = [
        {
            "id": new_id("call"),
            "job_id": rows[n]["id"],
            "type": "generate",
            "step": "generate",
            "iteration": 1,
            "candidate": 1,
            "seq": 0,
            "attempt": 1,
            "lease_token": 1,
            "provider": "openai",
            "model": "openai:writer",
            "request": {},
            "status": "ok" if n % 600 else "started",
            "started_at": NOW - timedelta(seconds=n),
            "finished_at": NOW - timedelta(minutes=n) if n % 600 else None,
        }
        for n in range(MANY)
    ]
    with database.write() as connection:
        connection.execute(insert(table), rows)
        connection.execute(insert(calls_table), ledger)
    # PostgreSQL vacuums by itself after some seconds, and then makes other plans
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE" if database.is_sqlite else "VACUUM ANALYZE")


@pytest.fixture(scope="session")
def filled_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("filled") / "redraft.db"
    with closing(Database(create_sqlite(file))) as database:
        fill(database)
    return file.read_bytes()


@pytest.fixture(scope="session")
def filled_postgres(postgres: PostgresServer) -> Iterator[str]:
    name = postgres.create_database()
    with closing(Database(postgres.url_of(name))) as database:
        fill(database)
    yield name
    postgres.drop_database(name)


@pytest.fixture
def full(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Database]:
    """A copy of the filled database. Filling a database takes twenty times as long as a copy."""
    if database_url.startswith("sqlite"):
        (tmp_path / "full.db").write_bytes(request.getfixturevalue("filled_sqlite"))
        with closing(Database(f"sqlite:///{tmp_path / 'full.db'}")) as database:
            yield database
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create_database(template=request.getfixturevalue("filled_postgres"))
    with closing(Database(server.url_of(name))) as database:
        yield database
    server.drop_database(name)
