"""The schema is what the migrations make of it, and it refuses what must not be."""

import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, Connection, Engine, create_engine, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from redraft.domain.jobs.ids import new_id
from redraft.storage.engine import schema
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import calls, job_labels, jobs, metadata
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs.jobs import JobRecord
from tests.storage.conftest import job_values

pytestmark = pytest.mark.both_databases

AddJob = Callable[..., JobRecord]
INDEXES = {
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT indexname, replace(indexdef, schemaname || '.', '') FROM pg_indexes"
    " WHERE schemaname = current_schema() AND tablename <> 'alembic_version'",
}


def drift(database: Database) -> list[Any]:
    """Differences between the database and the models, without indexes, of which Alembic skips those of expressions."""

    def is_no_index(_item: Any, _name: str | None, kind: str, *_: Any) -> bool:
        return kind != "index"

    options = {"compare_type": True, "include_object": is_no_index}
    with database.read() as connection:
        found = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    return found + sorted(indexes_of(database.engine).items() ^ modelled_indexes(database).items())


def indexes_of(bind: Engine | Connection) -> dict[str, str]:
    """The definition of each index, with its expressions and its condition."""
    with bind.connect() if isinstance(bind, Engine) else nullcontext(bind) as connection:
        rows = connection.execute(text(INDEXES[connection.dialect.name]))
        # Migrations and models put other white space and quotes into it
        return {name: re.sub(r'\s+|"', " ", sql).replace(" ", "") for name, sql in rows}


def modelled_indexes(database: Database) -> dict[str, str]:
    """The indexes of a database that the models make, without migrations."""
    if database.is_sqlite:
        engine = create_engine("sqlite://")
        with engine.connect() as connection:
            metadata.create_all(connection)
            found = indexes_of(connection)
        engine.dispose()
        return found
    with database.engine.connect() as connection:
        connection.execute(text("CREATE SCHEMA modelled"))
        connection.execute(text("SET LOCAL search_path = modelled"))
        metadata.create_all(connection)
        # Never committed
        return indexes_of(connection)


def downgrade(database: Database, revision: str = "base") -> None:
    config = schema.make_config()
    with database.engine.connect() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
        connection.commit()


def test_the_migrations_make_the_tables_that_the_code_knows(database: Database):
    assert drift(database) == []
    assert schema.current(database) == schema.head()


def test_a_lost_index_of_an_expression_is_seen(database: Database):
    """Alembic makes a table of SQLite again to change it, and silently leaves out indexes of expressions."""
    with database.write() as connection:
        connection.execute(text("DROP INDEX ix_jobs_outcome_created"))
    assert [name for name, _ in drift(database)] == ["ix_jobs_outcome_created"]


def test_the_names_of_the_migrations_begin_with_their_revisions():
    scripts = ScriptDirectory.from_config(schema.make_config())
    assert [scripts.get_current_head()] == scripts.get_heads() == [schema.head()]
    # Each revision that the program knows is not newer than the program
    assert {script.revision for script in scripts.walk_revisions()} == schema._own_revisions()[0]


def test_the_schema_goes_down_to_nothing_and_up_again(database: Database):
    downgrade(database)
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    assert schema.current(database) is None
    schema.upgrade(database)
    assert drift(database) == []


def test_jobs_of_earlier_releases_get_the_sum_of_their_reasoning_tokens(database: Database, add_job: AddJob):
    job_id, other = add_job().id, add_job().id
    slot = {"type": "generate", "step": "generate", "iteration": 1, "candidate": 1, "attempt": 1, "lease_token": 1}
    row = {**slot, "job_id": job_id, "provider": "openai", "model": "openai:w", "status": "ok", "request": {}}
    with database.write() as connection:
        for number, tokens in enumerate((5, None, 7)):
            connection.execute(insert(calls).values(**row, id=f"call_{number}", seq=number, reasoning_tokens=tokens))
    downgrade(database, "0020")
    schema.upgrade(database)
    with database.read() as connection:
        found = connection.execute(text("SELECT id, reasoning_tokens FROM jobs")).all()
    assert dict(map(tuple, found)) == {job_id: 12, other: 0}


