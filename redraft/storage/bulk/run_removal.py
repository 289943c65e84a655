"""What it takes to remove a run: its items and their jobs, some at a time."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from redraft.storage.engine.bulk_tables import run_items, runs
from redraft.storage.engine.tables import jobs


def live_job(connection: Connection, run_id: str) -> str | None:
    """A job of this run that has not ended."""
    return connection.scalar(select(jobs.c.id).where(jobs.c.run_id == run_id, jobs.c.finished_at.is_(None)).limit(1))


def one_of_dataset(connection: Connection, dataset_id: str) -> str | None:
    """A run of these rows."""
    return connection.scalar(select(runs.c.id).where(runs.c.dataset_id == dataset_id).limit(1))


def first_items(connection: Connection, run_id: str, limit: int) -> list[tuple[int, str | None]]:
    """The numbers of the first items that are left, each with its job."""
    query = select(run_items.c.number, run_items.c.job_id).where(run_items.c.run_id == run_id)
    found = connection.execute(query.order_by(run_items.c.number).limit(limit))
    return [(number, job_id) for number, job_id in found]


def remove_jobs(connection: Connection, job_ids: Sequence[str]) -> str | None:
    """Remove those of these jobs that have ended, with all that hangs on them; one that is left, if any is."""
    chosen = jobs.c.id.in_(job_ids)
    connection.execute(delete(jobs).where(chosen, jobs.c.finished_at.is_not(None)))
    return connection.scalar(select(jobs.c.id).where(chosen).limit(1))


def remove_items(connection: Connection, run_id: str, numbers: Sequence[int]) -> None:
    connection.execute(delete(run_items).where(run_items.c.run_id == run_id, run_items.c.number.in_(numbers)))


def remove(connection: Connection, run_id: str) -> None:
    connection.execute(delete(runs).where(runs.c.id == run_id))
