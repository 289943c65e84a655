"""The loop as pure functions, which compute the next action and its reason from a job's rules and history.

These functions use no database, no clock and no model. The operations call `next_action` after each step and
`feedback_for` before each generation, and enforce budgets and deadlines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from redraft.domain.evaluation.rubrics import CriterionResult
from redraft.domain.evaluation.scores import meets
from redraft.domain.jobs.states import StopReason
from redraft.domain.text.cleaning import fold

Strategy = Literal["revise", "fresh", "encourage"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The fields of an evaluation that the loop needs.

    Attributes:
        score: None if the evaluation is an error or was skipped.
        passed: the score reaches the threshold, and every required criterion is met.
        is_qualified: every required criterion is met.
        is_skipped: the evaluation was skipped on purpose.
        is_truncated: the answer was cut off at the output limit, so it is not evaluated.
    """

    score: float | None
    passed: bool
    reasoning: str = ""
    suggestions: tuple[str, ...] = ()
    criteria: tuple[CriterionResult, ...] = ()
    is_qualified: bool = True
    is_skipped: bool = False
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate of one iteration. It is outdated if the job's sources have changed since it was generated."""

    iteration: int
    candidate: int
    answer: str
    evaluation: Evaluation | None = None
    is_outdated: bool = False

    @property
    def score(self) -> float | None:
        return self.evaluation.score if self.evaluation else None

    @property
    def is_qualified(self) -> bool:
        return self.evaluation is not None and self.evaluation.is_qualified

    @property
    def is_truncated(self) -> bool:
        return self.evaluation is not None and self.evaluation.is_truncated

    @property
    def criteria(self) -> tuple[CriterionResult, ...]:
        return self.evaluation.criteria if self.evaluation else ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The fields of a request that control the loop.

    Attributes:
        iteration_limit: the highest number of an iteration. A continuation raises it.
        first_iteration: the number of the first iteration of the loop or of its latest continuation.
        prefers_latest: if scores are equal, the latest iteration is the best, as for yes/no evaluations.
        unchanged_patience: the loop stops after this number of successive iterations that repeat earlier answers.
    """

    iteration_limit: int
    first_iteration: int = 1
    plateau_patience: int = 2
    plateau_delta: float = 0.02
    strategy: Strategy = "revise"
    start_from: Literal["best", "last"] = "best"
    prefers_latest: bool = False
    unchanged_patience: int = 1


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


@dataclass(frozen=True, slots=True)
class Failing:
    """A criterion that an answer does not meet. `is_regression`: an earlier answer met it."""

    result: CriterionResult
    is_regression: bool = False


@dataclass(frozen=True, slots=True)
class Feedback:
    """The content of the next prompt besides the task and the criteria. It contains no hidden criterion.

    Attributes:
        base: the answer that the model has to improve; None if the prompt shows no answer.
        reasoning: the evaluator's reasoning, if the evaluation has no results per criterion.
        failing: the criteria that the base does not meet.
        problems: suggestions of the evaluator that belong to no failing criterion.
        kept: the criteria that the base meets; the next answer must meet them too.
        later_problems: the problems of a later attempt that scored no better than the base.
        cut: notes on the latest answers that were cut off at the output limit.
        vetoes: problems that code found. With any of them, the base is not accepted at any score.
        fails_unseen: the base does not meet a hidden criterion.
        guidance: feedback from a person.
    """

    strategy: Strategy
    base: Attempt | None
    reasoning: str
    problems: tuple[str, ...]
    failing: tuple[Failing, ...] = ()
    kept: tuple[CriterionResult, ...] = ()
    later_problems: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    vetoes: tuple[str, ...] = ()
    fails_unseen: bool = False
    guidance: str | None = None


def passes(score: float | None, threshold: float) -> bool:
    """Whether a score is accepted. No other code decides this."""
    return score is not None and meets(score, threshold)


def best_of(attempts: Iterable[Attempt], *, prefers_latest: bool = False) -> Attempt | None:
    """Return the best attempt: attempts that meet the required criteria come first, then the highest score decides.

    If scores are equal, the earliest attempt is the best, or with `prefers_latest` the first attempt of the latest
    iteration. An outdated answer is the best only if every scored answer is outdated. An answer whose evaluation was
    skipped is better than an answer that fails a required criterion. `passed` has no influence, because a continuation
    may have changed the threshold. If no attempt has a score, the result is the last complete answer, or None if there
    is no complete answer.
    """
    ordered = sorted(_whole(attempts), key=lambda attempt: (attempt.iteration, attempt.candidate))
    if not _scored(ordered):
        return ordered[-1] if ordered else None
    comparable = [
        each for each in ordered if each.score is not None or (each.evaluation and each.evaluation.is_skipped)
    ]

    def rank(attempt: Attempt) -> tuple[bool, bool, float, int]:
        on_ties = attempt.iteration if prefers_latest else 0
        return not attempt.is_outdated, attempt.is_qualified, attempt.score or 0.0, on_ties

    return max(comparable, key=rank)


def _whole(attempts: Iterable[Attempt]) -> list[Attempt]:
    # A truncated answer is neither evaluated nor compared with others.
    return [attempt for attempt in attempts if not attempt.is_truncated]


def _latest(attempts: Sequence[Attempt]) -> list[Attempt]:
    latest = max((attempt.iteration for attempt in attempts), default=0)
    return [attempt for attempt in attempts if attempt.iteration == latest]


def _scored(attempts: Iterable[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.score is not None]


def is_accepted(attempt: Attempt, threshold: float) -> bool:
    """Whether an answer meets the current threshold and all required criteria. An outdated answer is never accepted."""
    return attempt.is_qualified and not attempt.is_outdated and passes(attempt.score, threshold)


def earlier_duplicate(attempt: Attempt, attempts: Sequence[Attempt]) -> Attempt | None:
    """Return an earlier complete attempt with the same answer.

    White space is ignored, and an evaluated attempt is preferred.
    """
    folded = fold(attempt.answer)
    twins = [
        other
        for other in _whole(attempts)
        if (other.iteration, other.candidate) < (attempt.iteration, attempt.candidate) and fold(other.answer) == folded
    ]
    return next(iter(_scored(twins) or twins), None)


def next_action(rules: Rules, attempts: Sequence[Attempt]) -> LoopAction:
    """Return the next action: generate, evaluate, or finish with a stop reason."""
    current = _latest(attempts)
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
    latest, whole = current[0].iteration, _whole(current)
    if whole and all(attempt.evaluation and attempt.evaluation.is_skipped for attempt in whole):
        return StopReason.EVALUATION_SKIPPED
    if all(_repeats(attempts, latest - back) for back in range(rules.unchanged_patience)):
        return _unless_unevaluated(StopReason.UNCHANGED, attempts)
    if latest >= rules.iteration_limit:
        return _unless_unevaluated(StopReason.ITERATION_LIMIT, attempts)
    return StopReason.PLATEAU if _is_on_plateau(rules, attempts) else None


def _repeats(attempts: Sequence[Attempt], iteration: int) -> bool:
    """Whether each complete answer of an iteration equals an answer of an earlier iteration."""
    whole = [attempt for attempt in _whole(attempts) if attempt.iteration == iteration]
    earlier = [attempt for attempt in attempts if attempt.iteration < iteration]
    return bool(whole) and all(earlier_duplicate(attempt, earlier) for attempt in whole)


def _unless_unevaluated(reason: StopReason, attempts: Sequence[Attempt]) -> StopReason:
    """Return the stop reason, or the reason of a failure if no attempt has a score."""
    if _scored(attempts):
        return reason
    return StopReason.EVALUATOR_ERROR if _whole(attempts) or not attempts else StopReason.ERROR


def _is_on_plateau(rules: Rules, attempts: Sequence[Attempt]) -> bool:
    """Whether the last `plateau_patience` iterations raised the best score by at most `plateau_delta`."""
    # Gains are measured against the last iteration with a gain, so that many small gains together count as one.
    baseline: Attempt | None = None
    idle = 0
    for iteration in sorted({attempt.iteration for attempt in attempts}):
        best = best_of(_scored(a for a in attempts if a.iteration == iteration))
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


def feedback_for(rules: Rules, attempts: Sequence[Attempt], guidance: str | None = None) -> Feedback | None:
    """Collect the feedback for the next prompt. Return None for a first generation without guidance."""
    best = best_of(attempts, prefers_latest=rules.prefers_latest)
    base = best if rules.start_from == "best" else best_of(_latest(_whole(attempts)))
    cut = [attempt.evaluation for attempt in _latest(attempts) if attempt.evaluation and attempt.is_truncated]
    if base is None and guidance is None and not cut:
        return None
    # Without a verdict on the base, the latest verdict is the feedback.
    evaluated = base if base is None or base.score is not None else best_of(_latest(_scored(attempts)))
    evaluation = evaluated.evaluation if evaluated else None
    before = met_before(evaluated, attempts) if evaluated else frozenset[str]()
    criteria = evaluated.criteria if evaluated else ()
    seen = [result for result in criteria if not result.hidden]
    failing = [result for result in seen if result.passed is False]
    gaps = {result.gap for result in failing}
    return Feedback(
        strategy=rules.strategy,
        base=None if rules.strategy == "fresh" else base,
        reasoning=evaluation.reasoning if evaluation and not evaluation.criteria else "",
        problems=tuple(s for s in (evaluation.suggestions if evaluation else ()) if s not in gaps),
        failing=tuple(Failing(result, result.id in before) for result in failing),
        kept=tuple(result for result in seen if result.passed),
        later_problems=_later_problems(evaluated, attempts),
        cut=tuple(dict.fromkeys(text for each in cut for text in each.suggestions)),
        fails_unseen=any(result.hidden and result.passed is False for result in criteria),
        guidance=guidance,
    )


def met_before(attempt: Attempt, attempts: Iterable[Attempt]) -> frozenset[str]:
    """Return the ids of the criteria that an earlier iteration met."""
    earlier = (each for each in attempts if each.iteration < attempt.iteration)
    return frozenset(result.id for each in earlier for result in each.criteria if result.passed)


def _later_problems(evaluated: Attempt | None, attempts: Sequence[Attempt]) -> tuple[str, ...]:
    if evaluated is None:
        return ()
    # Only the newest of the later iterations counts, so that the feedback does not grow with the history.
    attempt = best_of(_latest([a for a in _scored(attempts) if a.iteration > evaluated.iteration]))
    if attempt is None or attempt.evaluation is None:
        return ()
    met = {result.id for result in evaluated.criteria if result.passed}
    lost = [result for result in attempt.criteria if result.passed is False and not result.hidden and result.id in met]
    known = {result.gap for result in lost} | set(evaluated.evaluation.suggestions if evaluated.evaluation else ())
    words = tuple(f"No longer met: {result.name}. {result.gap}".strip() for result in lost)
    return words + tuple(s for s in attempt.evaluation.suggestions if s not in known)
