"""A database of each kind with the schema; jobs in it; work of many threads at once."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redraft.domain.jobs.ids import new_id
from redraft.storage.engine.group_commit import GroupCommit
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import jobs
from redraft.storage.jobs.jobs import JobRecord

AddJob = Callable[..., JobRecord]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, pool_size=20)
    yield database
    database.close()


@pytest.fixture
def group_commit(database: Database) -> GroupCommit:
    if database.group_commit is None:
        pytest.skip("SQLite has no group commit")
    return database.group_commit


def job_values(**changes: Any) -> dict[str, Any]:
    return {
        "id": new_id("job"),
        "kind": "generate_answer",
        "status": "queued",
        "request": {"instruct": "Q"},
        "metadata": {},
        "warnings": [],
        "model": "openai:writer",
        "evaluator_model": "openai:judge",
        "request_hash": "0" * 64,
        "step": "generate",
        "iteration_limit": 3,
        **changes,
    }


@pytest.fixture
def add_job(database: Database) -> AddJob:
    def add(**changes: Any) -> JobRecord:
        with database.write() as connection:
            record = jobs.add(connection, job_values(**changes), 600)
        assert record is not None
        return record

    return add


def read_job(database: Database, job_id: str) -> JobRecord:
    with database.read() as connection:
        record = jobs.get(connection, job_id)
    assert record is not None
    return record


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return the results of as many calls of `work` that begin at the same time, each in a thread of its own."""
    barrier = threading.Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))
