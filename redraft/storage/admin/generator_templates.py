"""Stores the versions of generator templates: versions that were saved, and versions of files that a job uses."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, String, cast, func, select, update

from redraft.storage.engine.admin_tables import generator_templates as templates
from redraft.storage.engine.columns import DbNow, text_in
from redraft.storage.engine.query_parts import exists, fetch_all, fetch_one, insert_if_absent
from redraft.storage.engine.tables import iterations, jobs
from redraft.storage.jobs.transitions import is_open

_KEY = ("name", "version")


def save(connection: Connection, name: str, version: str, texts: Mapping[str, str], *, is_file: bool) -> None:
    """Store a version. A version that is saved again becomes the latest of its name."""
    values = {"name": name, "version": version, "texts": dict(texts), "is_file": is_file}
    if not insert_if_absent(connection, templates, values, _KEY) and not is_file:
        same = update(templates).where(templates.c.name == name, templates.c.version == version)
        connection.execute(same.values(is_file=False, saved_at=DbNow(), deleted_at=None))


def find(connection: Connection, name: str, version: str | None) -> dict[str, Any] | None:
    """Return a version, or None. If `version` is None, return the latest saved version."""
    query = select(templates).where(templates.c.name == name)
    if version is not None:
        return fetch_one(connection, query.where(templates.c.version == version))
    latest = query.where(_IS_CURRENT).order_by(*_LATEST_FIRST).limit(1)
    return fetch_one(connection, latest)


_IS_CURRENT = templates.c.is_file.is_(False) & templates.c.deleted_at.is_(None)
_LATEST_FIRST = (templates.c.saved_at.desc(), templates.c.version)


def names(connection: Connection) -> Sequence[str]:
    """Return the names of saved templates in order."""
    query = select(templates.c.name).where(_IS_CURRENT).distinct().order_by(templates.c.name)
    return connection.scalars(query).all()


def delete(connection: Connection, name: str) -> bool:
    """Mark the saved versions of a template as deleted. Return whether any version was marked."""
    saved = update(templates).where(templates.c.name == name, _IS_CURRENT)
    return connection.execute(saved.values(deleted_at=DbNow())).rowcount > 0


def is_deleted(connection: Connection, name: str, version: str) -> bool:
    is_it = (templates.c.name == name) & (templates.c.version == version)
    return exists(connection, is_it, templates.c.deleted_at.is_not(None))


def open_jobs_with(connection: Connection, name: str, *, limit: int) -> Sequence[str]:
    """Return the ids of jobs that name a template and have a next step, in order."""
    reference = text_in(connection, jobs.c.request, "generator_template")
    query = select(jobs.c.id).where(is_open(), cast(reference, String).startswith(f"{name}@", autoescape=True))
    return connection.scalars(query.order_by(jobs.c.id).limit(limit)).all()


def versions_of(connection: Connection, name: str, *, limit: int) -> list[dict[str, Any]]:
    """Return the versions of a template without their texts, latest first."""
    query = select(templates.c.version, templates.c.is_file, templates.c.saved_at).where(templates.c.name == name)
    return fetch_all(connection, query.order_by(*_LATEST_FIRST).limit(limit))


def jobs_with(connection: Connection, reference: str, *, limit: int) -> list[dict[str, Any]]:
    """Return the jobs that generated an answer with this version of a template, latest first."""
    last_used_at = func.max(iterations.c.created_at).label("last_used_at")
    query = select(iterations.c.job_id, last_used_at).where(iterations.c.generator_template == reference)
    return fetch_all(connection, query.group_by(iterations.c.job_id).order_by(last_used_at.desc()).limit(limit))
