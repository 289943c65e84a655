"""The loop as a pure function: from a job's rules and history, what comes next and why.

It knows no database, no clock and no model. The operations ask `next_move` after each step and
`feedback_for` before each generation; budgets and deadlines are theirs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from redraft.domain.scores import meets
from redraft.domain.states import StopReason
from redraft.domain.texts import fold

Strategy = Literal["revise", "fresh", "encourage"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One verdict as the loop sees it. `score` is None when the evaluation is an error."""

    score: float | None
    passed: bool
    reasoning: str = ""
    suggestions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One candidate of one iteration; `evaluation` is None until it is judged."""

    iteration: int
    candidate: int
    answer: str
    evaluation: Evaluation | None = None

    @property
    def score(self) -> float | None:
        return self.evaluation.score if self.evaluation else None


@dataclass(frozen=True, slots=True)
class Rules:
    """What of a request steers the loop.

    Attributes:
        iteration_limit: the last iteration's number at most (a continuation raises it).
        first_iteration: where the loop, or its latest continuation, began; plateaus count from there.
    """

    iteration_limit: int
    first_iteration: int = 1
    plateau_patience: int = 2
    plateau_delta: float = 0.02
    strategy: Strategy = "revise"
    start_from: Literal["best", "last"] = "best"


@dataclass(frozen=True, slots=True)
class Generate:
    iteration: int


@dataclass(frozen=True, slots=True)
class Evaluate:
    iteration: int


@dataclass(frozen=True, slots=True)
class Finish:
    reason: StopReason


Move = Generate | Evaluate | Finish


@dataclass(frozen=True, slots=True)
class Feedback:
    """What the next prompt must hold beside the task and the criteria.

    Attributes:
        base: the answer to work from; None when none is shown.
        reasoning: what the evaluator said of it.
        problems: what to change, each named.
        later_problems: what was wrong with a later attempt that did not do better.
        guidance: a person's own words.
    """

    strategy: Strategy
    base: Attempt | None
    reasoning: str
    problems: tuple[str, ...]
    later_problems: tuple[str, ...] = ()
    guidance: str | None = None


def passes(score: float | None, threshold: float) -> bool:
    """The one place that decides acceptance by score."""
    return score is not None and meets(score, threshold)


def best_of(attempts: Iterable[Attempt]) -> Attempt | None:
    """Highest valid score, the earliest on ties; the last answer if none is scored.

    Whether one passed once does not count: a continuation may have moved the threshold.
    """
    ordered = sorted(attempts, key=lambda attempt: (attempt.iteration, attempt.candidate))
    scored = [attempt for attempt in ordered if attempt.score is not None]
    if not scored:
        return ordered[-1] if ordered else None
    return max(scored, key=lambda attempt: attempt.score or 0.0)


def twin_of(attempt: Attempt, attempts: Sequence[Attempt]) -> Attempt | None:
    """An earlier attempt with the same answer after white space folding, a judged one if there is one."""
    folded = fold(attempt.answer)
    twins = [
        other
        for other in attempts
        if (other.iteration, other.candidate) < (attempt.iteration, attempt.candidate) and fold(other.answer) == folded
    ]
    return next((twin for twin in twins if twin.score is not None), twins[0] if twins else None)


def next_move(rules: Rules, attempts: Sequence[Attempt]) -> Move:
    """What comes next: generate, evaluate, or finish and why."""
    latest = max((attempt.iteration for attempt in attempts), default=0)
    if latest < rules.first_iteration:
        return Generate(latest + 1)
    current = [attempt for attempt in attempts if attempt.iteration == latest]
    if any(attempt.evaluation is None for attempt in current):
        return Evaluate(latest)
    reason = _reason_to_stop(rules, attempts, current)
    return Finish(reason) if reason else Generate(latest + 1)


def _reason_to_stop(rules: Rules, attempts: Sequence[Attempt], current: Sequence[Attempt]) -> StopReason | None:
    if any(attempt.evaluation and attempt.evaluation.passed for attempt in current):
        return StopReason.ACCEPTED
    latest = current[0].iteration
    if _is_unchanged(current, attempts):
        return _unless_unjudged(StopReason.UNCHANGED, attempts)
    if latest >= rules.iteration_limit:
        return _unless_unjudged(StopReason.ITERATION_LIMIT, attempts)
    if _is_on_plateau(rules, attempts):
        return StopReason.PLATEAU
    return None


def _unless_unjudged(reason: StopReason, attempts: Sequence[Attempt]) -> StopReason:
    scored = any(attempt.score is not None for attempt in attempts)
    return reason if scored else StopReason.EVALUATOR_ERROR


def _is_unchanged(current: Sequence[Attempt], attempts: Sequence[Attempt]) -> bool:
    earlier = [attempt for attempt in attempts if attempt.iteration < current[0].iteration]
    return bool(earlier) and all(twin_of(attempt, earlier) is not None for attempt in current)


def _is_on_plateau(rules: Rules, attempts: Sequence[Attempt]) -> bool:
    """Early stopping: the mark to beat moves only when an iteration gains more than delta on it."""
    if rules.plateau_patience == 0:
        return False
    mark: float | None = None
    idle = 0
    for iteration in sorted({attempt.iteration for attempt in attempts}):
        scores = [a.score for a in attempts if a.iteration == iteration and a.score is not None]
        if not scores:
            continue
        if mark is None or max(scores) > mark + rules.plateau_delta:
            mark, idle = max(scores), 0
        elif iteration >= rules.first_iteration:
            idle += 1
    return idle >= rules.plateau_patience


def feedback_for(rules: Rules, attempts: Sequence[Attempt], guidance: str | None = None) -> Feedback | None:
    """What the next prompt says of earlier attempts; None for a first generation without guidance."""
    base = _base_of(rules, attempts)
    if base is None and guidance is None:
        return None
    judged = _judged_for(base, attempts)
    evaluation = judged.evaluation if judged else None
    return Feedback(
        strategy=rules.strategy,
        base=None if rules.strategy == "fresh" else base,
        reasoning=evaluation.reasoning if evaluation else "",
        problems=evaluation.suggestions if evaluation else (),
        later_problems=_later_problems(judged, attempts),
        guidance=guidance,
    )


def _base_of(rules: Rules, attempts: Sequence[Attempt]) -> Attempt | None:
    best = best_of(attempts)
    if best is None or rules.start_from == "best":
        return best
    latest = max(attempt.iteration for attempt in attempts)
    return best_of(attempt for attempt in attempts if attempt.iteration == latest)


def _judged_for(base: Attempt | None, attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt whose verdict is the last good feedback: the base's own, else the latest valid one."""
    if base is None or base.score is not None:
        return base
    scored = [attempt for attempt in attempts if attempt.score is not None]
    latest = max((attempt.iteration for attempt in scored), default=0)
    return best_of(attempt for attempt in scored if attempt.iteration == latest)


def _later_problems(judged: Attempt | None, attempts: Sequence[Attempt]) -> tuple[str, ...]:
    if judged is None:
        return ()
    later = [a for a in attempts if a.iteration > judged.iteration and a.score is not None]
    if not later:
        return ()
    latest = max(attempt.iteration for attempt in later)
    worst = best_of(attempt for attempt in later if attempt.iteration == latest)
    evaluation = worst.evaluation if worst else None
    known = set(judged.evaluation.suggestions if judged.evaluation else ())
    return tuple(s for s in (evaluation.suggestions if evaluation else ()) if s not in known)
