"""Stores and finds API keys, and the sign-ins of browsers with API keys. Only hashes of tokens are stored."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from redraft.storage.engine.admin_tables import api_keys, sign_ins
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import count, fetch_all, fetch_one, insert_if_absent

_SHOWN = (
    *(api_keys.c[name] for name in ("id", "name", "hint", "scopes")),
    *(api_keys.c[name] for name in ("created_at", "last_used_at", "expires_at", "revoked_at")),
    func.coalesce(api_keys.c.expires_at <= DbNow(), False).label("is_expired"),
)
_IS_VALID = (api_keys.c.revoked_at.is_(None), or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > DbNow()))


def add(connection: Connection, values: Mapping[str, Any], *, lifetime_s: float | None = None) -> dict[str, Any] | None:
    """Insert a key and return it. Return None if a key has the same id."""
    expires_at = None if lifetime_s is None else DbNow(lifetime_s)
    if not insert_if_absent(connection, api_keys, {**values, "expires_at": expires_at}, ("id",)):
        return None
    return fetch_one(connection, select(*_SHOWN).where(api_keys.c.id == values["id"]))


def count_valid(connection: Connection, name: str) -> int:
    return count(connection, api_keys.c.name == name, *_IS_VALID)


def find_valid(connection: Connection, token_hash: str, *, unrecorded_for_s: float) -> dict[str, Any] | None:
    """Return the key with this hash. Return None if the key is revoked, expired or unknown.

    `is_unrecorded` is true if no use of the key was recorded in the last `unrecorded_for_s` seconds.
    """
    names = (api_keys.c.id, api_keys.c.token_hash, api_keys.c.scopes, api_keys.c.name)
    query = select(*names, _is_unrecorded(unrecorded_for_s).label("is_unrecorded"))
    return fetch_one(connection, query.where(api_keys.c.token_hash == token_hash, *_IS_VALID))


def _is_unrecorded(for_s: float) -> ColumnElement[bool]:
    return or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < DbNow(-for_s))


def record_use(connection: Connection, key_id: str, *, unrecorded_for_s: float) -> None:
    """Record the use of a key."""
    # The condition is checked again, so that only one of several concurrent requests writes
    statement = update(api_keys).where(api_keys.c.id == key_id, _is_unrecorded(unrecorded_for_s))
    connection.execute(statement.values(last_used_at=DbNow()))


def all_keys(connection: Connection) -> list[dict[str, Any]]:
    return fetch_all(connection, select(*_SHOWN).order_by(api_keys.c.created_at, api_keys.c.id))


def revoke(connection: Connection, key_id: str) -> None:
    connection.execute(update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=DbNow()))


def add_sign_in(connection: Connection, token_hash: str, key_id: str, *, lifetime_s: float) -> None:
    connection.execute(delete(sign_ins).where(sign_ins.c.expires_at <= DbNow()))
    connection.execute(insert(sign_ins).values(token_hash=token_hash, key_id=key_id, expires_at=DbNow(lifetime_s)))


def find_signed_in(connection: Connection, token_hash: str) -> dict[str, Any] | None:
    """Return `id`, `name` and `scopes` of the key of a sign-in. Return None if the sign-in or the key is invalid."""
    query = (
        select(api_keys.c.id, api_keys.c.name, api_keys.c.scopes)
        .join(sign_ins, sign_ins.c.key_id == api_keys.c.id)
        .where(sign_ins.c.token_hash == token_hash, sign_ins.c.expires_at > DbNow(), *_IS_VALID)
    )
    return fetch_one(connection, query)


def remove_sign_in(connection: Connection, token_hash: str) -> None:
    connection.execute(delete(sign_ins).where(sign_ins.c.token_hash == token_hash))
