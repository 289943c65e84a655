"""Reads and changes the items of runs. An item is one repeat of a dataset row, and has at most one job.

A postponed item is a queued item that no worker could start. Its `errors` has the reason and the time. If it stays
postponed for too long, it is canceled.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    Integer,
    Select,
    String,
    Update,
    and_,
    bindparam,
    case,
    func,
    null,
    select,
    update,
)

from redraft.storage.bulk.runs import RunRecord, is_active
from redraft.storage.engine import query_parts
from redraft.storage.engine.admin_tables import worker_heartbeats
from redraft.storage.engine.bulk_tables import dataset_items, run_items, runs
from redraft.storage.engine.columns import DbNow, text_in
from redraft.storage.engine.query_parts import exists, fetch_all
from redraft.storage.engine.statements import Change, fetch
from redraft.storage.engine.tables import TOKENS, calls, evaluations, iterations, jobs
from redraft.storage.jobs import parked_steps
from redraft.storage.jobs.jobs import is_accepted

_PAGE = 200

# The statuses that an item gets from its job. If an item with such a status has no job, the job was deleted
DONE = ("succeeded", "failed")

_ITEM = ("number", "position", "repeat", "status", "job_id", "errors")
_JOB = (
    *("stop_reason", "best_score", "best_iteration", "iteration", "model", "evaluator_model", "error", "calls"),
    *(*TOKENS, "cost_nano_usd", "unpriced_calls", "started_at", "finished_at"),
)
_ROW = ("custom_id", "line", "human_score", "human_pass")


def _is_in(run_id: str, *statuses: str) -> ColumnElement[bool]:
    return and_(run_items.c.run_id == run_id, run_items.c.status.in_(statuses))


def _is_one_of(run_id: str, numbers: Iterable[int]) -> ColumnElement[bool]:
    return and_(run_items.c.run_id == run_id, run_items.c.number.in_(numbers))


def count(connection: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the number of items by run and status."""
    # One statement counts all, so that the numbers add up to the total while items change
    query = (
        select(run_items.c.run_id, run_items.c.status, func.count())
        .where(run_items.c.run_id.in_(run_ids))
        .group_by(run_items.c.run_id, run_items.c.status)
    )
    found: dict[str, dict[str, int]] = {run_id: {} for run_id in run_ids}
    for run_id, status, number in connection.execute(query):
        found[run_id][status] = number
    return found


def count_deleted(connection: Connection, run_id: str) -> dict[str, int]:
    """Return the number of ended items whose jobs were deleted, by status."""
    query = select(run_items.c.status, func.count()).where(_is_in(run_id, *DONE), run_items.c.job_id.is_(None))
    return dict(connection.execute(query.group_by(run_items.c.status)).all())


def list_exhausted(connection: Connection, run_id: str, limit: int | None = None) -> list[tuple[int, dict[str, Any]]]:
    """Return the items whose jobs used up their budget, each with the limits of its job."""
    query = (
        select(run_items.c.number, jobs.c.request)
        .join_from(run_items, jobs, jobs.c.id == run_items.c.job_id)
        .where(_is_in(run_id, *DONE), jobs.c.stop_reason == "budget_exhausted")
        .limit(limit)
    )
    return [(number, request["limits"]) for number, request in connection.execute(query)]


def take_queued(
    connection: Connection, run: RunRecord, limit: int, *, are_postponed: bool = False
) -> list[dict[str, Any]]:
    """Return the next queued items with their rows: only postponed items if `are_postponed`, else only other items."""
    parameters = {"p_run": run.id, "p_dataset": run.dataset_id, "p_limit": limit}
    found = connection.execute(_queued_statement(are_postponed=are_postponed), parameters).mappings()
    return [dict(row) for row in found]


@cache  # the scheduler often runs this statement, and building it takes longer than running it
def _queued_statement(*, are_postponed: bool) -> Executable:
    columns = (dataset_items.c[name] for name in ("row", "custom_id", "line"))
    is_in_dataset = dataset_items.c.dataset_id == bindparam("p_dataset")
    return (
        select(run_items.c.number, run_items.c.job_id, *columns)
        .join_from(run_items, dataset_items, and_(is_in_dataset, dataset_items.c.position == run_items.c.position))
        .where(run_items.c.run_id == bindparam("p_run"), run_items.c.status == "queued")
        .where(run_items.c.errors.is_not(None) if are_postponed else run_items.c.errors.is_(None))
        .order_by(run_items.c.number)
        .limit(bindparam("p_limit", type_=Integer))
    )


