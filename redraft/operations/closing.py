"""What hangs on the end of a job, stored in the unit of work that ends it; called wherever a job may end."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from redraft.operations.observations import observe
from redraft.storage import runs
from redraft.storage.jobs import JobRecord
from redraft.storage.work import tell_after_commit


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
        runs.end_item(connection, job.id, values["status"])
        tell_after_commit(connection, "runs")
