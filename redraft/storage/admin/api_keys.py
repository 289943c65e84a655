"""API keys: only hashes are stored."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from redraft.storage.engine.admin_tables import api_keys
from redraft.storage.engine.columns import DbNow

_SHOWN = ("id", "name", "hint", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at")


def _shown() -> list[ColumnElement[Any]]:
    is_expired = func.coalesce(api_keys.c.expires_at <= DbNow(), False)
    return [*(api_keys.c[name] for name in _SHOWN), is_expired.label("is_expired")]


def add(connection: Connection, values: Mapping[str, Any], *, lifetime_s: float | None = None) -> dict[str, Any] | None:
    """Insert a key; None when one with its id exists already."""
    expires_at = None if lifetime_s is None else DbNow(lifetime_s)
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(api_keys).values(**values, expires_at=expires_at)
    statement = statement.on_conflict_do_nothing(index_elements=[api_keys.c.id]).returning(api_keys.c.id)
    if connection.execute(statement).one_or_none() is None:
        return None
    query = select(*_shown()).where(api_keys.c.id == values["id"])
    return dict(connection.execute(query).mappings().one())


def count_valid(connection: Connection, name: str) -> int:
    """How many keys of this name are neither revoked nor expired."""
    return (
        connection.scalar(select(func.count()).select_from(api_keys).where(api_keys.c.name == name, *_is_valid())) or 0
    )


def _is_valid() -> tuple[ColumnElement[bool], ...]:
    return api_keys.c.revoked_at.is_(None), or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > DbNow())


def find_valid(connection: Connection, token_hash: str, *, unnoted_for_s: float) -> dict[str, Any] | None:
    """The key with this hash, unless it is revoked or expired; `is_unnoted`: its use was not noted for so long."""
    query = select(
        api_keys.c.id, api_keys.c.token_hash, api_keys.c.scopes, _is_unnoted(unnoted_for_s).label("is_unnoted")
    ).where(api_keys.c.token_hash == token_hash, *_is_valid())
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def _is_unnoted(for_s: float) -> ColumnElement[bool]:
    return or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < DbNow(-for_s))


def note_use(connection: Connection, key_id: str, *, unnoted_for_s: float) -> None:
    """The key was used now. Of several that note it at once, one does."""
    is_due = and_(api_keys.c.id == key_id, _is_unnoted(unnoted_for_s))
    connection.execute(update(api_keys).where(is_due).values(last_used_at=DbNow()))


def all_keys(connection: Connection) -> list[dict[str, Any]]:
    query = select(*_shown()).order_by(api_keys.c.created_at, api_keys.c.id)
    return [dict(row) for row in connection.execute(query).mappings()]


def revoke(connection: Connection, key_id: str) -> None:
    connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=DbNow()))
