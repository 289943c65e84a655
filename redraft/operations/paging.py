"""Pages of lists: a cursor is the place of the last row, in a form that nobody takes for anything else."""

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


def write_cursor(page: Sequence[Placed], *, more: bool) -> str | None:
    """The cursor behind a page; None when nothing is there, or nothing is on it to go on from."""
    if not more or not page:
        return None
    text = f"{page[-1].created_at.isoformat()}|{page[-1].id}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """The place that a cursor names. Raises Invalid if it is not one of ours (code `invalid_cursor`)."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        at, _, row_id = text.partition("|")
        moment = datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _no_cursor() from error
    if not _ID.fullmatch(row_id):
        raise _no_cursor()
    return moment, row_id


def _no_cursor() -> Invalid:
    return Invalid.at("/after", "This is no cursor of ours; take next_cursor from the page before.", "invalid_cursor")
