"""Answers with their evaluations, as rows: what people rate."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import insert

from redraft.domain.jobs.ids import new_id
from redraft.operations.services import Services
from redraft.storage.engine.tables import evaluations, iterations, jobs, ratings


def add_iteration(services: Services, job_id: str, number: int = 1, candidate: int = 1) -> str:
    """An answer of that job; returns the iteration's id."""
    iteration_id = new_id("iteration")
    values = {"id": iteration_id, "job_id": job_id, "number": number, "candidate": candidate, "answer": "An answer."}
    with services.database.write() as connection:
        connection.execute(insert(iterations).values(**values))
    return iteration_id


def add_evaluation(services: Services, job_id: str, iteration_id: str, **changes: Any) -> str:
    """A verdict on it, 0.9 and passed unless told otherwise; returns the evaluation's id."""
    values: dict[str, Any] = {
        "id": new_id("evaluation"),
        "job_id": job_id,
        "iteration_id": iteration_id,
        "status": "ok",
        "score": 0.9,
        "passed": True,
        "suggestions": [],
        "evaluator_model": "openai:judge",
        "profile": "criteria",
        "profile_version": "1",
        **changes,
    }
    with services.database.write() as connection:
        connection.execute(insert(evaluations).values(**values))
    return values["id"]


def add_judged(services: Services, job_id: str, number: int = 1, candidate: int = 1, **changes: Any) -> str:
    """Both; returns the evaluation's id."""
    return add_evaluation(services, job_id, add_iteration(services, job_id, number, candidate), **changes)


def add_ratings(services: Services, job_id: str, evaluation_id: str, criteria: Iterable[str], rater: str = "a") -> None:
    """A person agrees on each of these criteria."""
    common = {"job_id": job_id, "evaluation_id": evaluation_id, "verdict": "agree", "rater": rater}
    with services.database.write() as connection:
        connection.execute(
            insert(ratings), [{**common, "id": new_id("rating"), "criterion_id": name} for name in criteria]
        )


def set_best(services: Services, job_id: str, iteration: int) -> None:
    """As the loop notes it."""
    with services.database.write() as connection:
        connection.execute(jobs.update().where(jobs.c.id == job_id).values(best_iteration=iteration, best_score=0.9))


def criterion(name: str, *, score: float | None = 1.0, passed: bool | None = True, weight: float = 1) -> dict[str, Any]:
    """One criterion's result, as it is stored."""
    return {
        "id": name,
        "text": f"It is {name}.",
        "kind": "binary",
        "weight": weight,
        "required": False,
        "hidden": False,
        "score": score,
        "passed": passed,
        "evidence": "",
        "gap": "",
    }
