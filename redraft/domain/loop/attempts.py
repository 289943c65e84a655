"""The attempts of a job, their evaluations, and which attempt is the best.

These functions use no database, no clock and no model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redraft.domain.evaluation.rubrics import CriterionResult
from redraft.domain.evaluation.scores import meets
from redraft.domain.text.cleaning import fold


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
    ordered = sorted(complete(attempts), key=lambda attempt: (attempt.iteration, attempt.candidate))
    if not scored(ordered):
        return ordered[-1] if ordered else None
    comparable = [
        each for each in ordered if each.score is not None or (each.evaluation and each.evaluation.is_skipped)
    ]

    def rank(attempt: Attempt) -> tuple[bool, bool, float, int]:
        on_ties = attempt.iteration if prefers_latest else 0
        return not attempt.is_outdated, attempt.is_qualified, attempt.score or 0.0, on_ties

    return max(comparable, key=rank)


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
        for other in complete(attempts)
        if (other.iteration, other.candidate) < (attempt.iteration, attempt.candidate) and fold(other.answer) == folded
    ]
    return next(iter(scored(twins) or twins), None)


def complete(attempts: Iterable[Attempt]) -> list[Attempt]:
    # A truncated answer is neither evaluated nor compared with others.
    return [attempt for attempt in attempts if not attempt.is_truncated]


def in_latest_iteration(attempts: Sequence[Attempt]) -> list[Attempt]:
    latest = max((attempt.iteration for attempt in attempts), default=0)
    return [attempt for attempt in attempts if attempt.iteration == latest]


def scored(attempts: Iterable[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.score is not None]
