"""What a job has written so far: its iterations and their evaluations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Executable, and_, bindparam, select

from redraft.domain.loop import Attempt, Evaluation
from redraft.storage.statements import add_rows
from redraft.storage.tables import evaluations, iterations


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    id: str
    status: str
    score: float | None
    passed: bool
    meets_criteria: bool | None
    reasoning: str
    suggestions: list[str]
    evaluator_model: str | None
    profile: str
    reused_from: str | None
    error: dict[str, Any] | None
    profile_version: str | None = None
    confidence: float | None = None
    issues: list[str] | None = None
    improvement_hint: str | None = None
    criteria: list[dict[str, Any]] | None = None
    checks: list[dict[str, Any]] | None = None
    requirements_met: bool | None = None
    judges: list[dict[str, Any]] | None = None
    disagreement: float | None = None


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One candidate of one iteration, with its verdict if there is one."""

    id: str
    number: int
    candidate: int
    generator_model: str | None
    answer: str
    feedback_given: str | None
    created_at: datetime
    evaluation: EvaluationRecord | None

    @property
    def status(self) -> str:
        if self.evaluation is None:
            return "generated"
        return "evaluated" if self.evaluation.status == "ok" else "evaluation_failed"

    def as_attempt(self) -> Attempt:
        verdict = self.evaluation
        return Attempt(
            self.number,
            self.candidate,
            self.answer,
            verdict and Evaluation(verdict.score, verdict.passed, verdict.reasoning, tuple(verdict.suggestions)),
        )


_EVALUATION = tuple(field.name for field in fields(EvaluationRecord))
_ITERATION = (
    "id",
    "number",
    "candidate",
    "generator_model",
    "answer",
    "feedback_given",
    "created_at",
)


def of_job(connection: Connection, job_id: str, number: int | None = None) -> list[IterationRecord]:
    """All iterations of a job, or one, in order, each with its evaluation: one query."""
    statement = _select_history(is_one=number is not None)
    given = {"p_job": job_id} if number is None else {"p_job": job_id, "p_number": number}
    return [_record(row) for row in connection.execute(statement, given).mappings()]


@cache
def _select_history(*, is_one: bool) -> Executable:
    """Built once: every step of a job past its first reads it."""
    loop_only = and_(evaluations.c.iteration_id == iterations.c.id, evaluations.c.role == "loop")
    query = (
        select(
            *(iterations.c[name] for name in _ITERATION),
            *(evaluations.c[name].label(f"evaluation_{name}") for name in _EVALUATION),
        )
        .outerjoin(evaluations, loop_only)
        .where(iterations.c.job_id == bindparam("p_job"))
        .order_by(iterations.c.number, iterations.c.candidate)
    )
    return query.where(iterations.c.number == bindparam("p_number")) if is_one else query


def _record(row: Mapping[Any, Any]) -> IterationRecord:
    verdict = None
    if row["evaluation_id"] is not None:
        verdict = EvaluationRecord(**{name: row[f"evaluation_{name}"] for name in _EVALUATION})
    return IterationRecord(**{name: row[name] for name in _ITERATION}, evaluation=verdict)


def add_iterations(connection: Connection, job_id: str, records: Sequence[IterationRecord]) -> None:
    """Store new iterations; the time is the database's."""
    rows = [
        {**{name: getattr(record, name) for name in _ITERATION if name != "created_at"}, "job_id": job_id}
        for record in records
    ]
    add_rows(connection, iterations, rows)


def add_evaluations(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    add_rows(connection, evaluations, rows)
