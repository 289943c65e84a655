"""Which verdicts a person should look at first: those that could as well have been others."""

from dataclasses import dataclass

DISAGREEMENT = 0.2
"""Judges whose scores lie so far apart do not agree."""


@dataclass(frozen=True, slots=True)
class ReviewPriority:
    """How much a verdict is in doubt: the higher, the more; and why, in words."""

    weight: float
    words: str


def review_priority_of(
    score: float, threshold: float, *, disagreement: float | None, is_contradicted: bool
) -> ReviewPriority:
    """What speaks against a verdict.

    Args:
        score: the verdict's.
        threshold: what it was held against.
        disagreement: how far apart the scores of several judges lie; None where one judged.
        is_contradicted: whether another evaluation of the same answer decided otherwise.
    """
    distance = abs(score - threshold)
    side = "above" if score >= threshold else "below"
    if is_contradicted:
        return ReviewPriority(3 - distance, "another evaluation of this answer decided otherwise")
    if disagreement is not None and disagreement >= DISAGREEMENT:
        return ReviewPriority(1 + disagreement, f"its evaluators are {disagreement:.2f} apart")
    words = f"{distance:.2f} {side} the threshold" if distance >= 0.005 else "at the threshold"
    return ReviewPriority(1 - distance, words)
