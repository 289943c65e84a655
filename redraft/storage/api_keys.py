"""API keys: only hashes are stored."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert, select, update

from redraft.storage.columns import DbNow
from redraft.storage.tables import api_keys

_SHOWN = ("id", "name", "hint", "created_at", "revoked_at")


def add(connection: Connection, values: Mapping[str, Any]) -> dict[str, Any]:
    statement = insert(api_keys).values(**values).returning(*(api_keys.c[name] for name in _SHOWN))
    return dict(connection.execute(statement).mappings().one())


def find_valid(connection: Connection, token_hash: str) -> str | None:
    """The id of the key with this hash, unless it is revoked."""
    query = select(api_keys.c.id).where(api_keys.c.token_hash == token_hash, api_keys.c.revoked_at.is_(None))
    return connection.scalar(query)


def all_keys(connection: Connection) -> list[dict[str, Any]]:
    query = select(*(api_keys.c[name] for name in _SHOWN)).order_by(api_keys.c.created_at, api_keys.c.id)
    return [dict(row) for row in connection.execute(query).mappings()]


def revoke(connection: Connection, key_id: str) -> None:
    connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=DbNow()))
