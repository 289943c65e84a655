"""Ratings of evaluations by people. They are never changed; the latest one of each rater counts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Executable, Subquery, and_, case, func, insert, or_, select

from redraft.storage.engine.query_parts import fetch_all, is_between, matches
from redraft.storage.engine.tables import evaluations, iterations, jobs, ratings

_ROWS_AT_ONCE = 500
_OWN = ("id", "job_id", "evaluation_id", "criterion_id", "verdict", "score", "note", "rater", "created_at")


@dataclass(frozen=True, slots=True)
class RatingRecord:
    """One row of `ratings`, with the place of the rated answer."""

    id: str
    job_id: str
    iteration: int
    candidate: int
    evaluation_id: str
    role: str
    criterion_id: str | None
    verdict: str
    score: float | None
    note: str
    rater: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RatedEvaluation:
    """One evaluation of a candidate; its fields are None if the candidate was not evaluated.

    `is_own`: it is the evaluation by which the job decided.
    """

    candidate: int
    evaluation_id: str | None
    role: str | None
    is_own: bool
    status: str | None
    score: float | None
    criteria: list[dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class RatingFilter:
    """The filter of ratings; None: all."""

    evaluator_model: str | None = None
    profile: str | None = None
    profile_version: str | None = None
    criterion: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def hold_evaluations(connection: Connection, job_id: str, number: int) -> list[RatedEvaluation]:
    """The candidates of an iteration with all their evaluations, the job's own first.

    The jobs are locked until the unit of work ends, so that none of this is deleted meanwhile. A job that rescores the
    answers of another job has only its own evaluations.
    """
    answering = jobs.alias("writer")
    is_rescoring = jobs.c.rescored_job_id.is_not(None)
    rateable = and_(
        evaluations.c.iteration_id == iterations.c.id, or_(~is_rescoring, evaluations.c.job_id == jobs.c.id)
    )
    is_own = or_(is_rescoring, func.coalesce(evaluations.c.role, "loop") == "loop")
    query = (
        select(
            iterations.c.candidate,
            evaluations.c.id,
            evaluations.c.role,
            is_own.label("is_own"),
            evaluations.c.status,
            evaluations.c.score,
            evaluations.c.criteria,
        )
        .select_from(jobs.join(answering, answering.c.id == func.coalesce(jobs.c.rescored_job_id, jobs.c.id)))
        .join(iterations, iterations.c.job_id == answering.c.id)
        .outerjoin(evaluations, rateable)
        .where(jobs.c.id == job_id, iterations.c.number == number)
        .order_by(iterations.c.candidate, is_own.desc(), evaluations.c.created_at, evaluations.c.id)
        .with_for_update(read=True, key_share=True, of=[jobs, answering])
    )
    return [RatedEvaluation(*row) for row in connection.execute(query)]


def add(connection: Connection, values: Mapping[str, Any]) -> datetime:
    """Store a rating; returns its time."""
    return connection.execute(insert(ratings).values(**values).returning(ratings.c.created_at)).scalar_one()


def of_job(connection: Connection, job_id: str) -> list[RatingRecord]:
    """All ratings of a job, oldest first."""
    query = (
        select(
            *(ratings.c[name] for name in _OWN),
            evaluations.c.role,
            iterations.c.number.label("iteration"),
            iterations.c.candidate,
        )
        .join(evaluations, evaluations.c.id == ratings.c.evaluation_id)
        .join(iterations, iterations.c.id == evaluations.c.iteration_id)
        .where(ratings.c.job_id == job_id)
        .order_by(ratings.c.created_at, ratings.c.id)
    )
    return [RatingRecord(**row) for row in fetch_all(connection, query)]


def stream_counting(connection: Connection, criteria: RatingFilter) -> Iterator[Mapping[Any, Any]]:
    """The ratings that count, each with the rated verdict, ordered by evaluator, profile and criterion.

    Some hundred rows are in memory at a time.
    """
    streamed = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(select_counting(criteria))
    yield from streamed.mappings()


def select_counting(criteria: RatingFilter) -> Executable:
    latest = _latest(criteria)
    of_criterion = latest.c.criterion_id.is_not(None)
    kind = (evaluations.c.evaluator_model, evaluations.c.profile, evaluations.c.profile_version, latest.c.criterion_id)
    return (
        select(
            *kind,
            latest.c.verdict,
            latest.c.score.label("own_score"),
            evaluations.c.passed,
            evaluations.c.score,
            case((of_criterion, evaluations.c.criteria)).label("criteria"),
        )
        .join(evaluations, evaluations.c.id == latest.c.evaluation_id)
        # An evaluation in code has no evaluator to calibrate
        .where(latest.c.rank == 1, evaluations.c.evaluator_model.is_not(None))
        .where(*matches(evaluations, criteria, ("evaluator_model", "profile", "profile_version")))
        .order_by(*kind)
    )


def _latest(criteria: RatingFilter) -> Subquery:
    """The ratings that match the filter; rank 1 is the latest one of a rater for an evaluation or criterion."""
    rank = (
        func.row_number()
        .over(
            partition_by=(ratings.c.evaluation_id, ratings.c.criterion_id, ratings.c.rater),
            order_by=(ratings.c.created_at.desc(), ratings.c.id.desc()),
        )
        .label("rank")
    )
    columns = (ratings.c.evaluation_id, ratings.c.criterion_id, ratings.c.verdict, ratings.c.score)
    wanted = is_between(ratings.c.created_at, criteria.created_after, criteria.created_before)
    if criteria.criterion is not None:
        wanted.append(ratings.c.criterion_id == criteria.criterion)
    return select(*columns, rank).where(*wanted).subquery("latest")
