"""Items of runs: the rows of a dataset, with their repeats, and the job of each."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    and_,
    case,
    func,
    select,
    update,
)

from redraft.storage.bulk.runs import RunRecord, is_active
from redraft.storage.engine.bulk_tables import dataset_items, run_items, runs
from redraft.storage.engine.tables import calls, evaluations, iterations, jobs
from redraft.storage.jobs.jobs import is_accepted

_PAGE = 200


DONE = ("succeeded", "failed")
"""What an item comes to by its job: without one, the job was deleted."""


def count(connection: Connection, run_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """How many items of each run are in each status: one statement, so that they add up."""
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
    """How many items of each status have ended and lost their jobs."""
    query = (
        select(run_items.c.status, func.count())
        .where(run_items.c.run_id == run_id, run_items.c.status.in_(DONE), run_items.c.job_id.is_(None))
        .group_by(run_items.c.status)
    )
    return {row.status: row[1] for row in connection.execute(query)}


def list_exhausted(connection: Connection, run_id: str, limit: int | None = None) -> list[tuple[int, dict[str, Any]]]:
    """The items that ended for want of a budget, each with its job's limits."""
    query = (
        select(run_items.c.number, jobs.c.request)
        .join_from(run_items, jobs, jobs.c.id == run_items.c.job_id)
        .where(run_items.c.run_id == run_id, run_items.c.status.in_(("succeeded", "failed")))
        .where(jobs.c.stop_reason == "budget_exhausted")
        .limit(limit)
    )
    return [(number, request["limits"]) for number, request in connection.execute(query)]


def take_queued(connection: Connection, run: RunRecord, limit: int, *, put_off: bool = False) -> list[dict[str, Any]]:
    """The next items to start, each with its row: those that were put off, or the others."""
    its_row = and_(dataset_items.c.dataset_id == run.dataset_id, dataset_items.c.position == run_items.c.position)
    query = (
        select(
            run_items.c.number, run_items.c.job_id, dataset_items.c.row, dataset_items.c.custom_id, dataset_items.c.line
        )
        .join_from(run_items, dataset_items, its_row)
        .where(run_items.c.run_id == run.id, run_items.c.status == "queued")
        .where(run_items.c.errors.is_not(None) if put_off else run_items.c.errors.is_(None))
        .order_by(run_items.c.number)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def move_item(connection: Connection, run_id: str, number: int, **values: Any) -> None:
    its_own = and_(run_items.c.run_id == run_id, run_items.c.number == number)
    connection.execute(update(run_items).where(its_own).values(**values))


def end_item(connection: Connection, job_id: str, status: str) -> None:
    """The item that this job is has come to its end; what a continuation of it comes to takes no success away."""
    its_own = and_(run_items.c.job_id == job_id, run_items.c.status != "succeeded")
    connection.execute(update(run_items).where(its_own).values(status=status))


def end_queued(connection: Connection, run_id: str) -> None:
    """Nothing more is started."""
    waiting = and_(run_items.c.run_id == run_id, run_items.c.status == "queued")
    connection.execute(update(run_items).where(waiting).values(status="canceled"))


def reopen_items(connection: Connection, run_id: str, statuses: Sequence[str]) -> int:
    """Items of these statuses are to be taken up again, each with its job if it has one; how many."""
    chosen = and_(run_items.c.run_id == run_id, run_items.c.status.in_(statuses))
    statement = update(run_items).where(chosen).values(status="queued", errors=None)
    return connection.execute(statement).rowcount


def reopen(connection: Connection, run_id: str, numbers: Sequence[int]) -> None:
    """These items are to be taken up again."""
    chosen = and_(run_items.c.run_id == run_id, run_items.c.number.in_(numbers))
    connection.execute(update(run_items).where(chosen).values(status="queued"))


def has_queued(connection: Connection, run_id: str) -> bool:
    query = select(run_items.c.number).where(run_items.c.run_id == run_id, run_items.c.status == "queued").limit(1)
    return connection.scalar(query) is not None


def still_queued(connection: Connection, run_id: str, numbers: Sequence[int]) -> set[int]:
    query = select(run_items.c.number).where(
        run_items.c.run_id == run_id, run_items.c.number.in_(numbers), run_items.c.status == "queued"
    )
    return set(connection.scalars(query))


def count_running(connection: Connection, run_id: str) -> int:
    query = select(func.count()).where(run_items.c.run_id == run_id, run_items.c.status == "running")
    return connection.scalar(query) or 0


def count_running_beside(connection: Connection, run_id: str) -> int:
    """How many items of other active runs are under way."""
    query = (
        select(func.count())
        .select_from(run_items.join(runs, runs.c.id == run_items.c.run_id))
        .where(is_active(), run_items.c.status == "running", runs.c.id != run_id)
    )
    return connection.scalar(query) or 0


def running_jobs(connection: Connection, run_id: str) -> list[str]:
    query = select(run_items.c.job_id).where(run_items.c.run_id == run_id, run_items.c.status == "running")
    return [job_id for job_id in connection.scalars(query) if job_id]


_ITEM = ("number", "position", "repeat", "status", "job_id", "errors")


_JOB = (
    *("stop_reason", "best_score", "best_iteration", "iteration", "model", "evaluator_model", "error", "calls"),
    *("input_tokens", "output_tokens", "cost_nano_usd", "unpriced_calls", "started_at", "finished_at"),
)


_ROW = ("custom_id", "line", "human_score", "human_pass")


def list_items(
    connection: Connection,
    run: RunRecord,
    *,
    after: int = 0,
    limit: int = _PAGE,
    statuses: Sequence[str] = (),
    with_texts: bool = False,
) -> list[dict[str, Any]]:
    """Items beyond a number, in order, with their rows' and jobs' facts; `with_texts`: with result, request and row."""
    query = _select_items(connection, run, with_texts=with_texts).where(run_items.c.number > after)
    if statuses:
        query = query.where(run_items.c.status.in_(statuses))
    return [dict(row) for row in connection.execute(query.limit(limit)).mappings()]


def _select_items(connection: Connection, run: RunRecord, *, with_texts: bool) -> Select[Any]:
    its_row = and_(dataset_items.c.dataset_id == run.dataset_id, dataset_items.c.position == run_items.c.position)
    # What a row says is asked for where no job tells what became of it
    own_row = case((jobs.c.id.is_(None), dataset_items.c.row)).label("row")
    texts = (jobs.c.result, jobs.c.request, own_row, dataset_items.c.told) if with_texts else ()
    return (
        select(
            *(run_items.c[name] for name in _ITEM),
            *(jobs.c[name] for name in _JOB),
            *(dataset_items.c[name] for name in _ROW),
            is_accepted(connection).label("is_accepted"),
            *texts,
        )
        .select_from(run_items.join(dataset_items, its_row).outerjoin(jobs, jobs.c.id == run_items.c.job_id))
        .where(run_items.c.run_id == run.id)
        .order_by(run_items.c.number)
    )


def list_iterations(connection: Connection, run_id: str, numbers: Sequence[int]) -> list[Mapping[Any, Any]]:
    """What each iteration of these items scored, in order: by the loop and by the audit, and whether it passed."""
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
        .where(run_items.c.run_id == run_id, run_items.c.number.in_(numbers))
        .group_by(run_items.c.number, iterations.c.number)
        .order_by(run_items.c.number, iterations.c.number)
    )
    return list(connection.execute(query).mappings())


