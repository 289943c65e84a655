"""Lists of jobs with labels equal a filter in Python, on both databases."""

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from redraft.storage.admin import retention
from redraft.storage.engine.query_parts import ListPosition
from redraft.storage.engine.tables import job_labels, jobs
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import job_lists
from redraft.storage.jobs.job_filters import JobFilter, positions
from redraft.storage.jobs.jobs import remove
from tests.storage.conftest import job_values

pytestmark = pytest.mark.both_databases

START = datetime(2026, 1, 1, tzinfo=UTC)
# More than the jobs with a label that are read at once
MANY = 2600
Row = dict[str, Any]
LABELS: list[Mapping[str, str]] = [
    {"env": "prod"},
    {"team": "2"},
    {"old": "1"},
    {"new": "1"},
    {"old": "1", "team": "2"},
    {"old": "1", "new": "1"},
    {"env": "prod", "team": "1"},
    {"env": "prod", "new": "1", "team": "0"},
    {"env": "test"},
    {"env": "prod", "team": "none"},
]


def stored(database: Database) -> list[Row]:
    """Jobs in the order of time, some of them created at the same time."""
    numbers = random.Random(23)
    rows = [
        job_values(
            created_at=START + timedelta(milliseconds=n // 3),
            deadline_at=START,
            available_at=START,
            finished_at=START,
            metadata={"env": "prod", "team": str(numbers.randrange(4)), "old" if n < MANY // 5 else "new": "1"},
            status=(status := "failed" if numbers.random() < 0.01 else "succeeded"),
            stop_reason="error" if status == "failed" else numbers.choice(["accepted", "plateau"]),
            best_score=numbers.choice([None, 0.5]),
        )
        for n in range(MANY)
    ]
    with database.write() as connection:
        connection.execute(insert(jobs), rows)
    return sorted(rows, key=place_of)


def place_of(row: Row) -> ListPosition:
    return row["created_at"], row["id"]


def matches(row: Row, criteria: JobFilter) -> bool:
    return (
        row["metadata"].items() >= dict(criteria.metadata or {}).items()
        and (not criteria.outcomes or row["status"] == "failed")
        and (criteria.stop_reason in {None, row["stop_reason"]})
        and (not criteria.is_scored or row["best_score"] is not None)
        and (criteria.created_before is None or row["created_at"] < criteria.created_before)
    )


OTHERS: list[dict[str, Any]] = [
    {},
    {"outcomes": ("failed",)},
    {"stop_reason": "accepted"},
    {"is_scored": True},
    {"created_before": START + timedelta(milliseconds=MANY // 6)},
]


def test_a_list_with_labels_equals_a_filter_of_all_jobs(database: Database):
    rows = stored(database)
    with database.read() as connection:
        # Each label with two of the other conditions, newest first and oldest first
        for number, labels in enumerate(LABELS):
            for newest_first in (True, False):
                other = OTHERS[(number + newest_first) % len(OTHERS)]
                criteria = JobFilter(metadata=labels, newest_first=newest_first, limit=30, **other)
                wanted = [place_of(row) for row in rows[:: -1 if newest_first else 1] if matches(row, criteria)]
                assert positions(connection, criteria) == wanted[:30], criteria
                assert job_lists.count(connection, criteria, most=MANY) == len(wanted), criteria
                for middle in wanted[len(wanted) // 2 :][:1]:
                    following = wanted[wanted.index(middle) + 1 :]
                    assert positions(connection, replace(criteria, after=middle)) == following[:30], criteria


def test_labels_are_deleted_with_their_jobs(database: Database):
    first, second, *_ = rows = stored(database)
    with database.write() as connection:
        assert remove(connection, first["id"])
        assert retention.remove_ended(connection, [second["id"]], datetime.now(UTC))
        left = select(func.count()).select_from(job_labels)
        assert connection.scalar(left) == 3 * (len(rows) - 2)
        assert connection.scalar(left.where(job_labels.c.id.in_([first["id"], second["id"]]))) == 0
