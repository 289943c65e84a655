"""What users are told of a verdict: the events of an evaluated iteration, and of another one to come."""

from collections.abc import Mapping, Sequence
from typing import Any

from redraft.domain.loop import passes
from redraft.domain.phrases import say_score
from redraft.domain.requests import GenerateAnswer
from redraft.operations.endings import Event, event
from redraft.operations.steps import StepInHand
from redraft.storage.history import EvaluationRecord, IterationRecord


def evaluated(record: IterationRecord, verdict: EvaluationRecord, seconds: float) -> Event:
    """What was found for one answer; `seconds`: what its judges took."""
    return event(
        "iteration.evaluated",
        f"Iteration {record.number} {_outcome_in_words(record, verdict)}.",
        iteration=record.number,
        candidate=record.candidate,
        score=verdict.score,
        passed=verdict.passed,
        evaluation_reasoning=verdict.reasoning,
        improvement_suggestions=verdict.suggestions,
        criteria=verdict.criteria or [],
        grounding=verdict.grounding,
        disagreement=verdict.disagreement,
        reused=bool(verdict.reused_from),
        error=verdict.error,
        seconds=round(seconds, 3),
    )


def _outcome_in_words(record: IterationRecord, verdict: EvaluationRecord) -> str:
    if verdict.status == "skipped":
        return "is not evaluated"
    if verdict.score is None:
        return "could not be evaluated"
    silent = [each["model"] for each in verdict.judges or () if each["status"] != "ok"]
    without = f" without {', '.join(dict.fromkeys(silent))}, which gave no verdict" if silent else ""
    unmet = [each["id"] for each in _unmet(verdict)]
    lacking = f"; required and not met: {', '.join(unmet)}" if unmet else ""
    ungrounded = "; it does not rest on its sources" if _is_ungrounded(record, verdict) else ""
    return f"scored {say_score(verdict.score)}{without}{lacking}{ungrounded}"


def shortcomings(record: IterationRecord, verdict: EvaluationRecord) -> list[str]:
    """What an answer lacks, whatever its score, for being accepted."""
    unmet = [f"required and not met: {each['text'] or each['id']}" for each in _unmet(verdict)]
    return [*unmet, *(["it does not rest on its sources"] if _is_ungrounded(record, verdict) else [])]


def _unmet(verdict: EvaluationRecord) -> list[Mapping[str, Any]]:
    return [each for each in verdict.criteria or () if each["required"] and not each["passed"]]


def _is_ungrounded(record: IterationRecord, verdict: EvaluationRecord) -> bool:
    """Whether that is why the answer may not be accepted."""
    if verdict.requirements_met is not False:
        return False
    claims = (verdict.grounding or {}).get("ungrounded_claims")
    return bool(claims) or (record.grounding or {}).get("met") is False


def thinking(step: StepInHand, current: Sequence[IterationRecord]) -> Event:
    """Why there will be another iteration, after what was found for the answers of the current one."""
    strategy = step.request.revision.strategy if isinstance(step.request, GenerateAnswer) else "revise"
    kind, data = event(
        "thinking",
        f"{_why_again(step.request.score_threshold, current)} goes into iteration {step.job.iteration + 1}.",
        strategy=strategy,
        retry_count=step.job.iteration,
    )
    return kind, {**data, "ts": data["at"]}


def _why_again(threshold: float, current: Sequence[IterationRecord]) -> str:
    scored = [(r, r.evaluation) for r in current if r.evaluation and r.evaluation.score is not None]
    if not scored:
        return "There is no score; the last good feedback"
    reached = [(record, verdict) for record, verdict in scored if passes(verdict.score, threshold)]
    if any(_unmet(verdict) for _, verdict in reached):
        return "A required criterion is not met; the feedback"
    if any(_is_ungrounded(record, verdict) for record, verdict in reached):
        return "The answer does not rest on its sources; the feedback"
    return f"The score is below {threshold:g}; the feedback"