def test_jobs_of_earlier_releases_get_their_labels(database: Database):
    downgrade(database, "0032")
    # More jobs than the upgrade of PostgreSQL copies at once
    count, now = 2 if database.is_sqlite else 2001, datetime.now(UTC)
    labels = [{"n": str(n), 'a"b': "ключ"} for n in range(count)]
    rows = [job_values(metadata=each, deadline_at=now, available_at=now) for each in [*labels, {}]]
    with database.write() as connection:
        connection.execute(insert(jobs), rows)
    schema.upgrade(database)
    with database.read() as connection:
        found = connection.execute(select(job_labels.c.key, job_labels.c.value, job_labels.c.id)).all()
    assert {tuple(row) for row in found} == {
        (key, value, row["id"]) for row in rows for key, value in row["metadata"].items()
    }


def test_an_upgrade_at_head_changes_nothing(database: Database):
    schema.upgrade(database)
    assert schema.current(database) == schema.head()


def test_checks_are_the_same_in_models_and_migrations(database: Database):
    for name, table in metadata.tables.items():
        expected = {str(c.name) for c in table.constraints if isinstance(c, CheckConstraint)}
        found = {str(check["name"]) for check in inspect(database.engine).get_check_constraints(name)}
        assert found == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "status = 'succeeded'",
        "status = 'succeeded', stop_reason = 'accepted'",
        "status = 'failed', finished_at = created_at",
        "status = 'canceled', finished_at = created_at",
        "finished_at = created_at",
        "stop_reason = 'accepted'",
        "status = 'running', finished_at = created_at, stop_reason = 'error'",
        "status = 'done', finished_at = created_at, stop_reason = 'error'",
    ],
)
def test_a_job_is_finished_exactly_when_it_says_when_and_why(database: Database, add_job: AddJob, wrong: str):
    job = add_job()
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(text(f"UPDATE jobs SET {wrong}"))
    with database.write() as connection:
        connection.execute(
            text("UPDATE jobs SET status = 'failed', finished_at = created_at, stop_reason = 'error' WHERE id = :id"),
            {"id": job.id},
        )


@pytest.mark.parametrize("score", [None, 0.5])
def test_an_evaluation_has_a_score_exactly_when_it_is_ok(database: Database, add_job: AddJob, score: float | None):
    job, iteration_id = add_job(), new_id("iteration")
    iteration = {
        "id": iteration_id,
        "job_id": job.id,
        "number": 1,
        "candidate": 1,
        "answer": "a",
    }
    evaluation = {
        "id": new_id("evaluation"),
        "job_id": job.id,
        "iteration_id": iteration_id,
        "status": "ok" if score is None else "error",
        "score": score,
        "passed": False,
        "suggestions": [],
        "profile": "criteria",
    }
    with database.write() as connection:
        connection.execute(metadata.tables["iterations"].insert(), iteration)
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(metadata.tables["evaluations"].insert(), evaluation)


def test_an_iteration_has_each_candidate_once(database: Database, add_job: AddJob):
    job = add_job()
    row = {"job_id": job.id, "number": 1, "candidate": 1, "answer": "a"}
    insert = metadata.tables["iterations"].insert()
    with database.write() as connection:
        connection.execute(insert, {**row, "id": new_id("iteration")})
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(insert, {**row, "id": new_id("iteration")})


def test_rows_that_hang_on_no_job_are_refused(database: Database):
    row = {"job_id": "job_none", "number": 1, "candidate": 1, "answer": "a", "id": "itr_1"}
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(metadata.tables["iterations"].insert(), row)


def test_a_unit_of_work_that_fails_leaves_nothing(database: Database):
    statement = insert(jobs).values(**job_values(), deadline_at=DbNow())
    with suppress(IntegrityError), database.write() as connection:
        connection.execute(statement)
        connection.execute(statement)
    with database.read() as connection:
        assert connection.scalar(text("SELECT count(*) FROM jobs")) == 0
