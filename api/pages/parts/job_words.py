"""The words in which pages describe jobs."""

from collections.abc import Sequence

from redraft.domain.jobs.states import JobKind, StopReason, describe_stop_reason
from redraft.operations.jobs.iterations import CriterionOutcome, Evaluation

STOPS: dict[str, str] = {
    StopReason.ACCEPTED: "Accepted: the answer reached the threshold.",
    StopReason.ITERATION_LIMIT: "Iteration limit: no iteration reached the threshold. This is the best answer.",
    StopReason.PLATEAU: "The score stopped rising: this is the best answer.",
    StopReason.UNCHANGED: "The model repeated an earlier answer: this is the best one.",
    StopReason.BUDGET_EXHAUSTED: "The budget is used up: this is the best answer so far.",
    StopReason.DEADLINE_EXCEEDED: "The deadline passed: this is the best answer until then.",
    StopReason.EVALUATOR_ERROR: "No evaluation could be used: this is the last answer, not evaluated.",
    StopReason.EVALUATION_SKIPPED: "The task is too simple to evaluate its answer.",
    StopReason.CANCELED: "Canceled: this is the best answer until then.",
    StopReason.ERROR: "A step failed permanently: this is the best answer until then.",
}
STAYS_ACCEPTED = "Its continuation ended ({why}), and the answer stays accepted."
NO_ANSWER = "There is no answer."

STEPS = {"generate": "is being written", "evaluate": "is being evaluated", "audit": "is being audited"}

_KEY = "Set the key of that provider, and restart the workers; then continue the job."
REMEDIES: dict[str, str] = {
    "provider_auth": _KEY,
    "provider_rate_limited": "Set REDRAFT_MODEL_LIMITS to what the provider allows, or raise it there; then continue.",
    "provider_quota": "Look at the plan and billing of that provider; then continue the job, or name another model.",
    "provider_timeout": "Raise REDRAFT_CALL_TIMEOUT_S, or ask for shorter answers; then continue the job.",
    "provider_unavailable": "Wait, then continue the job. Check that your own server runs, and its base URL.",
    "provider_bad_request": "Adjust the parameter that the message names.",
    "unknown_model": "Check the spelling after 'provider:', or continue the job with another model.",
    "context_too_long": "Follow the message, or continue the job with a model with a longer context.",
    "refused": "Rephrase the task, or continue the job with another model.",
    "content_filtered": "Rephrase the task.",
    "empty_output": "Raise sampling.max_output_tokens in a new job, or continue this one with another model.",
    "output_truncated": "Raise sampling.max_output_tokens in a new job, or continue with guidance to be shorter.",
    "schema_mismatch": "Simplify the schema of the answer.",
    "draft_invalid": "Try again, or name another model.",
    "evaluator_invalid": "Continue the job with a stronger evaluator.",
    "canceled": "Continue the job to get its answer.",
    "deadline_exceeded": "Continue the job with a longer deadline, and check that enough workers run.",
    "budget_exhausted": "Continue the job with a higher limit; its other limits stay the same.",
    "worker_lost": "Look at the worker's log, and at its memory; then continue the job.",
}


def criteria_words(criteria: Sequence[CriterionOutcome]) -> str:
    """Say how many criteria are not met, and which."""
    evaluated = [each for each in criteria if each.passed is not None]
    unmet = [each for each in evaluated if not each.passed]
    if not evaluated:
        return "no criterion was evaluated"
    if not unmet:
        return f"all {len(evaluated)} criteria met" if len(evaluated) > 1 else "the criterion is met"
    words = [(each.text or each.id) + (f" ({each.gap})" if each.gap else "") for each in unmet]
    return f"{len(unmet)} of {len(evaluated)} not met: {' · '.join(words)}"


def repeats_criteria(evaluation: Evaluation) -> bool:
    """Whether the reasoning only repeats the evidence of the criteria, which the page shows beside them."""
    shown = [each for each in evaluation.criteria if each.passed is not None and not each.hidden]
    lines = (f"{each.id}: {'met' if each.passed else 'not met'}. {each.evidence}".strip() for each in shown)
    return bool(shown) and evaluation.evaluation_reasoning == "\n".join(lines)


def beside_criteria(evaluation: Evaluation) -> list[str]:
    """Return the suggestions that are not the gap of a criterion."""
    gaps = {each.gap for each in evaluation.criteria}
    gaps |= {f"Make this hold: {_name(each)}." for each in evaluation.criteria}
    return [each for each in evaluation.improvement_suggestions if each not in gaps]


def _name(found: CriterionOutcome) -> str:
    text = found.text.strip().rstrip(".") or found.id
    return f"it must not be true that: {text}" if found.weight < 0 else text


def held_back(stop_reason: str, lacks: Sequence[str]) -> str:
    """Say why a job has ended whose best answer reaches the threshold but `lacks` something required."""
    why = ending(stop_reason)
    reached = "the best answer reached the threshold, but was not accepted"
    return f"{why[0].upper()}{why[1:]}: {reached}; {'; '.join(lacks)}."


def ending(stop_reason: str, kind: str = JobKind.GENERATE_ANSWER) -> str:
    """Say a stop reason in short, for lists."""
    return describe_stop_reason(stop_reason, only_evaluates=kind != JobKind.GENERATE_ANSWER)
