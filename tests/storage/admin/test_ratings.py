"""How ratings are read: by index, and in one query."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Table, insert, text

from redraft.domain.jobs.ids import new_id
from redraft.storage.admin import ratings
from redraft.storage.admin.ratings import RatingFilter
from redraft.storage.engine.tables import evaluations, iterations, jobs
from redraft.storage.engine.tables import ratings as table
from redraft.storage.engine.unit_of_work import Database
from tests.storage.conftest import job_values
from tests.support.databases.plans import explained, whole_table_reads

pytestmark = pytest.mark.both_databases

NOW = datetime.now(UTC)
MANY = 1500


@pytest.fixture
def rated(database: Database) -> str:
    """Many jobs with an evaluation each that is rated; returns the id of one of them."""
    rows: dict[Table, list[dict[str, Any]]] = {each: [] for each in (jobs, iterations, evaluations, table)}
    for n in range(MANY):
        job = job_values(deadline_at=NOW)
        iteration = {"id": new_id("iteration"), "job_id": job["id"], "number": 1, "candidate": 1, "answer": "A"}
        evaluation = {
            "id": new_id("evaluation"),
            "job_id": job["id"],
            "iteration_id": iteration["id"],
            "status": "ok",
            "score": 1.0,
            "passed": True,
            "suggestions": [],
            "profile": "criteria",
            "evaluator_model": f"openai:{n % 3}",
        }
        rating = {
            "id": new_id("rating"),
            "job_id": job["id"],
            "evaluation_id": evaluation["id"],
            "verdict": "agree",
            "rater": "cli",
        }
        for each, values in zip(rows, (job, iteration, evaluation, rating), strict=True):
            rows[each].append(values)
    with database.write() as connection:
        for each, values in rows.items():
            connection.execute(insert(each), values)
    with database.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE")
        connection.commit()
    return rows[jobs][MANY // 2]["id"]


STATEMENTS: dict[str, Callable[[Connection, str], Any]] = {
    "what can be rated": lambda c, job_id: ratings.lock_evaluations(c, job_id, 1),
    "a job's ratings": ratings.of_job,
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_one_job_is_read_by_index(database: Database, rated: str, name: str):
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        with explained(connection) as plans:
            STATEMENTS[name](connection, rated)
    assert len(plans) == 1
    assert whole_table_reads(plans[0]) == []


def test_calibration_is_one_query_that_reads_no_table_but_ratings_from_end_to_end(database: Database, rated: str):
    assert rated
    with database.read(is_streamed=True) as connection:
        if not database.is_sqlite:
            connection.execute(text("SET LOCAL enable_seqscan = off"))
        with explained(connection) as plans:
            connection.execute(ratings.select_counting(RatingFilter(created_before=NOW.replace(year=9000))))
    assert len(plans) == 1
    assert [line for line in whole_table_reads(plans[0]) if "ratings" not in line] == []


def test_the_rows_of_one_evaluator_come_in_a_row(database: Database, rated: str):
    assert rated
    with database.read(is_streamed=True) as connection:
        found = [row["evaluator_model"] for row in ratings.stream_counting(connection, RatingFilter())]
    assert len(found) == MANY
    assert [len(set(found[start : start + MANY // 3])) for start in range(0, MANY, MANY // 3)] == [1, 1, 1]
