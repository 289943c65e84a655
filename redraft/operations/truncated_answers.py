"""Answers that were cut off at their output limit: attempts that nobody judges, and what the next one is told."""

from collections.abc import Iterable, Sequence
from typing import Any

from redraft.domain.failures import TRUNCATED, job_error
from redraft.domain.ids import new_id
from redraft.domain.loop import Finish
from redraft.domain.requests import AnyRequest
from redraft.domain.states import StopReason
from redraft.operations.calling import CutReply
from redraft.storage.history import EvaluationRecord, IterationRecord

_GROWTH = 2
_RAISE = "Raise sampling.max_output_tokens, or ask for a shorter answer."


def evaluation_of(request: AnyRequest, cut: CutReply, *, model: str, number: int, attempts: int) -> EvaluationRecord:
    """What stands in place of a verdict: an error without a score, and what the next answer has to change."""
    words = f"The answer was cut off {_place(cut)}. It is not whole, and was not shown to the evaluator."
    error = job_error(TRUNCATED, words, model=model, iteration=number, attempts=attempts)
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
        reused_from=None,
        error={**error, "output_limit": cut.limit},
        requirements_met=False,
    )


def _place(cut: CutReply) -> str:
    limit = f" of {cut.limit} tokens" if cut.limit else ""
    return f"at its output limit{limit}" if cut.text.strip() else f"before its text began: reasoning took all{limit}"


def _advice(cut: CutReply) -> str:
    place = f"at {cut.limit} tokens" if cut.limit else "at the output limit"
    if cut.text.strip():
        return f"An answer was cut off {place}, before its end: write a shorter answer."
    return f"An answer was cut off {place}, before its text began: think less, and write a shorter answer."


def larger_limit(records: Iterable[IterationRecord], model: str) -> int | None:
    """The output limit for the next answer of this model; None where none of its answers was cut at a known one."""
    cut = [record.evaluation for record in records if record.generator_model == model and record.as_attempt().is_cut]
    limits: list[int] = [
        each.error["output_limit"] for each in cut if each and each.error and each.error["output_limit"]
    ]
    return _GROWTH * max(limits) if limits else None


def without_whole_answer(records: Sequence[IterationRecord], move: Finish) -> dict[str, Any] | None:
    """The error of a job that ends because none of its answers came to its end."""
    last = records[-1].evaluation if records else None
    if move.reason is not StopReason.ERROR or last is None or last.error is None:
        return None
    count = len({record.number for record in records})
    each = "The answer was" if count == 1 else f"In all {count} iterations the answer was"
    limit: int | None = last.error["output_limit"]
    words = f"{each} cut off at the output limit{f', last at {limit} tokens' if limit else ''}. {_RAISE}"
    return {**last.error, "detail": words}
