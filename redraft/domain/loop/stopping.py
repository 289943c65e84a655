"""Decides when the loop stops (accepted, unchanged, limit, plateau), and otherwise which action comes next.

The operations call `next_action` after each step, and enforce budgets and deadlines themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from redraft.domain.jobs.states import StopReason
from redraft.domain.loop.attempts import Attempt, best_of, complete, earlier_duplicate, in_latest_iteration, scored
from redraft.domain.loop.rules import Rules


@dataclass(frozen=True, slots=True)
class Generate:
    iteration: int


@dataclass(frozen=True, slots=True)
class Evaluate:
    iteration: int


@dataclass(frozen=True, slots=True)
class Finish:
    reason: StopReason


LoopAction = Generate | Evaluate | Finish


def next_action(rules: Rules, attempts: Sequence[Attempt]) -> LoopAction:
    """Return the next action: generate, evaluate, or finish with a stop reason."""
    current = in_latest_iteration(attempts)
    latest = current[0].iteration if current else 0
    if any(attempt.evaluation is None for attempt in current):
        return Evaluate(latest)
    # A continuation generates at least once, even if an earlier answer passes.
    if latest < rules.first_iteration:
        return Generate(latest + 1)
    reason = _reason_to_stop(rules, attempts, current)
    return Finish(reason) if reason else Generate(latest + 1)


def next_rescored(attempts: Sequence[Attempt]) -> LoopAction:
    """Return the next action of a job that evaluates stored answers again, one iteration after the other."""
    unevaluated = [attempt.iteration for attempt in attempts if attempt.evaluation is None]
    if unevaluated:
        return Evaluate(min(unevaluated))
    if any(attempt.evaluation and attempt.evaluation.passed for attempt in attempts):
        return Finish(StopReason.ACCEPTED)
    return Finish(_unless_unevaluated(StopReason.ITERATION_LIMIT, attempts))


def _reason_to_stop(rules: Rules, attempts: Sequence[Attempt], current: Sequence[Attempt]) -> StopReason | None:
    evaluations = [attempt.evaluation for attempt in current if attempt.evaluation]
    # Acceptance comes first: an answer that passes in the last iteration is accepted, not stopped by the limit.
    if any(evaluation.passed for evaluation in evaluations):
        return StopReason.ACCEPTED
    latest, whole = current[0].iteration, complete(current)
    if whole and all(attempt.evaluation and attempt.evaluation.is_skipped for attempt in whole):
        return StopReason.EVALUATION_SKIPPED
    if all(_repeats(attempts, latest - back) for back in range(rules.unchanged_patience)):
        return _unless_unevaluated(StopReason.UNCHANGED, attempts)
    if latest >= rules.iteration_limit:
        return _unless_unevaluated(StopReason.ITERATION_LIMIT, attempts)
    return StopReason.PLATEAU if _is_on_plateau(rules, attempts) else None


def _repeats(attempts: Sequence[Attempt], iteration: int) -> bool:
    """Whether each complete answer of an iteration equals an answer of an earlier iteration."""
    whole = [attempt for attempt in complete(attempts) if attempt.iteration == iteration]
    earlier = [attempt for attempt in attempts if attempt.iteration < iteration]
    return bool(whole) and all(earlier_duplicate(attempt, earlier) for attempt in whole)


def _unless_unevaluated(reason: StopReason, attempts: Sequence[Attempt]) -> StopReason:
    """Return the stop reason, or the reason of a failure if no attempt has a score."""
    if scored(attempts):
        return reason
    return StopReason.EVALUATOR_ERROR if complete(attempts) or not attempts else StopReason.ERROR


def _is_on_plateau(rules: Rules, attempts: Sequence[Attempt]) -> bool:
    """Whether the last `plateau_patience` iterations raised the best score by at most `plateau_delta`."""
    # Gains are measured against the last iteration with a gain, so that many small gains together count as one.
    baseline: Attempt | None = None
    idle = 0
    for iteration in sorted({attempt.iteration for attempt in attempts}):
        best = best_of(scored(a for a in attempts if a.iteration == iteration))
        # An iteration without a score shows neither a gain nor a plateau.
        if best is None:
            continue
        if baseline is None or _gains(best, baseline, rules.plateau_delta):
            baseline, idle = best, 0
        # Iterations before a continuation do not count. Otherwise the continuation could stop after its first
        # iteration.
        elif iteration >= rules.first_iteration:
            idle += 1
    return 0 < rules.plateau_patience <= idle


def _gains(attempt: Attempt, baseline: Attempt, delta: float) -> bool:
    # Meeting the required criteria for the first time is a gain at any score.
    if attempt.is_qualified != baseline.is_qualified:
        return attempt.is_qualified
    return (attempt.score or 0.0) > (baseline.score or 0.0) + delta
