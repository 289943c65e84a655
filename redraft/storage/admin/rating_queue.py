"""The latest evaluations that a person has not rated yet, and where one of them belongs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, cast, func, select

from redraft.storage.engine.columns import text_in
from redraft.storage.engine.tables import evaluations, iterations, jobs, ratings

LOOKBACK = 300
_TASK_CHARS = 300
_PLACE = (*(evaluations.c[name] for name in ("id", "job_id", "score", "passed", "status")), iterations.c.number)
_TO_PLACE = (evaluations, iterations, iterations.c.id == evaluations.c.iteration_id)


@dataclass(frozen=True, slots=True)
class Waiting:
    """One evaluation: what its queue is ordered by."""

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
    """The newest `LOOKBACK` evaluations, without those that are errors; ids sort by age."""
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
    return [Waiting(**row) for row in connection.execute(query).mappings()]


def rated_of(connection: Connection, evaluation_ids: Sequence[str], rater: str) -> set[str]:
    """Those of which this person has said something as a whole."""
    query = select(ratings.c.evaluation_id).where(
        ratings.c.evaluation_id.in_(evaluation_ids), ratings.c.rater == rater, ratings.c.criterion_id.is_(None)
    )
    return set(connection.scalars(query))


def tasks_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, str]:
    """The beginnings of the jobs' instructions."""
    task = func.substr(text_in(connection, jobs.c.request, "instruct"), 1, _TASK_CHARS)
    query = select(jobs.c.id, task).where(jobs.c.id.in_(job_ids))
    return {row[0]: row[1] for row in connection.execute(query)}


def place_of(connection: Connection, evaluation_id: str) -> Mapping[str, Any] | None:
    """The job and the iteration of an evaluation, and its verdict."""
    query = select(*_PLACE).join_from(*_TO_PLACE).where(evaluations.c.id == evaluation_id)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def last_word(connection: Connection, evaluation_id: str, rater: str) -> Mapping[str, Any] | None:
    """The same, with what this person said of it last; None when nothing."""
    query = (
        select(*_PLACE, ratings.c.verdict, ratings.c.score.label("own_score"))
        .join_from(*_TO_PLACE)
        .join(ratings, ratings.c.evaluation_id == evaluations.c.id)
        .where(evaluations.c.id == evaluation_id, ratings.c.rater == rater, ratings.c.criterion_id.is_(None))
        .order_by(ratings.c.created_at.desc(), ratings.c.id.desc())
        .limit(1)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)
