"""Reads the job list of the pages. It reads only the columns of a line, because the other texts may be large."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select

from redraft.storage.engine.query_parts import ListPosition, fetch_all
from redraft.storage.engine.tables import evaluations, iterations, jobs
from redraft.storage.jobs.job_filters import JobFilter, conditions, in_order, split_by_order
from redraft.storage.jobs.jobs import is_accepted

SCANNED_MAX = 2000
"""The number of jobs of which a search reads the texts and figures at once."""

_BEGINNING = 2000
_THRESHOLD = '"score_threshold":'
# Only instruction, format and criteria come before the threshold. The sources, which may be long, come after it
_THRESHOLD_WITHIN = 1_300_000
_THRESHOLD_CHARS = 24


@dataclass(frozen=True, slots=True)
class JobRow:
    """A line of the list.

    Attributes:
        beginning: the beginning of the stored request, whose first field is `instruct`.
        threshold: some characters of the stored request, which begin with the score threshold.
    """

    id: str
    kind: str
    status: str
    stop_reason: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    metadata: dict[str, str]
    model: str | None
    evaluator_model: str
    run_id: str | None
    step: str
    iteration: int
    iteration_limit: int
    best_score: float | None
    error: dict[str, Any] | None
    cost_nano_usd: int
    unpriced_calls: int
    is_accepted: bool
    beginning: str
    threshold: str


def page(connection: Connection, criteria: JobFilter) -> list[JobRow]:
    """Return one page in order of time and one more row, which shows whether there is a next page."""
    query = _select(connection)
    found = [
        row for each in split_by_order(criteria) for row in _rows(connection, _page(query, connection, each, extra=1))
    ]
    ordered = sorted(found, key=lambda row: (row.created_at, row.id), reverse=criteria.newest_first)
    return ordered[: criteria.limit + 1]


def search(connection: Connection, criteria: JobFilter) -> tuple[list[JobRow], ListPosition | None]:
    """Return the jobs with the words, in the order of `sort`, among the next `SCANNED_MAX` jobs of the list.

    Also returns the position of the last of these jobs if there are more. No index has words and scores: the hot path
    would pay for it. So the jobs are read, and their number bounds the time.
    """
    scanned = positions(connection, replace(criteria, words=(), limit=SCANNED_MAX))
    if not scanned:
        return [], None
    within = jobs.c.created_at.between(min(scanned)[0], max(scanned)[0])
    others = conditions(connection, criteria)
    # The ids first, because the columns of a line are slow to read
    ids = _sorted(connection, select(jobs.c.id).where(within, *others), criteria).limit(criteria.limit).subquery()
    query = _sorted(connection, _select(connection).where(jobs.c.id.in_(select(ids.c.id))), criteria)
    return _rows(connection, query), scanned[-1] if len(scanned) == SCANNED_MAX else None


def _sorted(connection: Connection, query: Select[Any], criteria: JobFilter) -> Select[Any]:
    # SQLite stores times as texts
    is_postgresql = connection.dialect.name == "postgresql"
    ended, created = (
        column if is_postgresql else func.julianday(column) for column in (jobs.c.finished_at, jobs.c.created_at)
    )
    order = {
        "best": jobs.c.best_score.desc(),
        "worst": jobs.c.best_score.asc(),
        "cost": jobs.c.cost_nano_usd.desc(),
        "duration": (ended - created).desc(),
    }.get(criteria.sort)
    if order is not None:
        query = query.order_by(order.nulls_last())
    return in_order(query, newest_first=criteria.newest_first)


def _page(query: Any, connection: Connection, criteria: JobFilter, *, extra: int) -> Any:
    matching = query.where(*conditions(connection, criteria))
    return in_order(matching, newest_first=criteria.newest_first).limit(criteria.limit + extra)


def by_ids(connection: Connection, job_ids: Sequence[str], *, newest_first: bool) -> list[JobRow]:
    """Return the jobs that still exist, in the order of the list."""
    return _rows(connection, in_order(_select(connection).where(jobs.c.id.in_(job_ids)), newest_first=newest_first))


def count(connection: Connection, criteria: JobFilter, *, most: int) -> int:
    some = select(jobs.c.id).where(*conditions(connection, criteria)).limit(most).subquery()
    return connection.scalar(select(func.count()).select_from(some)) or 0


def positions(connection: Connection, criteria: JobFilter, *, extra: int = 0) -> list[ListPosition]:
    """Return the positions of the jobs of a page, and of `extra` further jobs."""
    query = select(jobs.c.created_at, jobs.c.id)
    pages = [_page(query, connection, each, extra=extra) for each in split_by_order(criteria)]
    found: list[ListPosition] = [(row.created_at, row.id) for page in pages for row in connection.execute(page)]
    return sorted(found, reverse=criteria.newest_first)[: criteria.limit + extra]


def scores(connection: Connection, job_ids: Sequence[str]) -> list[tuple[str, int, float | None]]:
    """Return job id, iteration number and best score of each evaluated iteration of these jobs, in order."""
    is_scored = and_(evaluations.c.job_id.in_(job_ids), evaluations.c.role.in_(("loop", "rescore")))
    query = (
        select(evaluations.c.job_id, iterations.c.number, func.max(evaluations.c.score))
        .join(iterations, iterations.c.id == evaluations.c.iteration_id)
        .where(is_scored)
        .group_by(evaluations.c.job_id, iterations.c.number)
        .order_by(evaluations.c.job_id, iterations.c.number)
    )
    return [(job_id, number, score) for job_id, number, score in connection.execute(query)]


def _select(connection: Connection) -> Select[Any]:
    names = [field.name for field in fields(JobRow) if field.name in jobs.c]
    beginning = func.substr(jobs.c.request, 1, _BEGINNING).label("beginning")
    others = (is_accepted(connection).label("is_accepted"), beginning, _threshold(connection).label("threshold"))
    return select(*(jobs.c[name] for name in names), *others)


def _threshold(connection: Connection) -> ColumnElement[str]:
    """Return an expression for the text of the stored request that follows the name of the threshold."""
    # To parse the whole JSON is slower. A user's text cannot contain the name, because JSON escapes its quotes
    find = func.strpos if connection.dialect.name == "postgresql" else func.instr
    head = func.substr(jobs.c.request, 1, _THRESHOLD_WITHIN)
    return func.substr(jobs.c.request, find(head, _THRESHOLD) + len(_THRESHOLD), _THRESHOLD_CHARS)


def _rows(connection: Connection, query: Select[Any]) -> list[JobRow]:
    return [JobRow(**row) for row in fetch_all(connection, query)]
