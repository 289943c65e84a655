"""What the next prompt says about earlier answers. `redraft/prompts/generate/feedback.j2` has the words.

Only the best and the latest attempts count, so that the feedback does not grow with the number of iterations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redraft.domain.evaluation.rubrics import CriterionResult
from redraft.domain.loop.attempts import Attempt, best_of, complete, in_latest_iteration, scored
from redraft.domain.loop.rules import Rules, Strategy


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


def feedback_for(rules: Rules, attempts: Sequence[Attempt], guidance: str | None = None) -> Feedback | None:
    """Collect the feedback for the next prompt. Return None for a first generation without guidance."""
    best = best_of(attempts, prefers_latest=rules.prefers_latest)
    base = best if rules.start_from == "best" else best_of(in_latest_iteration(complete(attempts)))
    latest = in_latest_iteration(attempts)
    cut = [attempt.evaluation for attempt in latest if attempt.evaluation and attempt.is_truncated]
    if base is None and guidance is None and not cut:
        return None
    # Without a verdict on the base, the latest verdict is the feedback.
    evaluated = base if base is None or base.score is not None else best_of(in_latest_iteration(scored(attempts)))
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
    attempt = best_of(in_latest_iteration([a for a in scored(attempts) if a.iteration > evaluated.iteration]))
    if attempt is None or attempt.evaluation is None:
        return ()
    met = {result.id for result in evaluated.criteria if result.passed}
    lost = [result for result in attempt.criteria if result.passed is False and not result.hidden and result.id in met]
    known = {result.gap for result in lost} | set(evaluated.evaluation.suggestions if evaluated.evaluation else ())
    words = tuple(f"No longer met: {result.name}. {result.gap}".strip() for result in lost)
    return words + tuple(s for s in attempt.evaluation.suggestions if s not in known)
