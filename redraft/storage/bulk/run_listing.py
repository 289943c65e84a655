"""Reads lists of runs and items for pages. The number of statements does not depend on the number of lines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, and_, cast, func, or_, select

from redraft.domain.bulk.run_statistics import UNKNOWN_ERROR
from redraft.storage.bulk.run_items import select_items
from redraft.storage.bulk.runs import RunRecord
from redraft.storage.engine.bulk_tables import dataset_items, datasets, run_items, runs
from redraft.storage.engine.columns import database_time, text_in
from redraft.storage.engine.query_parts import fetch_all, fetch_one
from redraft.storage.engine.tables import evaluations, iterations, jobs
from redraft.storage.jobs.criterion_verdicts import does_not_meet
from redraft.storage.jobs.job_filters import metadata_conditions
from redraft.storage.jobs.job_lists import has_only_checks
from redraft.storage.jobs.jobs import count_accepted, is_accepted

EXCERPT_CHARS = 300
_FAULTY = ("failed", "invalid")
_LINE = re.compile(r"line (\d{1,9})")


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of accepted jobs of a run, and the cost of all its jobs.

    `unpriced_calls` is the number of calls with unknown cost.
    """

    accepted: int
    cost_nano_usd: int
    unpriced_calls: int


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """The filter of a list of items. A field that is None matches all items.

    `error_code` is a code of the error groups of the report. `custom_id` is the id of a row, or its line: `line 4`.
    `not_met` is the id of a criterion that the returned answer does not meet.
    """

    statuses: tuple[str, ...] = ()
    is_accepted: bool | None = None
    error_code: str | None = None
    custom_id: str | None = None
    not_met: str | None = None


@dataclass(frozen=True, slots=True)
class JobModels:
    """The models of a job. `model` is None if the job only evaluates an answer."""

    run_id: str
    model: str | None
    evaluator_model: str
    has_only_checks: bool


def dataset_names(connection: Connection, dataset_ids: Sequence[str]) -> dict[str, str]:
    query = select(datasets.c.id, datasets.c.name).where(datasets.c.id.in_(dataset_ids))
    return dict(connection.execute(query).all())


def totals(connection: Connection, run_ids: Sequence[str]) -> dict[str, Totals]:
    """Return the totals by run id, from an index alone. A run without jobs has no entry."""
    accepted = count_accepted(connection, lambda table: table.c.run_id == jobs.c.run_id)
    sums = [func.sum(each) for each in (jobs.c.cost_nano_usd, jobs.c.unpriced_calls)]
    query = select(jobs.c.run_id, accepted, *sums).where(jobs.c.run_id.in_(run_ids)).group_by(jobs.c.run_id)
    return {run_id: Totals(*map(int, values)) for run_id, *values in connection.execute(query)}


def models_of_first_jobs(connection: Connection, run_ids: Sequence[str]) -> dict[str, JobModels]:
    """Return the models of the first job of each run, by run id. A run without jobs has no entry."""
    first = (
        select(run_items.c.job_id)
        .where(run_items.c.run_id == runs.c.id, run_items.c.job_id.is_not(None))
        .order_by(run_items.c.number)
        .limit(1)
        .scalar_subquery()
    )
    chosen = connection.scalars(select(first).where(runs.c.id.in_(run_ids))).all()
    columns = jobs.c.run_id, jobs.c.model, jobs.c.evaluator_model, has_only_checks(connection)
    found = connection.execute(select(*columns).where(jobs.c.id.in_(filter(None, chosen))))
    return {row[0]: JobModels(*row) for row in found}


def latest_ends(connection: Connection, run_id: str, *, within_s: float, limit: int) -> list[datetime]:
    """Return the times when the latest jobs of a run ended, latest first."""
    # An expression keeps the database from using the index on `run_id`. With that index, it would read and sort all
    # jobs of the run
    is_of_run = func.coalesce(jobs.c.run_id, "") == run_id
    since = database_time(connection, ago_s=within_s)
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
    connection: Connection, run: RunRecord, chosen: ItemFilter, *, after: int, before: int | None = None, limit: int
) -> list[dict[str, Any]]:
    """Return items after a number, or the last items before a number, in order, with the beginning of each question."""
    question = func.coalesce(
        text_in(connection, jobs.c.request, "instruct"), text_in(connection, dataset_items.c.row, "fields", "instruct")
    )
    query = select_items(
        run,
        *(run_items.c[name] for name in _ITEM),
        *(dataset_items.c[name] for name in _ROW),
        *(jobs.c[name] for name in _JOB),
        is_accepted(connection).label("is_accepted"),
        func.substr(cast(question, Text), 1, EXCERPT_CHARS).label("question"),
        text_in(connection, jobs.c.request, "score_threshold").label("score_threshold"),
    )
    wanted = query.where(*_conditions(connection, chosen)).limit(limit)
    if before is None:
        return fetch_all(connection, wanted.where(run_items.c.number > after))
    newest_first = wanted.where(run_items.c.number < before).order_by(None).order_by(run_items.c.number.desc())
    return fetch_all(connection, newest_first)[::-1]