def is_row_of(run: RunRecord) -> ColumnElement[bool]:
    return and_(dataset_items.c.dataset_id == run.dataset_id, dataset_items.c.position == run_items.c.position)


def update_item(connection: Connection, run_id: str, number: int, **values: Any) -> bool:
    """Change a queued item. Return False if it is not queued any more."""
    is_item = and_(_is_one_of(run_id, [number]), run_items.c.status == "queued")
    return connection.execute(update(run_items).where(is_item).values(**values)).rowcount == 1


def start_change(run_id: str, number: int, job_id: str) -> Change:
    """Return the change that stores the job of a queued item. The caller has locked the run."""
    return Change(_start_statement(), {"p_item_run": run_id, "p_item_number": number, "p_item_job": job_id})


@cache
def _start_statement() -> Update:
    is_item = and_(run_items.c.run_id == bindparam("p_item_run"), run_items.c.number == bindparam("p_item_number"))
    started = update(run_items).where(is_item, run_items.c.status == "queued")
    started = started.values(status="running", job_id=bindparam("p_item_job"), errors=null())
    return started.returning(run_items.c.number)


def end_change(job_id: str, status: str) -> Change:
    """Return the change that stores the status of an ended job for its item."""
    return Change(_end_statement(), {"p_item_job": job_id, "p_item_status": status})


@cache
def _end_statement() -> Update:
    # An item that succeeded keeps this status, because a failed continuation does not remove the answer
    is_item = and_(run_items.c.job_id == bindparam("p_item_job"), run_items.c.status != "succeeded")
    ended = update(run_items).where(is_item).values(status=bindparam("p_item_status", type_=String))
    return ended.returning(run_items.c.number)


def end_queued(connection: Connection, run_id: str) -> None:
    """Cancel the items that have not been started."""
    connection.execute(update(run_items).where(_is_in(run_id, "queued")).values(status="canceled"))


def requeue_statuses(connection: Connection, run_id: str, statuses: Sequence[str]) -> int:
    """Queue the items with these statuses again. An item keeps its job. Return the number of items."""
    statement = update(run_items).where(_is_in(run_id, *statuses)).values(status="queued", errors=None)
    return connection.execute(statement).rowcount


def requeue(connection: Connection, run_id: str, numbers: Sequence[int]) -> None:
    """Queue these items again."""
    connection.execute(update(run_items).where(_is_one_of(run_id, numbers)).values(status="queued"))


def errors_of_failed(connection: Connection, run_id: str) -> dict[str, int]:
    """Return the number of failed items by error code, most frequent first. Without an error, the code is empty."""
    code = func.coalesce(text_in(connection, jobs.c.error, "code"), "")
    number = func.count()
    query = select(code, number).select_from(run_items.outerjoin(jobs, jobs.c.id == run_items.c.job_id))
    query = query.where(_is_in(run_id, "failed")).group_by(code).order_by(number.desc(), code)
    return dict(connection.execute(query).all())


