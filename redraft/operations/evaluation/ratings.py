"""Stores ratings of evaluations by people, and calibrates evaluators by these ratings."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection

from redraft.domain.evaluation.calibration import Bias, Rated, Status, Threshold, calibrate
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.ids import new_id
from redraft.domain.statistics.estimates import Crossing, Estimate, Kappa
from redraft.errors import Invalid, NotFound
from redraft.operations.jobs.queries import record_of, state_of
from redraft.operations.jobs.resources import Rating, rating_resource
from redraft.operations.resource_base import Resource
from redraft.operations.services import Services
from redraft.storage.admin import ratings
from redraft.storage.admin.ratings import RatedEvaluation, RatingFilter, RatingRecord
from redraft.storage.jobs import history

GROUPS_MAX = 500
"""The maximum of groups in a report; groups with the most ratings come first."""
_GROUPED_BY = ("evaluator_model", "profile", "profile_version", "criterion")
_COLUMNS = ("evaluator_model", "profile", "profile_version", "criterion_id")


class CalibrationGroup(Resource):
    """The calibration of one evaluator with one profile, for whole evaluations or for one criterion."""

    evaluator_model: str | None
    profile: str
    profile_version: str | None
    criterion: str | None
    status: Status
    n: int
    unsure: int
    ratings_needed: int
    table: Crossing
    agreement: Estimate | None
    kappa: Kappa | None
    kappa_reason: str | None
    sensitivity: Estimate | None
    specificity: Estimate | None
    bias: Bias | None
    wanted_precision: float
    threshold: Threshold | None
    threshold_reason: str | None


def rate(services: Services, job_id: str, number: int, body: RateEvaluation, rater: str) -> Rating:
    """Store the verdict of a person on an evaluation of one iteration.

    Raises NotFound if the job or the iteration does not exist. Raises Invalid if the iteration has no such evaluation,
    candidate or criterion, or no verdict to rate.
    """
    with services.database.write() as connection:
        found = ratings.lock_evaluations(connection, job_id, number)
        # The check is slow, because it reads all iterations. An evaluation already shows that its iteration exists
        if all(each.evaluation_id is None for each in found):
            _ensure_iteration(connection, job_id, number)
        evaluation = _choose(found, body)
        _ensure_rateable(evaluation)
        if body.criterion is not None:
            _ensure_criterion(evaluation.criteria or [], body.criterion)
        values: dict[str, Any] = {
            "id": new_id("rating"),
            "job_id": job_id,
            "evaluation_id": evaluation.evaluation_id,
            "criterion_id": body.criterion,
            **body.model_dump(include={"verdict", "score", "note"}),
            "rater": rater,
        }
        created_at = ratings.add(connection, values)
    place: dict[str, Any] = {"iteration": number, "candidate": evaluation.candidate, "role": evaluation.role}
    return rating_resource(RatingRecord(**values, **place, created_at=created_at))


def _ensure_iteration(connection: Connection, job_id: str, number: int) -> None:
    known = sorted({record.number for record in history.iterations_of(connection, record_of(connection, job_id))})
    if number not in known:
        error = NotFound("iteration", f"{job_id}/{number}")
        error.message = f"Job {job_id} has no answers; there is nothing to rate."
        if known:
            has_gaps = known[-1] - known[0] >= len(known)
            listed = ", ".join(map(str, known)) if has_gaps else f"{known[0]} to {known[-1]}"
            iterations = f"iteration {known[0]}" if len(known) == 1 else f"the iterations {listed}"
            error.message = f"Job {job_id} has {iterations}, not {number}."
        error.args = (error.message,)
        raise error


def _choose(found: Sequence[RatedEvaluation], body: RateEvaluation) -> RatedEvaluation:
    if body.evaluation_id is not None:
        return _by_id(found, body.evaluation_id, body.candidate)
    if body.candidate is not None:
        return _by_candidate(found, body.candidate)
    own = [*(each for each in found if each.is_own), _unevaluated(found[0].candidate)]
    # `max` returns the first candidate with the highest score, as the loop does
    return max(own, key=lambda each: -1.0 if each.score is None else each.score)


def _by_id(found: Sequence[RatedEvaluation], evaluation_id: str, candidate: int | None) -> RatedEvaluation:
    evaluation = next((each for each in found if each.evaluation_id == evaluation_id), None)
    if evaluation is None:
        words = "This iteration has no such evaluation; omit evaluation_id to rate the evaluation of the job."
        raise Invalid.at("/evaluation_id", words, "unknown_evaluation")
    if candidate not in {None, evaluation.candidate}:
        words = f"The evaluation is of candidate {evaluation.candidate}; omit candidate, or set it to this number."
        raise Invalid.at("/candidate", words, "unknown_candidate")
    return evaluation


def _by_candidate(found: Sequence[RatedEvaluation], candidate: int) -> RatedEvaluation:
    known = sorted({each.candidate for each in found})
    if candidate not in known:
        words = f"This iteration has no candidate {candidate}; it has {', '.join(map(str, known))}."
        raise Invalid.at("/candidate", words, "unknown_candidate")
    return next((each for each in found if each.is_own and each.candidate == candidate), _unevaluated(candidate))


def _unevaluated(candidate: int) -> RatedEvaluation:
    return RatedEvaluation(candidate, None, None, True, None, None, None)


def _ensure_rateable(evaluation: RatedEvaluation) -> None:
    if evaluation.status == "ok":
        return
    reasons = {None: "was not evaluated yet", "error": "could not be evaluated: its evaluation failed"}
    reason = reasons.get(evaluation.status, "was skipped by the settings of the evaluation")
    words = f"Candidate {evaluation.candidate} {reason}; there is no verdict to rate."
    raise Invalid.at("", words, "not_rateable")


def _ensure_criterion(known: Sequence[dict[str, Any]], criterion: str) -> None:
    found = _criterion(known, criterion)
    if found is None:
        words = f"This evaluation has no such criterion; it has {', '.join(each['id'] for each in known)}."
        if not known:
            words = "This evaluation has no criteria; omit criterion to rate the whole evaluation."
        raise Invalid.at("/criterion", words, "unknown_criterion")
    if found["passed"] is None:
        words = "This criterion was not evaluated; there is no verdict to rate."
        raise Invalid.at("/criterion", words, "not_rateable")


def _criterion(criteria: Sequence[dict[str, Any]], criterion: str) -> dict[str, Any] | None:
    return next((each for each in criteria if each["id"] == criterion), None)


def list_ratings(services: Services, job_id: str) -> list[Rating]:
    """All ratings of a job, oldest first, including replaced ratings. Raises NotFound if there is no such job."""
    with services.database.read() as connection:
        state_of(connection, job_id)
        return [rating_resource(record) for record in ratings.of_job(connection, job_id)]


def calibration(services: Services, criteria: RatingFilter, *, precision: float) -> tuple[list[CalibrationGroup], int]:
    """The agreement of each evaluator with people. Groups with the most ratings come first.

    A suggested threshold reaches at least `precision`, which is 0 to 1. Returns at most `GROUPS_MAX` groups, and the
    number of further groups.
    """
    count = 0

    def groups() -> Iterator[CalibrationGroup]:
        nonlocal count
        for key, rows in groupby(ratings.stream_counting(connection, criteria), key=itemgetter(*_COLUMNS)):
            count += 1
            named = dict(zip(_GROUPED_BY, key, strict=True))
            found = calibrate(_rated(rows), precision=precision)
            yield CalibrationGroup.from_row(found, **named)

    with services.database.read(is_streamed=True) as connection:
        found = heapq.nlargest(GROUPS_MAX, groups(), key=lambda group: (group.n, group.unsure))
    return found, count - len(found)


def _rated(rows: Iterator[Mapping[Any, Any]]) -> Iterator[Rated]:
    for row in rows:
        if row["criterion_id"] is None:
            yield Rated(row["verdict"], row["passed"], row["score"], row["own_score"])
            continue
        found = _criterion(row["criteria"] or [], row["criterion_id"])
        # The rubric of a rescoring may lack the criterion, and an evaluation may leave a criterion without a verdict
        if found is not None and found["passed"] is not None:
            yield _rated_criterion(row, found)


def _rated_criterion(row: Mapping[Any, Any], found: Mapping[str, Any]) -> Rated:
    score, own_score = found["score"], row["own_score"]
    if found["weight"] < 0:
        # The score of a criterion with negative weight is the size of a fault, so a lower score is better
        score, own_score = (None if each is None else 1 - each for each in (score, own_score))
    return Rated(row["verdict"], found["passed"], score, own_score)
