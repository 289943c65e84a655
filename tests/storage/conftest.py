"""A database with the schema on each kind, and rows to put into it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redraft.domain.jobs.ids import new_id
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import jobs
from redraft.storage.jobs.jobs import JobRecord


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(database_url, pool_size=20)
    yield database
    database.close()


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
def add_job(database: Database) -> Callable[..., JobRecord]:
    def add(**changes: Any) -> JobRecord:
        with database.write() as connection:
            record = jobs.add(connection, job_values(**changes), 600)
        assert record is not None
        return record

    return add