def list_verdicts(connection: Connection, run_id: str, numbers: Sequence[int]) -> list[Mapping[Any, Any]]:
    """What the loop's judge said of the answers of these items' best iterations, in order."""
    is_best = and_(iterations.c.job_id == jobs.c.id, iterations.c.number == jobs.c.best_iteration)
    in_loop = and_(evaluations.c.iteration_id == iterations.c.id, evaluations.c.role == "loop")
    names = ("score", "requirements_met", "reasoning", "suggestions")
    query = (
        select(run_items.c.number.label("item"), *(evaluations.c[name] for name in names))
        .select_from(
            run_items.join(jobs, jobs.c.id == run_items.c.job_id).join(iterations, is_best).join(evaluations, in_loop)
        )
        .where(run_items.c.run_id == run_id, run_items.c.number.in_(numbers), evaluations.c.score.is_not(None))
        .order_by(run_items.c.number, iterations.c.candidate)
    )
    return list(connection.execute(query).mappings())


def list_costs(connection: Connection, run_id: str, numbers: Sequence[int]) -> list[Mapping[Any, Any]]:
    """What each iteration of these items cost, in order; `unpriced`: of how many calls nobody knows."""
    query = (
        select(
            run_items.c.number.label("item"),
            calls.c.iteration,
            func.coalesce(func.sum(calls.c.cost_nano_usd), 0).label("cost"),
            func.sum(case((calls.c.cost_nano_usd.is_(None), 1), else_=0)).label("unpriced"),
        )
        .join_from(run_items, calls, calls.c.job_id == run_items.c.job_id)
        .where(run_items.c.run_id == run_id, run_items.c.number.in_(numbers))
        .group_by(run_items.c.number, calls.c.iteration)
        .order_by(run_items.c.number, calls.c.iteration)
    )
    return list(connection.execute(query).mappings())
