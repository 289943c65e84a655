"""Reads and writes the history of a job: its iterations and their evaluations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, and_, bindparam, select

from redraft.domain.evaluation.rubrics import CriterionResult
from redraft.domain.jobs.job_errors import OUTPUT_LIMIT
from redraft.domain.jobs.requests import sources_hash
from redraft.domain.loop.attempts import Attempt, Evaluation
from redraft.storage.engine.query_parts import fetch_all
from redraft.storage.engine.statements import add_rows
from redraft.storage.engine.tables import evaluations, iterations
from redraft.storage.jobs.jobs import JobRecord

Row = dict[str, Any]

_STATUS = {None: "generated", "ok": "evaluated", "error": "evaluation_failed", "skipped": "evaluation_skipped"}


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """One verdict on one answer.

    Attributes:
        criteria: one `CriterionResult` as a dict for each criterion of a rubric.
        judges: the verdicts of the evaluators, if more than one call was made.
        job_id: the job that made the evaluation. A rescoring evaluates answers of another job. Empty until the record
            is stored.
        role: `loop`, `rescore` or `audit`. Empty until the record is stored.
    """

    id: str
    status: str
    score: float | None
    passed: bool
    meets_criteria: bool | None
    reasoning: str
    suggestions: list[str]
    evaluator_model: str | None
    profile: str
    reused_from: str | None = None
    error: dict[str, Any] | None = None
    profile_version: str | None = None
    confidence: float | None = None
    issues: list[str] | None = None
    improvement_hint: str | None = None
    criteria: list[dict[str, Any]] | None = None
    checks: list[dict[str, Any]] | None = None
    grounding: dict[str, Any] | None = None
    requirements_met: bool | None = None
    judges: list[dict[str, Any]] | None = None
    disagreement: float | None = None
    job_id: str = ""
    role: str = ""

    def as_evaluation(self) -> Evaluation:
        return Evaluation(
            score=self.score,
            passed=self.passed,
            reasoning=self.reasoning,
            suggestions=tuple(self.suggestions),
            criteria=tuple(CriterionResult(**each) for each in self.criteria or ()),
            is_qualified=self.requirements_met is not False,
            is_skipped=self.status == "skipped",
            is_truncated=self.error is not None and OUTPUT_LIMIT in self.error,
        )


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One candidate of one iteration, with its verdict.

    `is_outdated`: a continuation has changed the sources after the answer was written.
    """

    id: str
    number: int
    candidate: int
    generator_model: str | None
    answer: str
    feedback_given: str | None
    created_at: datetime
    evaluation: EvaluationRecord | None
    grounding: dict[str, Any] | None = None
    generator_template: str | None = None
    is_outdated: bool = False

    @property
    def status(self) -> str:
        return _STATUS[self.evaluation.status if self.evaluation else None]

    def as_attempt(self) -> Attempt:
        verdict = self.evaluation
        return Attempt(self.number, self.candidate, self.answer, verdict and verdict.as_evaluation(), self.is_outdated)


_EVALUATION = tuple(field.name for field in fields(EvaluationRecord))
_ITERATION = tuple(field.name for field in fields(IterationRecord) if field.name in iterations.c)


def iterations_of(connection: Connection, job: JobRecord, number: int | None = None) -> list[IterationRecord]:
    """Return the iterations of a job, or one of them, by number and candidate, with the evaluations by this job.

    A rescoring has the iterations of the job that it rescores.
    """
    is_rescore = job.rescored_job_id is not None
    parameters: dict[str, Any] = {
        "p_job": job.rescored_job_id or job.id,
        "p_role": "rescore" if is_rescore else "loop",
        "p_evaluating_job": job.id,
    }
    if number is not None:
        parameters["p_number"] = number
    rows = connection.execute(_select_history(is_one=number is not None), parameters).mappings()
    wanted: list[int] | None = job.request["iterations"] if is_rescore else None
    records = [_record(row) for row in rows if wanted is None or row["number"] in wanted]
    if is_rescore:
        # Answers that were cut off got no verdict, so they are not rescored
        is_loop = and_(evaluations.c.job_id == parameters["p_job"], evaluations.c.role == "loop")
        failed = select(evaluations.c.iteration_id, evaluations.c.error).where(is_loop, evaluations.c.status == "error")
        cut = {row.iteration_id for row in connection.execute(failed) if OUTPUT_LIMIT in (row.error or {})}
        records = [record for record in records if record.id not in cut]
    return [_with_outdated(record, job) for record in records] if job.continuations else records


