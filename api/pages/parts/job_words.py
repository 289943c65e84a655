"""The texts by which pages describe the state of jobs. Pages show the outcome beside them, so they omit it."""

from collections.abc import Sequence
from dataclasses import dataclass

from api.pages.parts.filters import score
from redraft.domain.evaluation.rubrics import FAULT_ABSENT
from redraft.domain.evaluation.scores import meets
from redraft.domain.jobs.states import JobKind, StopReason, describe_stop_reason
from redraft.operations.jobs.iterations import CriterionOutcome, Evaluation, EvaluatorVerdict

STOPS: dict[str, str] = {
    StopReason.ANSWERED: "This is the first answer, which is being evaluated.",
    StopReason.ACCEPTED: "The answer reached the threshold.",
    StopReason.ITERATION_LIMIT: "The iteration limit is reached: this is the best answer.",
    StopReason.PLATEAU: "The score stopped rising: this is the best answer.",
    StopReason.UNCHANGED: "The model repeated an earlier answer: this is the best answer.",
    StopReason.BUDGET_EXHAUSTED: "The budget is used up: this is the best answer so far.",
    StopReason.DEADLINE_EXCEEDED: "The deadline passed: this is the best answer until then.",
    StopReason.EVALUATOR_ERROR: "No evaluation could be used: this is the last answer.",
    StopReason.EVALUATION_SKIPPED: "The evaluation was skipped.",
    StopReason.CANCELED: "This is the best answer until then.",
    StopReason.ERROR: "A step failed permanently: this is the best answer until then.",
}
STAYS_ACCEPTED = "The continuation ended ({why}), and the answer stays accepted."
NO_SCORE = "No answer has a score."
NO_ANSWER = "There is no answer."

STEPS = {"generate": "is being generated", "evaluate": "is being evaluated", "audit": "is being audited"}

_KEY = "Set the key of that provider, and restart the workers. Then continue the job."
REMEDIES: dict[str, str] = {
    "provider_auth": _KEY,
    "provider_rate_limited": "Set REDRAFT_MODEL_LIMITS to the limits of the provider. Then continue the job.",
    "provider_quota": "Check the plan and billing of that provider. Then continue the job, or choose another model.",
    "provider_timeout": "Raise REDRAFT_CALL_TIMEOUT_S, or ask for shorter answers. Then continue the job.",
    "provider_unavailable": "Wait, then continue the job. If you run the server, check it and its base URL.",
    "provider_bad_request": "Adjust the parameter that the message names.",
    "unknown_model": "Check the spelling after 'provider:', or continue the job with another model.",
    "context_too_long": "Follow the message, or continue the job with a model with a longer context.",
    "refused": "Rephrase the task, or continue the job with another model.",
    "content_filtered": "Rephrase the task.",
    "empty_output": "Raise sampling.max_output_tokens in a new job, or continue this one with another model.",
    "output_truncated": "Raise sampling.max_output_tokens in a new job, or ask for a shorter answer by guidance.",
    "schema_mismatch": "Simplify the schema of the answer.",
    "draft_invalid": "Try again, or choose another model.",
    "evaluator_invalid": "Continue the job with a stronger evaluator.",
    "check_failed": "Repair the server or package of the check. Then continue the job.",
    "canceled": "Continue the job to get its answer.",
    "deadline_exceeded": "Continue the job with a longer deadline, and check that enough workers run.",
    "budget_exhausted": "Continue the job with a higher limit; its other limits stay the same.",
    "worker_lost": "Check the log and the memory of the worker. Then continue the job.",
}


def criteria_words(criteria: Sequence[CriterionOutcome]) -> str:
    """Return a sentence that names the criteria that are not met."""
    evaluated = [each for each in criteria if each.passed is not None]
    unmet = [each for each in evaluated if not each.passed]
    if not evaluated:
        return "no criterion was evaluated"
    if not unmet:
        return f"all {len(evaluated)} criteria met" if len(evaluated) > 1 else "the criterion is met"
    words = [_unmet(each) + (f" ({each.gap})" if each.gap else "") for each in unmet]
    return f"{len(unmet)} of {len(evaluated)} not met: {' · '.join(words)}"


def _unmet(criterion: CriterionOutcome) -> str:
    words = criterion.text or criterion.id
    return f"fault present: {words}" if criterion.weight < 0 else words


def repeats_criteria(evaluation: Evaluation) -> bool:
    """Whether the reasoning only repeats the evidence of the criteria, which the page already shows."""
    shown = [each for each in evaluation.criteria if each.passed is not None and not each.hidden]
    lines = (f"{each.id}: {'met' if each.passed else 'not met'}. {each.evidence}".strip() for each in shown)
    return bool(shown) and evaluation.evaluation_reasoning == "\n".join(lines)


def beside_criteria(evaluation: Evaluation) -> list[str]:
    """Return the suggestions that do not repeat the gap of a criterion."""
    gaps = {each.gap for each in evaluation.criteria}
    gaps |= {f"Make this hold: {_name(each)}." for each in evaluation.criteria}
    return [each for each in evaluation.improvement_suggestions if each not in gaps]


def _name(found: CriterionOutcome) -> str:
    text = found.text.strip().rstrip(".") or found.id
    return FAULT_ABSENT + text if found.weight < 0 else text


def held_back(stop_reason: str, lacks: Sequence[str]) -> str:
    """Return the reason why a job ended although its best answer reaches the threshold.

    `lacks` names the unmet requirements of the answer.
    """
    why = ending(stop_reason)
    return f"{why[0].upper()}{why[1:]}: the best answer reached the threshold; {'; '.join(lacks)}."


def ending(stop_reason: str, kind: str = JobKind.GENERATE_ANSWER) -> str:
    """Return a stop reason in a few words, for lists."""
    return describe_stop_reason(stop_reason, only_evaluates=kind != JobKind.GENERATE_ANSWER)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Evaluators of one answer with the same verdict, and what they agree on."""

    words: str
    verdicts: list[EvaluatorVerdict]


def agreements(verdicts: Sequence[EvaluatorVerdict], threshold: float) -> list[Agreement]:
    """Group the verdicts of several evaluators by whether the score reaches the threshold, the largest group first."""
    groups: dict[str, list[EvaluatorVerdict]] = {}
    for each in verdicts:
        verdict = "no verdict" if each.score is None else "passed" if meets(each.score, threshold) else "not passed"
        groups.setdefault(verdict, []).append(each)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [Agreement(_agreed(verdict, group, len(verdicts)), group) for verdict, group in ordered]


def _agreed(verdict: str, group: Sequence[EvaluatorVerdict], number: int) -> str:
    scores = sorted({score(each.score) for each in group if each.score is not None})
    who = f"{len(group)} of {number} members" if len(group) < number else f"All {number} members"
    if len(group) == 1:
        return f"1 of {number} members: {verdict}"
    return f"{who} agree: {verdict}" + (f", {' to '.join(dict.fromkeys((scores[0], scores[-1])))}" if scores else "")
