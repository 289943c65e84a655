"""What the pages of a job say in plain words."""

from collections.abc import Sequence

from redraft.domain.jobs.states import JobKind, StopReason, say_stop_reason
from redraft.operations.jobs.iterations import CriterionOutcome, Evaluation

STOPS: dict[str, str] = {
    StopReason.ACCEPTED: "Accepted: the answer reached the threshold.",
    StopReason.ITERATION_LIMIT: "Iteration limit: no iteration reached the threshold. This is the best answer.",
    StopReason.PLATEAU: "The score stopped rising: this is the best answer.",
    StopReason.UNCHANGED: "The model repeated an earlier answer: this is the best one.",
    StopReason.BUDGET_EXHAUSTED: "The budget is used up: this is the best answer so far.",
    StopReason.DEADLINE_EXCEEDED: "The deadline passed: this is what there was by then.",
    StopReason.EVALUATOR_ERROR: "No evaluation could be used: this is the last answer, not evaluated.",
    StopReason.EVALUATION_SKIPPED: "The task is too simple to evaluate its answer.",
    StopReason.CANCELED: "Canceled: this is what there was by then.",
    StopReason.ERROR: "A step failed permanently: this is what there was by then.",
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
    "provider_unavailable": "Wait, and continue the job. Of a server of your own: is it up, is its base URL right?",
    "provider_bad_request": "Adjust the parameter that the message names.",
    "unknown_model": "Check the spelling after 'provider:', or continue the job with another model.",
    "context_too_long": "Do what the message says, or continue the job with a model of a longer context.",
    "refused": "Rephrase the task, or continue the job with another model.",
    "content_filtered": "Rephrase the task.",
    "empty_output": "Raise sampling.max_output_tokens in a new job, or continue this one with another model.",
    "output_truncated": "Raise sampling.max_output_tokens in a new job, or continue with guidance to be shorter.",
    "schema_mismatch": "Simplify the schema of the answer.",
    "draft_invalid": "Try again, or name another model.",
    "evaluator_invalid": "Continue the job with a stronger evaluator.",
    "canceled": "Continue the job if you want its answer after all.",
    "deadline_exceeded": "Continue the job with a longer deadline. Are there enough workers?",
    "budget_exhausted": "Raise the limit and continue the job: limits that you do not name stay.",
    "worker_lost": "Look at the worker's log, and at its memory; then continue the job.",
}


def criteria_words(criteria: Sequence[CriterionOutcome]) -> str:
    """What became of the criteria, the unmet ones by their texts."""
    judged = [each for each in criteria if each.passed is not None]
    unmet = [each for each in judged if not each.passed]
    if not judged:
        return "no criterion was evaluated"
    if not unmet:
        return f"all {len(judged)} criteria met" if len(judged) > 1 else "the criterion is met"
    told = " · ".join(_unmet_words(each) for each in unmet)
    return f"{len(unmet)} of {len(judged)} not met: {told}"


def _unmet_words(found: CriterionOutcome) -> str:
    text = found.text or found.id
    return f"{text} ({found.gap})" if found.gap else text


def is_told_by_criteria(evaluation: Evaluation) -> bool:
    """Whether the reasoning says no more than what stands beside each criterion."""
    shown = [each for each in evaluation.criteria if each.passed is not None and not each.hidden]
    lines = (f"{each.id}: {'met' if each.passed else 'not met'}. {each.evidence}".strip() for each in shown)
    return bool(shown) and evaluation.evaluation_reasoning == "\n".join(lines)


def beside_criteria(evaluation: Evaluation) -> list[str]:
    """The suggestions that are not told as a criterion's gap already."""
    told = {each.gap for each in evaluation.criteria} | {
        f"Make this hold: {_name(each)}." for each in evaluation.criteria
    }
    return [each for each in evaluation.improvement_suggestions if each not in told]


def _name(found: CriterionOutcome) -> str:
    text = found.text.strip().rstrip(".") or found.id
    return f"it must not be true that: {text}" if found.weight < 0 else text


def held_back(stop_reason: str, lacks: Sequence[str]) -> str:
    """Why a job has ended whose best answer has the score, but not all that is required."""
    why = ending(stop_reason)
    return (
        f"{why[0].upper()}{why[1:]}: the best answer reached the threshold, but was not accepted; {'; '.join(lacks)}."
    )


def ending(stop_reason: str, kind: str = JobKind.GENERATE_ANSWER) -> str:
    """A stop reason in short, for lists."""
    return say_stop_reason(stop_reason, only_evaluates=kind != JobKind.GENERATE_ANSWER)