def _with_outdated(record: IterationRecord, job: JobRecord) -> IterationRecord:
    before = (record.grounding or {}).get("sources_hash")
    if before is None or record.number >= job.first_iteration:
        return record
    return replace(record, is_outdated=before != sources_hash(job.request["sources"]))


@cache
def _select_history(*, is_one: bool) -> Executable:
    # Cached, because each step after the first one reads the history
    is_own = and_(
        evaluations.c.iteration_id == iterations.c.id,
        evaluations.c.role == bindparam("p_role"),
        evaluations.c.job_id == bindparam("p_evaluating_job"),
    )
    query = (
        select(
            *(iterations.c[name] for name in _ITERATION),
            *(evaluations.c[name].label(f"evaluation_{name}") for name in _EVALUATION),
        )
        .outerjoin(evaluations, is_own)
        .where(iterations.c.job_id == bindparam("p_job"))
        .order_by(iterations.c.number, iterations.c.candidate)
    )
    return query.where(iterations.c.number == bindparam("p_number")) if is_one else query


def evaluations_outside_loop(
    connection: Connection, iteration_ids: Sequence[str]
) -> list[tuple[str, EvaluationRecord]]:
    """Return the audits and rescorings of iterations, oldest first, each as iteration id and evaluation."""
    query = (
        select(evaluations.c.iteration_id, *(evaluations.c[name] for name in _EVALUATION))
        .where(evaluations.c.iteration_id.in_(iteration_ids), evaluations.c.role != "loop")
        .order_by(evaluations.c.created_at, evaluations.c.id)
    )
    return [(row.pop("iteration_id"), EvaluationRecord(**row)) for row in fetch_all(connection, query)]


def audit_scores(connection: Connection, job_id: str, model: str) -> set[tuple[str, float]]:
    """Return the id and the score of each iteration that this model has audited."""
    is_audit = and_(evaluations.c.job_id == job_id, evaluations.c.role == "audit")
    has_score = and_(evaluations.c.evaluator_model == model, evaluations.c.score.is_not(None))
    query = select(evaluations.c.iteration_id, evaluations.c.score).where(is_audit, has_score)
    return {(row.iteration_id, row.score) for row in connection.execute(query)}


def _record(row: Mapping[Any, Any]) -> IterationRecord:
    verdict = None
    if row["evaluation_id"] is not None:
        verdict = EvaluationRecord(**{name: row[f"evaluation_{name}"] for name in _EVALUATION})
    return IterationRecord(**{name: row[name] for name in _ITERATION}, evaluation=verdict)


def add_iterations(connection: Connection, job_id: str, records: Sequence[IterationRecord]) -> None:
    # `created_at` is left out: its default is the time of the database, which is the same for all workers
    rows = [
        {**{name: getattr(record, name) for name in _ITERATION if name != "created_at"}, "job_id": job_id}
        for record in records
    ]
    add_rows(connection, iterations, rows)


def lock_existing(connection: Connection, iteration_ids: Sequence[str]) -> set[str]:
    """Lock iterations against deletion until the unit of work ends. Return the ids that still exist."""
    query = select(iterations.c.id).where(iterations.c.id.in_(iteration_ids)).with_for_update(read=True, key_share=True)
    return set(connection.scalars(query))


def evaluation_row(job_id: str, record: IterationRecord, evaluation: EvaluationRecord, role: str = "loop") -> Row:
    """Return the row for an evaluation of an iteration by this job."""
    columns = {name: getattr(evaluation, name) for name in _EVALUATION}
    return {**columns, "job_id": job_id, "iteration_id": record.id, "role": role}


def add_evaluations(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    add_rows(connection, evaluations, rows)