def count_items(connection: Connection, run: RunRecord, chosen: ItemFilter) -> int:
    query = select_items(run, func.count()).order_by(None).where(*_conditions(connection, chosen))
    return connection.scalar(query) or 0


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
    if chosen.not_met is not None:
        found.append(does_not_meet(connection, chosen.not_met))
    return found


def _has_error(connection: Connection, code: str) -> ColumnElement[bool]:
    if code == UNKNOWN_ERROR:
        return and_(run_items.c.status.in_(_FAULTY), run_items.c.errors.is_(None), jobs.c.error.is_(None))
    of_row = text_in(connection, run_items.c.errors, 0, "code")
    of_job = text_in(connection, jobs.c.error, "code")
    # The conditions on NULL come first, so that the database parses no texts of rows without errors
    return or_(
        and_(run_items.c.errors.is_not(None), of_row == code),
        and_(run_items.c.errors.is_(None), jobs.c.error.is_not(None), of_job == code),
    )


def scores(connection: Connection, job_ids: Sequence[str]) -> dict[str, list[float | None]]:
    """Return the best score of each iteration by job id, in order. A score is None if there is no verdict."""
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


def find_item(connection: Connection, run: RunRecord, custom_id: str, repeat: int) -> Mapping[str, Any] | None:
    """Return the item of a row and repeat, with the result and the request of its job, or None."""
    is_row = and_(dataset_items.c.dataset_id == run.dataset_id, _is_named(custom_id))
    position = connection.scalar(select(dataset_items.c.position).where(is_row).limit(1))
    if position is None:
        return None
    names = ("result", "request", "best_score", "best_iteration")
    columns = (*(jobs.c[name] for name in names), is_accepted(connection).label("is_accepted"))
    query = (
        select(run_items.c.number, run_items.c.status, run_items.c.job_id, *columns)
        .select_from(run_items.outerjoin(jobs, jobs.c.id == run_items.c.job_id))
        # Items are numbered row by row, and the repeats of a row follow each other
        .where(run_items.c.run_id == run.id, run_items.c.number == position * run.repeat + repeat)
    )
    return fetch_one(connection, query)


def rows_with_metadata(connection: Connection, run: RunRecord, metadata: Mapping[str, str]) -> set[str]:
    """Return the ids of the rows whose jobs have all these pairs in their metadata."""
    query = select_items(run, dataset_items.c.custom_id).where(*metadata_conditions(connection, metadata))
    return {name for name in connection.scalars(query) if name}


def texts_of_rows(connection: Connection, run: RunRecord, custom_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the job of the first repeat of each row, and the beginnings of its question and its answer."""
    question = text_in(connection, jobs.c.request, "instruct")
    answer = text_in(connection, jobs.c.result, "final_answer")
    query = select_items(
        run,
        dataset_items.c.custom_id,
        run_items.c.job_id,
        func.substr(cast(question, Text), 1, EXCERPT_CHARS).label("question"),
        func.substr(cast(answer, Text), 1, EXCERPT_CHARS).label("answer"),
    )
    found = fetch_all(connection, query.where(dataset_items.c.custom_id.in_(custom_ids), run_items.c.repeat == 1))
    return {row["custom_id"]: row for row in found}


def _is_named(name: str) -> ColumnElement[bool]:
    """Whether a row has this id. An invalid row may have no id, so `line N` selects it by its line."""
    is_named = dataset_items.c.custom_id == name
    found = _LINE.fullmatch(name)
    if found is None:
        return is_named
    return or_(is_named, and_(dataset_items.c.custom_id.is_(None), dataset_items.c.line == int(found[1])))
