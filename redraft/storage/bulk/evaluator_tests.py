"""Finds the runs that test evaluators, and the evaluator and the profile version of their evaluations."""

from sqlalchemy import Connection, func, select

from redraft.storage.bulk.runs import RunRecord
from redraft.storage.engine.bulk_tables import runs
from redraft.storage.engine.columns import text_in
from redraft.storage.engine.query_parts import fetch_all, list_newest
from redraft.storage.engine.tables import evaluations, jobs


def list_tests(connection: Connection, label: str, *, limit: int) -> list[RunRecord]:
    """Return the newest runs whose defaults have this label in their metadata, newest first."""
    is_test = text_in(connection, runs.c.defaults, "metadata", label).is_not(None)
    return [RunRecord(**row) for row in fetch_all(connection, list_newest(runs, None, limit - 1, is_test))]


def version_of(connection: Connection, run_id: str) -> str | None:
    """Return the profile version of a test, which is the version of most of its evaluations."""
    query = (
        select(evaluations.c.profile_version)
        .join(jobs, jobs.c.id == evaluations.c.job_id)
        .where(jobs.c.run_id == run_id, evaluations.c.profile_version.is_not(None))
        .group_by(evaluations.c.profile_version)
        .order_by(func.count().desc())
        .limit(1)
    )
    return connection.scalar(query)
