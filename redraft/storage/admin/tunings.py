"""Stores the tunings of evaluators. Finds the tuning in use, and the ratings from which a tuning is drafted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, bindparam, insert, select, update

from redraft.storage.admin.ratings import counting_ratings
from redraft.storage.engine.admin_tables import evaluator_tunings as tunings
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import fetch_all, fetch_one
from redraft.storage.engine.statements import fetch
from redraft.storage.engine.tables import evaluations, iterations, jobs


@dataclass(frozen=True, slots=True)
class TuningRecord:
    id: str
    evaluator_model: str
    profile: str
    examples: list[dict[str, Any]]
    score_threshold: float | None
    validates: str | None
    run_id: str | None
    agreement: dict[str, Any] | None
    created_at: datetime
    adopted_at: datetime | None
    reverted_at: datetime | None


def add(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    connection.execute(insert(tunings), list(rows))


def get(connection: Connection, tuning_id: str) -> TuningRecord | None:
    row = fetch_one(connection, select(tunings).where(tunings.c.id == tuning_id))
    return None if row is None else TuningRecord(**row)


def adopted(connection: Connection, evaluator_model: str, profile: str) -> TuningRecord | None:
    """Return the tuning in use: the latest adopted tuning that was not reverted."""
    row = fetch(connection, _adopted_statement(), {"p_model": evaluator_model, "p_profile": profile})
    return None if row is None else TuningRecord(**row)


@cache  # each submission of a job runs this statement
def _adopted_statement() -> Executable:
    query = select(tunings).where(
        tunings.c.evaluator_model == bindparam("p_model"),
        tunings.c.profile == bindparam("p_profile"),
        tunings.c.adopted_at.is_not(None),
        tunings.c.reverted_at.is_(None),
    )
    return query.order_by(tunings.c.adopted_at.desc(), tunings.c.id.desc()).limit(1)


def list_newest(connection: Connection, limit: int) -> list[TuningRecord]:
    """Return the newest tunings, without the tunings of the folds, which only validate other tunings."""
    query = select(tunings).where(tunings.c.validates.is_(None)).order_by(tunings.c.created_at.desc(), tunings.c.id)
    return [TuningRecord(**row) for row in fetch_all(connection, query.limit(limit))]


def set_run(connection: Connection, tuning_id: str, run_id: str) -> None:
    connection.execute(update(tunings).where(tunings.c.id == tuning_id).values(run_id=run_id))


def adopt(connection: Connection, tuning_id: str) -> None:
    values = {"adopted_at": DbNow(), "reverted_at": None}
    connection.execute(update(tunings).where(tunings.c.id == tuning_id).values(**values))


def revert(connection: Connection, tuning_id: str) -> None:
    connection.execute(update(tunings).where(tunings.c.id == tuning_id).values(reverted_at=DbNow()))


def list_rated(connection: Connection, evaluator_model: str, profile: str, *, limit: int) -> list[dict[str, Any]]:
    """Return each rater's latest rating of an evaluation as a whole, with the answer and the request.

    A rater whose latest rating is `unsure` is left out.
    """
    latest = counting_ratings()
    query = (
        select(
            evaluations.c.id.label("evaluation_id"),
            iterations.c.answer,
            jobs.c.request,
            latest.c.verdict,
            latest.c.note,
            evaluations.c.passed,
            evaluations.c.score,
        )
        .join(evaluations, evaluations.c.id == latest.c.evaluation_id)
        .join(iterations, iterations.c.id == evaluations.c.iteration_id)
        .join(jobs, jobs.c.id == evaluations.c.job_id)
        .where(latest.c.criterion_id.is_(None), latest.c.verdict != "unsure", latest.c.rank == 1)
        .where(evaluations.c.evaluator_model == evaluator_model, evaluations.c.profile == profile)
        .where(evaluations.c.status == "ok", evaluations.c.score.is_not(None))
        .order_by(evaluations.c.id.desc())
        .limit(limit)
    )
    return fetch_all(connection, query)
