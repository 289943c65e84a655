"""What hangs on the end of a job, stored in the unit of work that ends it; called wherever a job may end."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from redraft.operations.evaluation.observations import observe
from redraft.storage.bulk import run_items
from redraft.storage.engine.columns import moment
from redraft.storage.engine.work import tell_after_commit
from redraft.storage.jobs import calls, transitions
from redraft.storage.jobs.jobs import JobRecord


def close_up(connection: Connection, job: JobRecord, values: Mapping[str, Any] | None) -> None:
    """Keep what is kept of an ended job, and count it as its run's item.

    Args:
        connection: the unit of work, after the job's last evaluations are stored.
        job: as it was before.
        values: the columns that it was moved by; nothing happens unless they end it.
    """
    if values is None or values.get("stop_reason") is None:
        return
    observe(connection, job, values)
    if job.run_id is not None:
        run_items.end_item(connection, job.id, values["status"])
        tell_after_commit(connection, "runs")


def close_orphaned_calls(connection: Connection, job: JobRecord, *, is_holder_gone: bool = False) -> None:
    """Close the calls whose workers are lost, in the unit of work that ends their job; a live worker closes its own.

    Args:
        connection: the unit of work, after the job has ended.
        job: as it was before.
        is_holder_gone: whether nobody closes the calls of the last lease, although it has not expired.
    """
    expires_at = job.lease_expires_at
    is_held = not is_holder_gone and expires_at is not None and expires_at > moment(connection, ago_s=0)
    lost = calls.close_lost(connection, job.id, job.lease_token if is_held else job.lease_token + 1)
    transitions.add_usage(connection, job.id, lost)
