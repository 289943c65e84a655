"""The latest evaluations, for a person to rate, and the job and iteration of one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, Select, cast, func, select

from redraft.storage.engine.columns import text_in
from redraft.storage.engine.query_parts import fetch_all, fetch_one
from redraft.storage.engine.tables import evaluations, iterations, jobs, ratings

LOOKBACK = 300
_TASK_CHARS = 300


@dataclass(frozen=True, slots=True)
class Waiting:
    """One evaluation, with the values that decide its position in the queue."""

    evaluation_id: str
    iteration_id: str
    job_id: str
    number: int
    candidate: int
    role: str
    score: float
    passed: bool
    disagreement: float | None
    threshold: float


def latest(connection: Connection) -> list[Waiting]:
    """The newest `LOOKBACK` evaluations, without errors."""
    # Ids grow with time, so the primary key gives the order
    newest = select(evaluations.c.id).order_by(evaluations.c.id.desc()).limit(LOOKBACK).subquery()
    query = (
        select(
            evaluations.c.id.label("evaluation_id"),
            evaluations.c.iteration_id,
            evaluations.c.job_id,
            iterations.c.number,
            iterations.c.candidate,
            evaluations.c.role,
            evaluations.c.score,
            evaluations.c.passed,
            evaluations.c.disagreement,
            cast(text_in(connection, jobs.c.request, "score_threshold"), Float).label("threshold"),
        )
        .join(newest, newest.c.id == evaluations.c.id)
        .join(iterations, iterations.c.id == evaluations.c.iteration_id)
        .join(jobs, jobs.c.id == evaluations.c.job_id)
        .where(evaluations.c.status == "ok", evaluations.c.evaluator_model.is_not(None))
        .order_by(evaluations.c.id.desc())
    )
    return [Waiting(**row) for row in fetch_all(connection, query)]


def rated_of(connection: Connection, evaluation_ids: Sequence[str], rater: str) -> set[str]:
    """Those of these evaluations that this person has rated as a whole."""
    query = select(ratings.c.evaluation_id).where(
        ratings.c.evaluation_id.in_(evaluation_ids), ratings.c.rater == rater, ratings.c.criterion_id.is_(None)
    )
    return set(connection.scalars(query))


def tasks_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, str]:
    """The beginnings of the jobs' instructions."""
    task = func.substr(text_in(connection, jobs.c.request, "instruct"), 1, _TASK_CHARS)
    query = select(jobs.c.id, task).where(jobs.c.id.in_(job_ids))
    return dict(connection.execute(query).all())


def place_of(connection: Connection, evaluation_id: str) -> Mapping[str, Any] | None:
    """The job, the iteration and the verdict of an evaluation."""
    return fetch_one(connection, _select_place(evaluation_id))


def last_word(connection: Connection, evaluation_id: str, rater: str) -> Mapping[str, Any] | None:
    """The same with the latest rating of this person; None if there is none."""
    query = (
        _select_place(evaluation_id)
        .add_columns(ratings.c.verdict, ratings.c.score.label("own_score"))
        .join(ratings, ratings.c.evaluation_id == evaluations.c.id)
        .where(ratings.c.rater == rater, ratings.c.criterion_id.is_(None))
        .order_by(ratings.c.created_at.desc(), ratings.c.id.desc())
        .limit(1)
    )
    return fetch_one(connection, query)


def _select_place(evaluation_id: str) -> Select[Any]:
    columns = (evaluations.c[name] for name in ("id", "job_id", "score", "passed", "status"))
    query = select(*columns, iterations.c.number).select_from(evaluations)
    return query.join(iterations, iterations.c.id == evaluations.c.iteration_id).where(
        evaluations.c.id == evaluation_id
    )
