"""Stores the texts of each used version of a profile, so that they can be read after the prompts have changed."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from redraft.storage.engine.admin_tables import profile_versions as versions
from redraft.storage.engine.query_parts import exists, fetch_all, insert_if_absent


def is_stored(connection: Connection, name: str, version: str) -> bool:
    return exists(connection, versions.c.name == name, versions.c.version == version)


def store(connection: Connection, name: str, version: str, texts: Mapping[str, str]) -> None:
    values = {"name": name, "version": version, "texts": dict(texts)}
    insert_if_absent(connection, versions, values, ("name", "version"))


def list_of(connection: Connection, name: str, *, limit: int) -> list[dict[str, Any]]:
    """Return the versions of a profile without their texts, latest first."""
    query = select(versions.c.version, versions.c.first_used_at).where(versions.c.name == name)
    return fetch_all(connection, query.order_by(versions.c.first_used_at.desc(), versions.c.version).limit(limit))


def texts_of(connection: Connection, name: str, version: str) -> dict[str, str] | None:
    return connection.scalar(select(versions.c.texts).where(versions.c.name == name, versions.c.version == version))
