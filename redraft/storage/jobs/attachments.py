"""The data of attachments: once per job and file. They are deleted with their job."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from redraft.storage.engine.query_parts import fetch_one
from redraft.storage.engine.tables import attachments


def store(connection: sa.Connection, job_id: str, rows: Sequence[dict[str, Any]]) -> None:
    """Store the attachments of a new job; each row has `digest`, `media_type` and `data`."""
    if rows:
        connection.execute(sa.insert(attachments), [{"job_id": job_id, **row} for row in rows])


def copy(connection: sa.Connection, from_job_id: str, job_id: str) -> int:
    """Give a new job the attachments of another job. Return their number."""
    columns = ("digest", "media_type", "data")
    others = sa.select(sa.literal(job_id), *(attachments.c[name] for name in columns))
    others = others.where(attachments.c.job_id == from_job_id)
    return connection.execute(sa.insert(attachments).from_select(["job_id", *columns], others)).rowcount


def base64_of(connection: sa.Connection, job_id: str, digests: Iterable[str]) -> dict[str, str]:
    """Return the base64 of some attachments of a job, by digest."""
    query = sa.select(attachments.c.digest, attachments.c.data)
    query = query.where(attachments.c.job_id == job_id, attachments.c.digest.in_(list(digests)))
    return {digest: base64.b64encode(data).decode() for digest, data in connection.execute(query)}


def get(connection: sa.Connection, job_id: str, digest: str) -> dict[str, Any] | None:
    """Return the media type and the data of an attachment, or None."""
    query = sa.select(attachments.c.media_type, attachments.c.data)
    return fetch_one(connection, query.where(attachments.c.job_id == job_id, attachments.c.digest == digest))
