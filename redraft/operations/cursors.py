"""Encodes and decodes the cursors of lists. A cursor holds the time and the id of the last row of a page."""

import base64
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from redraft.errors import Invalid

_ID = re.compile(r"[a-z]{2,4}_[0-9a-f]{32}")


class Placed(Protocol):
    """A row of a list that is ordered by age."""

    @property
    def id(self) -> str: ...
    @property
    def created_at(self) -> datetime: ...


def next_cursor(rows: Sequence[Placed], limit: int) -> str | None:
    """The cursor of the page after the first `limit` rows; None if there are no more rows."""
    return write_cursor(rows[limit - 1].created_at, rows[limit - 1].id) if len(rows) > limit else None


def write_cursor(created_at: datetime, row_id: str) -> str:
    # Base64 makes cursors opaque, so that clients do not rely on their content
    return base64.urlsafe_b64encode(f"{created_at.isoformat()}|{row_id}".encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """The time and the id in a cursor. Raises Invalid if the text is not a cursor (code `invalid_cursor`)."""
    if cursor is None:
        return None
    invalid = Invalid.at("/after", "This is not a cursor; use next_cursor of the previous page.", "invalid_cursor")
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        at, _, row_id = text.partition("|")
        created_at = datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise invalid from error
    if not _ID.fullmatch(row_id):
        raise invalid
    return created_at, row_id
