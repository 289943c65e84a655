"""What people see of runs in lists: a page of runs or items at a time, by the same number of statements for each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, and_, cast, func, or_, select

from redraft.domain.bulk.run_facts import UNKNOWN_ERROR
from redraft.storage.bulk.runs import RunRecord
from redraft.storage.engine.bulk_tables import dataset_items, datasets, run_items
from redraft.storage.engine.columns import moment, text_in
from redraft.storage.engine.tables import evaluations, iterations, jobs
from redraft.storage.jobs.jobs import count_accepted, is_accepted

EXCERPT_CHARS = 300
_FAULTY = ("failed", "invalid")
_LINE = re.compile(r"line (\d{1,9})")


@dataclass(frozen=True, slots=True)
class Totals:
    """What all jobs of a run have come to.

    Attributes:
        accepted: how many of them.
        unpriced_calls: of how many calls nobody knows what they cost.
    """

    accepted: int
    cost_nano_usd: int
    unpriced_calls: int


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """Which items of a run.

    Attributes:
        is_accepted: None: whether accepted or not.
        error_code: as the report's error groups have it.
        custom_id: of the row; one without is named by its line, as in `line 4`.
    """

    statuses: tuple[str, ...] = ()
    is_accepted: bool | None = None
    error_code: str | None = None
    custom_id: str | None = None


def dataset_names(connection: Connection, dataset_ids: Sequence[str]) -> dict[str, str]:
    query = select(datasets.c.id, datasets.c.name).where(datasets.c.id.in_(dataset_ids))
    return {row[0]: row[1] for row in connection.execute(query)}


def totals(connection: Connection, run_ids: Sequence[str]) -> dict[str, Totals]:
    """By run; none of a run without jobs. Read from an index alone."""
    accepted = count_accepted(connection, lambda table: table.c.run_id == jobs.c.run_id)
    sums = [func.sum(each) for each in (jobs.c.cost_nano_usd, jobs.c.unpriced_calls)]
    query = select(jobs.c.run_id, accepted, *sums).where(jobs.c.run_id.in_(run_ids)).group_by(jobs.c.run_id)
    return {run_id: Totals(*map(int, values)) for run_id, *values in connection.execute(query)}


def latest_ends(connection: Connection, run_id: str, *, within_s: float, limit: int) -> list[datetime]:
    """When the jobs that ended last have ended, the latest first; none that ended longer ago."""
    # Not by the run's index: it would bring all of its jobs, to be put in order
    is_of_run = func.coalesce(jobs.c.run_id, "") == run_id
    since = moment(connection, ago_s=within_s)
    query = (
        select(jobs.c.finished_at)
        .where(jobs.c.finished_at.is_not(None), jobs.c.finished_at >= since, is_of_run)
        .order_by(jobs.c.finished_at.desc())
        .limit(limit)
    )
    return [at for at in connection.scalars(query) if at]


_ITEM = ("number", "repeat", "status", "job_id", "errors")
_ROW = ("custom_id", "line")
_JOB = (
    *("kind", "stop_reason", "best_score", "best_iteration", "iteration", "model", "error", "cost_nano_usd"),
    *("unpriced_calls", "started_at", "finished_at"),
)


def list_items(
    connection: Connection, run: RunRecord, chosen: ItemFilter, *, after: int, limit: int
) -> list[dict[str, Any]]:
    """Items beyond a number, in order, without their texts; of each question the beginning."""
    its_row = and_(dataset_items.c.dataset_id == run.dataset_id, dataset_items.c.position == run_items.c.position)
    question = func.coalesce(
        text_in(connection, jobs.c.request, "instruct"),
        text_in(connection, dataset_items.c.row, "fields", "instruct"),
    )
    query = (
        select(
            *(run_items.c[name] for name in _ITEM),
            *(dataset_items.c[name] for name in _ROW),
            *(jobs.c[name] for name in _JOB),
            is_accepted(connection).label("is_accepted"),
            func.substr(cast(question, Text), 1, EXCERPT_CHARS).label("question"),
            text_in(connection, jobs.c.request, "score_threshold").label("score_threshold"),
        )
        .select_from(run_items.join(dataset_items, its_row).outerjoin(jobs, jobs.c.id == run_items.c.job_id))
        .where(run_items.c.run_id == run.id, run_items.c.number > after, *_conditions(connection, chosen))
        .order_by(run_items.c.number)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def _conditions(connection: Connection, chosen: ItemFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if chosen.statuses:
        found.append(run_items.c.status.in_(chosen.statuses))
    if chosen.is_accepted is not None:
        has_accepted = is_accepted(connection)
        found.append(run_items.c.status == "succeeded")
        found.append(has_accepted if chosen.is_accepted else ~has_accepted)
    if chosen.error_code is not None:
        found.append(_has_error(connection, chosen.error_code))
    if chosen.custom_id is not None:
        found.append(_is_named(chosen.custom_id))
    return found


def _has_error(connection: Connection, code: str) -> ColumnElement[bool]:
    if code == UNKNOWN_ERROR:
        return and_(run_items.c.status.in_(_FAULTY), run_items.c.errors.is_(None), jobs.c.error.is_(None))
    of_row = text_in(connection, run_items.c.errors, 0, "code")
    of_job = text_in(connection, jobs.c.error, "code")
    # Texts are read only where there are any
    return or_(
        and_(run_items.c.errors.is_not(None), of_row == code),
        and_(run_items.c.errors.is_(None), jobs.c.error.is_not(None), of_job == code),
    )


def scores(connection: Connection, job_ids: Sequence[str]) -> dict[str, list[float | None]]:
    """The best score of each iteration of these jobs, in order; None where there is none."""
    in_loop = and_(evaluations.c.iteration_id == iterations.c.id, evaluations.c.role == "loop")
    query = (
        select(iterations.c.job_id, iterations.c.number, func.max(evaluations.c.score))
        .select_from(iterations.outerjoin(evaluations, in_loop))
        .where(iterations.c.job_id.in_(job_ids))
        .group_by(iterations.c.job_id, iterations.c.number)
        .order_by(iterations.c.job_id, iterations.c.number)
    )
    found: dict[str, list[float | None]] = {}
    for job_id, _, score in connection.execute(query):
        found.setdefault(job_id, []).append(score)
    return found


def find_item(connection: Connection, run: RunRecord, custom_id: str, repeat: int) -> Mapping[Any, Any] | None:
    """One row in one of its repeats, with its job's result and request."""
    is_row = and_(dataset_items.c.dataset_id == run.dataset_id, _is_named(custom_id))
    position = connection.scalar(select(dataset_items.c.position).where(is_row).limit(1))
    if position is None:
        return None
    names = ("result", "request", "best_score", "best_iteration")
    columns = (*(jobs.c[name] for name in names), is_accepted(connection).label("is_accepted"))
    query = (
        select(run_items.c.number, run_items.c.status, run_items.c.job_id, *columns)
        .select_from(run_items.outerjoin(jobs, jobs.c.id == run_items.c.job_id))
        .where(run_items.c.run_id == run.id, run_items.c.number == position * run.repeat + repeat)
    )
    return connection.execute(query).mappings().one_or_none()


def _is_named(name: str) -> ColumnElement[bool]:
    """A row that cannot be used may have no id: its line names it."""
    is_named = dataset_items.c.custom_id == name
    found = _LINE.fullmatch(name)
    if found is None:
        return is_named
    return or_(is_named, and_(dataset_items.c.custom_id.is_(None), dataset_items.c.line == int(found[1])))


def list_bad_rows(connection: Connection, dataset_id: str, *, after: int, limit: int) -> list[dict[str, Any]]:
    """Rows that cannot be used, in order, beyond a position."""
    query = (
        select(dataset_items)
        .where(
            dataset_items.c.dataset_id == dataset_id,
            dataset_items.c.position > after,
            dataset_items.c.errors.is_not(None),
        )
        .order_by(dataset_items.c.position)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
