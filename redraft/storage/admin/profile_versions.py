"""The texts of each version of a profile that has judged: prompts that have changed since can be read all the same."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from redraft.storage.engine.admin_tables import profile_versions as versions


def is_kept(connection: Connection, name: str, version: str) -> bool:
    query = select(1).where(versions.c.name == name, versions.c.version == version)
    return connection.scalar(query) is not None


def keep(connection: Connection, name: str, version: str, texts: Mapping[str, str]) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(versions).values(name=name, version=version, texts=dict(texts))
    connection.execute(statement.on_conflict_do_nothing())


def list_of(connection: Connection, name: str, *, limit: int) -> list[dict[str, Any]]:
    """Versions, the latest first, without their texts."""
    query = select(versions.c.version, versions.c.first_used_at).where(versions.c.name == name)
    query = query.order_by(versions.c.first_used_at.desc(), versions.c.version).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]


def texts_of(connection: Connection, name: str, version: str) -> dict[str, str] | None:
    return connection.scalar(select(versions.c.texts).where(versions.c.name == name, versions.c.version == version))
