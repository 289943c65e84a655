"""Stores and reads ratings of evaluations by people, and reads the evaluations that may need a rating.

Ratings are never changed. The latest rating of each rater counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Float,
    Select,
    Subquery,
    and_,
    case,
    cast,
    func,
    insert,
    or_,
    select,
)

from redraft.storage.engine.bulk_tables import run_items
from redraft.storage.engine.columns import text_in
from redraft.storage.engine.query_parts import fetch_all, fetch_one, is_between, matches
from redraft.storage.engine.tables import evaluations, iterations, jobs, ratings
from redraft.storage.jobs.job_filters import JobFilter, positions

LOOKBACK = 300
_TASK_CHARS = 300
_ROWS_AT_ONCE = 500
_OWN = ("id", "job_id", "evaluation_id", "criterion_id", "verdict", "score", "note", "rater", "created_at")


@dataclass(frozen=True, slots=True)
class RatingRecord:
    """One row of `ratings`, with iteration and candidate of the rated answer."""

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
    """One evaluation of a candidate. Its fields are None if the candidate was not evaluated.

    `is_own`: whether the job used this evaluation to decide how it continues. It does not use an audit for this.
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
    """The filter of ratings. A field that is None matches all ratings."""

    evaluator_model: str | None = None
    profile: str | None = None
    profile_version: str | None = None
    criterion: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def lock_evaluations(connection: Connection, job_id: str, number: int) -> list[RatedEvaluation]:
    """Return the candidates of an iteration with all their evaluations, the job's own evaluations first.

    If the job rescores another job, only the evaluations by the rescoring are returned. The jobs are locked until the
    unit of work ends, so that no row is deleted before then.
    """
    answering = jobs.alias("answering")
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
    """Store a rating. Return its time of creation."""
    return connection.execute(insert(ratings).values(**values).returning(ratings.c.created_at)).scalar_one()


def of_job(connection: Connection, job_id: str) -> list[RatingRecord]:
    """Return all ratings of a job, oldest first."""
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
    """Yield the ratings that count, each with its verdict, ordered by evaluator, profile and criterion.

    Only a few hundred rows are in memory at a time.
    """
    streamed = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(select_counting(criteria))
    yield from streamed.mappings()


def select_counting(criteria: RatingFilter) -> Executable:
    latest = counting_ratings(criteria)
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
        # An evaluation without a model has no evaluator to calibrate
        .where(latest.c.rank == 1, evaluations.c.evaluator_model.is_not(None))
        .where(*matches(evaluations, criteria, ("evaluator_model", "profile", "profile_version")))
        .order_by(*kind)
    )


def count_of_run(connection: Connection, run_id: str) -> dict[str, int]:
    """Count each rater's latest rating of an evaluation as a whole, by verdict, over the jobs of a run."""
    job_ids = select(run_items.c.job_id).where(run_items.c.run_id == run_id)
    latest = counting_ratings(RatingFilter(), ratings.c.job_id.in_(job_ids))
    query = select(latest.c.verdict, func.count()).where(latest.c.rank == 1, latest.c.criterion_id.is_(None))
    return dict(connection.execute(query.group_by(latest.c.verdict)).all())


def counting_ratings(criteria: RatingFilter = RatingFilter(), *conditions: ColumnElement[bool]) -> Subquery:
    """Return the ratings that match the filter and the conditions.

    Rank 1 is a rater's latest rating of an evaluation or a criterion.
    """
    rank = (
        func.row_number()
        .over(
            partition_by=(ratings.c.evaluation_id, ratings.c.criterion_id, ratings.c.rater),
            order_by=(ratings.c.created_at.desc(), ratings.c.id.desc()),
        )
        .label("rank")
    )
    names = ("evaluation_id", "criterion_id", "verdict", "score", "note")
    columns = (ratings.c[name] for name in names)
    wanted = is_between(ratings.c.created_at, criteria.created_after, criteria.created_before)
    if criteria.criterion is not None:
        wanted.append(ratings.c.criterion_id == criteria.criterion)
    return select(*columns, rank).where(*wanted, *conditions).subquery("latest")


@dataclass(frozen=True, slots=True)
class ReviewCandidate:
    """One evaluation, with the values that decide its position in the review queue."""

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


def latest_evaluations(connection: Connection, criteria: JobFilter | None = None) -> list[ReviewCandidate]:
    """Return the newest evaluations by models, without failed ones. At most `LOOKBACK` rows are read.

    With a filter, only evaluations of the newest `LOOKBACK` evaluated jobs that match it are returned.
    """
    # Ids grow with time, so the primary key gives the order
    newest_ids = select(evaluations.c.id).order_by(evaluations.c.id.desc()).limit(LOOKBACK)
    if criteria is not None:
        # The jobs are selected first, because the newest evaluations may all be of jobs that do not match. An index has
        # the jobs in order
        newest_jobs = positions(connection, replace(criteria, is_scored=True, limit=LOOKBACK))
        newest_ids = newest_ids.where(evaluations.c.job_id.in_([job_id for _, job_id in newest_jobs]))
    newest = newest_ids.subquery()
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
    return [ReviewCandidate(**row) for row in fetch_all(connection, query)]


def rated_ids(connection: Connection, evaluation_ids: Sequence[str], rater: str) -> set[str]:
    """Return the ids of the evaluations that this rater has rated as a whole."""
    query = select(ratings.c.evaluation_id).where(
        ratings.c.evaluation_id.in_(evaluation_ids), ratings.c.rater == rater, ratings.c.criterion_id.is_(None)
    )
    return set(connection.scalars(query))


def tasks_of(connection: Connection, job_ids: Sequence[str]) -> dict[str, str]:
    """Return the beginning of each job's instruction, by job id."""
    task = func.substr(text_in(connection, jobs.c.request, "instruct"), 1, _TASK_CHARS)
    query = select(jobs.c.id, task).where(jobs.c.id.in_(job_ids))
    return dict(connection.execute(query).all())


def rated_answer(connection: Connection, evaluation_id: str) -> Mapping[str, Any] | None:
    """Return the job, the iteration and the verdict of an evaluation, or None."""
    return fetch_one(connection, _select_rated_answer(evaluation_id))


def latest_rating(connection: Connection, evaluation_id: str, rater: str) -> Mapping[str, Any] | None:
    """Return the result of `rated_answer` with the latest rating by this rater, or None if there is no such rating."""
    query = (
        _select_rated_answer(evaluation_id)
        .add_columns(ratings.c.verdict, ratings.c.score.label("own_score"))
        .join(ratings, ratings.c.evaluation_id == evaluations.c.id)
        .where(ratings.c.rater == rater, ratings.c.criterion_id.is_(None))
        .order_by(ratings.c.created_at.desc(), ratings.c.id.desc())
        .limit(1)
    )
    return fetch_one(connection, query)


def _select_rated_answer(evaluation_id: str) -> Select[Any]:
    columns = (evaluations.c[name] for name in ("id", "job_id", "score", "passed", "status"))
    query = select(*columns, iterations.c.number).select_from(evaluations)
    return query.join(iterations, iterations.c.id == evaluations.c.iteration_id).where(
        evaluations.c.id == evaluation_id
    )