def rows_of(connection: Connection, run: RunRecord, statuses: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """Return the rows of the first items with these statuses."""
    query = select(dataset_items.c.row).join_from(run_items, dataset_items, is_row_of(run))
    query = query.where(_is_in(run.id, *statuses)).order_by(run_items.c.number).limit(limit)
    return [row for row in connection.scalars(query) if row]


def has_queued(connection: Connection, run_id: str) -> bool:
    return exists(connection, _is_in(run_id, "queued"))


def has_startable(connection: Connection, run_id: str) -> bool:
    """Whether there is a queued item that is not postponed."""
    return exists(connection, _is_in(run_id, "queued"), run_items.c.errors.is_(None))


def still_queued(connection: Connection, run_id: str, numbers: Sequence[int]) -> set[int]:
    return set(connection.scalars(_still_queued_statement(), {"p_run": run_id, "p_numbers": numbers}))


@cache
def _still_queued_statement() -> Executable:
    is_one = run_items.c.number.in_(bindparam("p_numbers", expanding=True))
    is_queued = run_items.c.status == "queued"
    return select(run_items.c.number).where(run_items.c.run_id == bindparam("p_run"), is_one, is_queued)


def count_running(connection: Connection, run_id: str) -> int:
    return query_parts.count(connection, _is_in(run_id, "running"))


@dataclass(frozen=True, slots=True)
class Slots:
    """The number of slots of all live workers, and the numbers of slots that the run and the other runs use."""

    total: int
    of_run: int
    of_other_runs: int


def count_slots(connection: Connection, run: RunRecord, *, alive_within_s: float) -> Slots:
    """Count the slots with one statement. A job that waits for a batch uses no slot."""
    statement = _slots_statement(is_batch=run.delivery == "batch")
    row = fetch(connection, statement, {"p_run": run.id, "p_alive_s": -alive_within_s})
    return Slots(**(row or {}))


@cache
def _slots_statement(*, is_batch: bool) -> Executable:
    run_id = bindparam("p_run", type_=String)
    is_other = and_(runs.c.id == run_items.c.run_id, runs.c.id != run_id, is_active())
    is_running = run_items.c.status == "running"
    in_run = parked_steps.is_working(run_id) if is_batch else and_(run_items.c.run_id == run_id, is_running)
    is_alive = worker_heartbeats.c.seen_at >= DbNow(bindparam("p_alive_s", type_=Float))
    concurrency = select(func.coalesce(func.sum(worker_heartbeats.c.concurrency), 0)).where(is_alive)
    elsewhere = and_(is_other, is_running)
    parked = select(func.count()).where(parked_steps.is_parked_elsewhere(run_id)).scalar_subquery()
    # Counting parked steps can be slow, so they are counted only if another run has running items
    parked = case((select(1).where(elsewhere).exists(), parked), else_=0)
    return select(
        concurrency.scalar_subquery().label("total"),
        select(func.count()).where(in_run).scalar_subquery().label("of_run"),
        (select(func.count()).where(elsewhere).scalar_subquery() - parked).label("of_other_runs"),
    )


def jobs_of_stopped_run(connection: Connection, run_id: str) -> list[tuple[str, int]]:
    """Return the unended jobs of a run with their numbers of continuations. Return nothing for a run that is running.

    One statement reads all, so that no job is returned that a concurrent resume has just started.
    """
    joined = run_items.join(runs, runs.c.id == run_items.c.run_id).join(jobs, jobs.c.id == run_items.c.job_id)
    query = select(jobs.c.id, jobs.c.continuations).select_from(joined)
    found = connection.execute(query.where(_is_in(run_id, "running"), runs.c.status != "running"))
    return [(job_id, continuations) for job_id, continuations in found]


def postpone(
    connection: Connection, run_id: str, errors: list[dict[str, Any]], numbers: Sequence[int] | None = None
) -> int:
    """Store why queued items could not be started: all queued items of a run, or the items with these numbers.

    Items that are already postponed keep their reason. Returns the number of newly postponed items.
    """
    chosen = and_(_is_in(run_id, "queued"), run_items.c.errors.is_(None))
    if numbers is not None:
        chosen = and_(chosen, run_items.c.number.in_(numbers))
    return connection.execute(update(run_items).where(chosen).values(errors=errors)).rowcount


def cancel_postponed(connection: Connection, run_id: str, since: datetime) -> int:
    """Cancel the items that were postponed before `since`. Return their number. A resumed run starts them again."""
    query = select(run_items.c.number, run_items.c.errors).where(_is_postponed(run_id, "queued"))
    late = [number for number, errors in connection.execute(query) if _since(errors) <= since]
    if late:
        connection.execute(update(run_items).where(_is_one_of(run_id, late)).values(status="canceled"))
    return len(late)


def _since(errors: list[dict[str, Any]]) -> datetime:
    return datetime.fromisoformat(errors[0]["since"])


def has_canceled_postponed(connection: Connection, run_id: str) -> bool:
    return exists(connection, _is_postponed(run_id, "canceled"))


def first_postponement(connection: Connection, run_id: str) -> tuple[dict[str, Any], int] | None:
    """Return the reason of the first postponed item, and the number of postponed items.

    This includes the items that were canceled because they stayed postponed for too long.
    """
    is_postponed = _is_postponed(run_id, "queued", "canceled")
    errors = connection.scalar(select(run_items.c.errors).where(is_postponed).order_by(run_items.c.number).limit(1))
    return None if errors is None else (errors[0], query_parts.count(connection, is_postponed))


def _is_postponed(run_id: str, *statuses: str) -> ColumnElement[bool]:
    return and_(_is_in(run_id, *statuses), run_items.c.errors.is_not(None))


def list_items(
    connection: Connection,
    run: RunRecord,
    *,
    after: int = 0,
    limit: int = _PAGE,
    statuses: Sequence[str] = (),
    with_texts: bool = False,
) -> list[dict[str, Any]]:
    """Return items after a number, in order, with columns of their rows and jobs.

    `with_texts`: also with the result and the request of the job, or with the row of an item without a job.
    """
    own_row = case((jobs.c.id.is_(None), dataset_items.c.row)).label("row")
    texts = (jobs.c.result, jobs.c.request, own_row, dataset_items.c.told) if with_texts else ()
    named = ((run_items, _ITEM), (jobs, _JOB), (dataset_items, _ROW))
    facts = (table.c[name] for table, names in named for name in names)
    query = select_items(run, *facts, is_accepted(connection).label("is_accepted"), *texts)
    query = query.where(run_items.c.number > after, *([run_items.c.status.in_(statuses)] if statuses else []))
    return fetch_all(connection, query.limit(limit))


def select_items(run: RunRecord, *columns: ColumnElement[Any]) -> Select[Any]:
    """Return a query for these columns of a run's items, with their rows and jobs, in the order of the items."""
    joined = run_items.join(dataset_items, is_row_of(run)).outerjoin(jobs, jobs.c.id == run_items.c.job_id)
    return select(*columns).select_from(joined).where(run_items.c.run_id == run.id).order_by(run_items.c.number)


def list_iterations(connection: Connection, run_id: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return for each iteration of these items its scores in the loop and in the audit, and whether it passed."""
    in_loop, in_audit = evaluations.c.role == "loop", evaluations.c.role == "audit"
    query = (
        select(
            run_items.c.number.label("item"),
            iterations.c.number,
            func.max(case((in_loop, evaluations.c.score))).label("score"),
            func.max(case((in_loop & evaluations.c.passed, 1), else_=0)).label("passed"),
            func.max(case((in_audit, evaluations.c.score))).label("audit_score"),
            func.max(case((in_audit & evaluations.c.passed, 1), (in_audit, 0))).label("audit_passed"),
        )
        .join_from(run_items, iterations, iterations.c.job_id == run_items.c.job_id)
        .outerjoin(evaluations, evaluations.c.iteration_id == iterations.c.id)
        .where(_is_one_of(run_id, numbers))
        .group_by(run_items.c.number, iterations.c.number)
        .order_by(run_items.c.number, iterations.c.number)
    )
    return fetch_all(connection, query)


def list_verdicts(connection: Connection, run_id: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the verdicts of the loop on the best iteration of each of these items, in order."""
    is_best = and_(iterations.c.job_id == jobs.c.id, iterations.c.number == jobs.c.best_iteration)
    in_loop = and_(evaluations.c.iteration_id == iterations.c.id, evaluations.c.role == "loop")
    names = ("score", "requirements_met", "reasoning", "suggestions")
    query = (
        select(run_items.c.number.label("item"), *(evaluations.c[name] for name in names))
        .join_from(run_items, jobs, jobs.c.id == run_items.c.job_id)
        .join(iterations, is_best)
        .join(evaluations, in_loop)
        .where(_is_one_of(run_id, numbers), evaluations.c.score.is_not(None))
        .order_by(run_items.c.number, iterations.c.candidate)
    )
    return fetch_all(connection, query)


def list_criteria(connection: Connection, run_id: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the loop's verdicts that have criteria, on the first and the best iteration of each of these items."""
    is_read = and_(iterations.c.job_id == jobs.c.id, iterations.c.number.in_((1, jobs.c.best_iteration)))
    in_loop = and_(evaluations.c.iteration_id == iterations.c.id, evaluations.c.role == "loop")
    names = ("score", "requirements_met", "criteria")
    query = (
        select(run_items.c.number.label("item"), iterations.c.number, *(evaluations.c[name] for name in names))
        .join_from(run_items, jobs, jobs.c.id == run_items.c.job_id)
        .join(iterations, is_read)
        .join(evaluations, in_loop)
        .where(_is_one_of(run_id, numbers), evaluations.c.score.is_not(None), evaluations.c.criteria.is_not(None))
        .order_by(run_items.c.number, iterations.c.number, iterations.c.candidate)
    )
    return fetch_all(connection, query)


def list_costs(connection: Connection, run_id: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return calls and cost of each iteration of these items, in order. `unpriced` counts calls with unknown cost."""
    tokens = func.coalesce(calls.c.input_tokens, 0) + func.coalesce(calls.c.output_tokens, 0)
    query = (
        select(
            run_items.c.number.label("item"),
            calls.c.iteration,
            func.coalesce(func.sum(calls.c.cost_nano_usd), 0).label("cost"),
            func.count().filter(calls.c.cost_nano_usd.is_(None)).label("unpriced"),
            func.count().label("calls"),
            func.sum(tokens).label("tokens"),
            func.coalesce(func.sum(calls.c.latency_ms), 0).label("ms"),
        )
        .join_from(run_items, calls, calls.c.job_id == run_items.c.job_id)
        .where(_is_one_of(run_id, numbers))
        .group_by(run_items.c.number, calls.c.iteration)
        .order_by(run_items.c.number, calls.c.iteration)
    )
    return fetch_all(connection, query)
