"""The attachments of jobs: checks their limits, stores their data once per job, and reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from redraft.domain.jobs.attachments import AnyAttachment, Attachment, StoredAttachment
from redraft.domain.jobs.requests import AnyRequest, RescoreAnswers
from redraft.errors import Conflict, Invalid, existing
from redraft.operations.services import Services
from redraft.settings import Settings
from redraft.storage.jobs import attachments, jobs


@dataclass(frozen=True, slots=True)
class StoredFile:
    media_type: str
    data: bytes
    title: str | None


def without_data(settings: Settings, request: AnyRequest) -> list[StoredAttachment]:
    """Return the attachments of a request as they are stored with it.

    Raises Invalid if there are too many attachments, if one of them or all together are too large, or if one has no
    data.
    """
    sent = request.attachments
    if len(sent) > settings.attachments_max:
        words = f"There are {len(sent)} attachments; at most {settings.attachments_max} are allowed"
        raise Invalid.at("/attachments", f"{words} (REDRAFT_ATTACHMENTS_MAX).", "too_many_attachments")
    for index, each in enumerate(sent):
        _check_one(settings, f"/attachments/{index}", each, needs_data=not isinstance(request, RescoreAnswers))
    found = [each if isinstance(each, StoredAttachment) else each.stored for each in sent]
    if (total := sum(each.size for each in found)) > settings.attachments_max_bytes:
        words = f"The attachments have {total:,} bytes; at most {settings.attachments_max_bytes:,} are allowed"
        raise Invalid.at("/attachments", f"{words} (REDRAFT_ATTACHMENTS_MAX_BYTES).", "attachments_too_large")
    return found


def _check_one(settings: Settings, pointer: str, sent: AnyAttachment, *, needs_data: bool) -> None:
    if isinstance(sent, StoredAttachment):
        if needs_data:
            raise Invalid.at(f"{pointer}/data", "This is required: send the file, not its digest.", "missing")
    elif len(sent.content) > settings.attachment_max_bytes:
        words = f"The file has {len(sent.content):,} bytes; at most {settings.attachment_max_bytes:,} are allowed"
        raise Invalid.at(f"{pointer}/data", f"{words} (REDRAFT_ATTACHMENT_MAX_BYTES).", "attachment_too_large")


def rows_of(sent: Sequence[AnyAttachment]) -> list[dict[str, Any]]:
    """Return the rows of the attachments that have data, one per file."""
    rows = [
        {"digest": each.stored.digest, "media_type": each.media_type, "data": each.content}
        for each in sent
        if isinstance(each, Attachment)
    ]
    return list({row["digest"]: row for row in rows}.values())


def store(connection: Connection, job_id: str, request: AnyRequest, rows: Sequence[dict[str, Any]]) -> None:
    """Store the data of the attachments of a new job. A job that rescores another job gets copies of its attachments.

    Raises Conflict if the other job was deleted.
    """
    if not isinstance(request, RescoreAnswers):
        attachments.store(connection, job_id, rows)
    elif request.attachments and not attachments.copy(connection, request.job_id, job_id):
        raise Conflict(f"Job {request.job_id} was deleted at the same moment, with its attachments.")


def get(services: Services, job_id: str, digest: str) -> StoredFile:
    """An attachment of a job. Raises NotFound if the job has no attachment with this digest."""
    with services.database.read() as connection:
        row = attachments.get(connection, job_id, digest)
        job = jobs.get(connection, job_id)
    named = [each["title"] for each in job.request["attachments"] if each["digest"] == digest] if job else []
    return StoredFile(
        **existing(row, "attachment", f"{job_id}/{digest}"), title=next((title for title in named if title), None)
    )
