"""Reads the job list of the pages. It reads only the columns of a line, because the other texts may be large."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Interval,
    Select,
    and_,
    func,
    literal,
    literal_column,
    select,
    text,
    tuple_,
)

from redraft.storage.engine.query_parts import ListPosition, fetch_all
from redraft.storage.engine.tables import DURATIONS, ENDED, SCORED, evaluations, iterations, jobs
from redraft.storage.jobs.job_filters import JobFilter, Sort, conditions, in_order, matching, positions
from redraft.storage.jobs.jobs import is_accepted

SCANNED_MAX = 5000
"""The maximum number of jobs whose texts and figures are read for one page of a search."""
SCANNED_AT_ONCE = 500

_SCAN_S = 0.06

_BEGINNING = 2000
_THRESHOLD = '"score_threshold":'
# Only instruction, format and criteria come before the threshold. Sources, which may be long, come later
_THRESHOLD_WITHIN = 1_300_000
_THRESHOLD_CHARS = 24
_RUBRIC_WITHIN = 500_000


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
    has_only_checks: bool
    beginning: str
    threshold: str


def page(connection: Connection, criteria: JobFilter) -> list[JobRow]:
    """Return one page in order of time and one more row, which shows whether there is a next page."""
    # The ids are selected first, because the other columns are slow to read, and a database may have to sort many rows
    ids = [job_id for _, job_id in positions(connection, criteria, extra=1)]
    return by_ids(connection, ids, newest_first=criteria.newest_first)


def search(connection: Connection, criteria: JobFilter) -> tuple[list[JobRow], int, ListPosition | None]:
    """Search the next jobs of the list, and return those that match, in the order of `sort`.

    Also returns the number of searched jobs, and the position of the last searched job if the list has more jobs.
    """
    ids, scanned, after = search_ids(connection, criteria)
    chosen = _sorted(connection, select(jobs.c.id).where(jobs.c.id.in_(ids)), criteria).limit(criteria.limit)
    query = _select(connection).where(jobs.c.id.in_(connection.scalars(chosen).all()))
    return _rows(connection, _sorted(connection, query, criteria)), scanned, after


def search_ids(connection: Connection, criteria: JobFilter) -> tuple[list[str], int, ListPosition | None]:
    """Search the next jobs of the list, and return the ids of those with the words and the criterion of the filter.

    There is no index of words and criteria, because each step of a job would have to update it. So jobs are read in
    parts, until a page is full or the time is over. Also returns the same number and position as `search`.
    """
    scanned, ids, after = 0, list[str](), criteria.after
    started = time.monotonic()
    while True:
        part = positions(connection, replace(criteria, words=(), not_met=None, after=after, limit=SCANNED_AT_ONCE))
        scanned += len(part)
        after = part[-1] if len(part) == SCANNED_AT_ONCE else None
        ids += _searched(connection, criteria, part) if criteria.is_searched else [job_id for _, job_id in part]
        is_full = criteria.sort == "time" and len(ids) >= criteria.limit
        if after is None or is_full or scanned >= SCANNED_MAX or time.monotonic() - started > _SCAN_S:
            return ids, scanned, after


def _searched(connection: Connection, criteria: JobFilter, part: Sequence[ListPosition]) -> Sequence[str]:
    wanted = conditions(connection, JobFilter(words=criteria.words, not_met=criteria.not_met))
    query = select(jobs.c.id).where(jobs.c.id.in_([job_id for _, job_id in part]), *wanted)
    return connection.scalars(query).all()


def page_by(connection: Connection, sort: Sort, after_id: str | None, limit: int) -> list[JobRow] | None:
    """Return one page of all ended jobs in the order of `sort`, and one more row.

    Returns None if the job `after_id`, with which the previous page ended, does not exist any more.
    """
    key = _sort_key(connection, sort)
    # The condition must have the same text as in the partial indexes
    query = select(jobs.c.id).where(text(SCORED if sort in {"best", "worst"} else ENDED))
    if after_id:
        value = connection.scalar(select(key).where(jobs.c.id == after_id))
        if value is None:
            return None
        place = tuple_(literal(value, key.type), literal(after_id, jobs.c.id.type))
        # SQLite uses only the first condition to find the position in an index of an expression
        query = query.where(key <= literal(value, key.type), tuple_(key, jobs.c.id) < place)
    ids = query.order_by(key.desc(), jobs.c.id.desc()).limit(limit + 1)
    rows = _select(connection).where(jobs.c.id.in_(connection.scalars(ids).all()))
    return _rows(connection, rows.order_by(key.desc(), jobs.c.id.desc()))


def _sort_key(connection: Connection, sort: Sort) -> ColumnElement[Any]:
    """Return an expression whose highest values come first."""
    if sort == "duration":
        name = connection.dialect.name
        return literal_column(f"({DURATIONS[name]})", Interval() if name == "postgresql" else Float())
    if sort == "worst":
        return literal_column("(-best_score)", Float())
    return jobs.c.cost_nano_usd if sort == "cost" else jobs.c.best_score


def _sorted(connection: Connection, query: Select[Any], criteria: JobFilter) -> Select[Any]:
    if criteria.sort != "time":
        query = query.order_by(_sort_key(connection, criteria.sort).desc().nulls_last())
    return in_order(query, newest_first=criteria.newest_first)


def by_ids(connection: Connection, job_ids: Sequence[str], *, newest_first: bool) -> list[JobRow]:
    """Return the jobs that still exist, in the order of the list."""
    if not job_ids:
        return []
    return _rows(connection, in_order(_select(connection).where(jobs.c.id.in_(job_ids)), newest_first=newest_first))


def count(connection: Connection, criteria: JobFilter, *, most: int) -> int:
    return (
        connection.scalar(select(func.count()).select_from(matching(connection, criteria).limit(most).subquery())) or 0
    )


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
    figures = is_accepted(connection).label("is_accepted"), has_only_checks(connection).label("has_only_checks")
    others = (*figures, beginning, _threshold(connection).label("threshold"))
    return select(*(jobs.c[name] for name in names), *others)


def _threshold(connection: Connection) -> ColumnElement[str]:
    """Return an expression for the text of the stored request that follows the name of the threshold."""
    # The text is searched, because parsing the whole JSON is slower. A user's text cannot contain the name with its
    # quotes, because JSON escapes quotes
    head = func.substr(jobs.c.request, 1, _THRESHOLD_WITHIN)
    return func.substr(jobs.c.request, _find(connection)(head, _THRESHOLD) + len(_THRESHOLD), _THRESHOLD_CHARS)


def has_only_checks(connection: Connection) -> ColumnElement[bool]:
    """Return an expression for whether the rubric of the stored request has only checks, so that no model is called."""
    find = _find(connection)
    begin = find(func.substr(jobs.c.request, 1, _THRESHOLD_WITHIN), '"rubric":[')
    after = func.substr(jobs.c.request, begin, _RUBRIC_WITHIN)
    rubric = func.substr(after, 1, find(after, '"evaluation":{'))
    return and_(begin > 0, *(find(rubric, f'"kind":"{kind}"') == 0 for kind in ("binary", "scale")))


def _find(connection: Connection) -> Callable[..., Any]:
    return func.strpos if connection.dialect.name == "postgresql" else func.instr


def _rows(connection: Connection, query: Select[Any]) -> list[JobRow]:
    return [JobRow(**row) for row in fetch_all(connection, query)]
