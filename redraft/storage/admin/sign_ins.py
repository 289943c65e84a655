"""Sign-ins of browsers: only hashes are stored."""

from typing import Any

from sqlalchemy import Connection, delete, insert, or_, select

from redraft.storage.engine.admin_tables import api_keys, sign_ins
from redraft.storage.engine.columns import DbNow


def add(connection: Connection, token_hash: str, key_id: str, *, lifetime_s: float) -> None:
    """Keep a sign-in, and drop those that are over."""
    connection.execute(delete(sign_ins).where(sign_ins.c.expires_at <= DbNow()))
    connection.execute(insert(sign_ins).values(token_hash=token_hash, key_id=key_id, expires_at=DbNow(lifetime_s)))


def find_key(connection: Connection, token_hash: str) -> dict[str, Any] | None:
    """The `id`, `name` and `scopes` of the key that signed in, unless either is over."""
    query = (
        select(api_keys.c.id, api_keys.c.name, api_keys.c.scopes)
        .join(sign_ins, sign_ins.c.key_id == api_keys.c.id)
        .where(
            sign_ins.c.token_hash == token_hash,
            sign_ins.c.expires_at > DbNow(),
            api_keys.c.revoked_at.is_(None),
            or_(api_keys.c.expires_at.is_(None), api_keys.c.expires_at > DbNow()),
        )
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def remove(connection: Connection, token_hash: str) -> None:
    connection.execute(delete(sign_ins).where(sign_ins.c.token_hash == token_hash))
