"""Answers that were cut off at their output limit: unevaluated attempts, and the feedback for the next attempt."""

from collections.abc import Iterable, Sequence
from typing import Any

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.job_errors import OUTPUT_LIMIT, job_error
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.jobs.states import StopReason
from redraft.domain.loop.stopping import Finish
from redraft.errors import ProviderError
from redraft.operations.calls.model_calls import CutReply
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord

_GROWTH = 2


def evaluation_of(
    request: AnyRequest, error: ProviderError, cut: CutReply, *, model: str, number: int, attempts: int
) -> EvaluationRecord:
    """Return the evaluation of a truncated answer: an error without a score, and a suggestion for the next answer."""
    limit = f" The limit was {cut.limit} tokens." if cut.limit else ""
    words = f"{error.message}{limit} The truncated answer is not evaluated."
    facts = job_error(error.code, words, model=model, iteration=number, attempts=attempts)
    return EvaluationRecord(
        id=new_id("evaluation"),
        status="error",
        score=None,
        passed=False,
        meets_criteria=None,
        reasoning="",
        suggestions=[_advice(cut)],
        evaluator_model=None,
        profile=request.profile,
        error={**facts, OUTPUT_LIMIT: cut.limit},
        requirements_met=False,
    )


def _advice(cut: CutReply) -> str:
    place = f"at {cut.limit} tokens" if cut.limit else "at the output limit"
    if cut.text.strip():
        return f"An answer was cut off {place}, before its end: write a shorter answer."
    return f"An answer was cut off {place}, before its text began: think less, and write a shorter answer."


def larger_limit(records: Iterable[IterationRecord], model: str) -> int | None:
    """Return the output limit for the next answer of this model; None if no answer was cut at a known limit."""
    cut = [
        record.evaluation for record in records if record.generator_model == model and record.as_attempt().is_truncated
    ]
    limits: list[int] = [each.error[OUTPUT_LIMIT] for each in cut if each and each.error and each.error[OUTPUT_LIMIT]]
    return _GROWTH * max(limits) if limits else None


def without_whole_answer(records: Sequence[IterationRecord], action: Finish) -> dict[str, Any] | None:
    """Return the error of a job whose answers were all cut off."""
    last = records[-1].evaluation if records else None
    if action.reason is not StopReason.ERROR or last is None or last.error is None:
        return None
    count = len({record.number for record in records})
    return {**last.error, "detail": f"No whole answer in {count} iteration{'s'[: count > 1]}: {last.error['detail']}"}
