"""The order in which people review verdicts: the least certain first."""

from dataclasses import dataclass

# Evaluators whose scores are this far apart do not agree.
DISAGREEMENT = 0.2


@dataclass(frozen=True, slots=True)
class ReviewPriority:
    """How uncertain a verdict is, and the reason in words."""

    weight: float
    words: str


def review_priority_of(
    score: float, threshold: float, *, disagreement: float | None, is_contradicted: bool
) -> ReviewPriority:
    """Rank a verdict: contradicted ones first, then disagreeing evaluators, then scores near the threshold.

    Args:
        score: the score of the verdict.
        threshold: the score threshold of the job.
        disagreement: the distance between the evaluators' scores; None with a single evaluator.
        is_contradicted: whether another evaluation of the same answer decided otherwise.
    """
    distance = abs(score - threshold)
    side = "above" if score >= threshold else "below"
    # The distance is at most 1, so the ranges of the three kinds hardly overlap.
    if is_contradicted:
        return ReviewPriority(3 - distance, "another evaluation of this answer decided otherwise")
    if disagreement is not None and disagreement >= DISAGREEMENT:
        return ReviewPriority(1 + disagreement, f"its evaluators are {disagreement:.2f} apart")
    words = f"{distance:.2f} {side} the threshold" if distance >= 0.005 else "at the threshold"
    return ReviewPriority(1 - distance, words)
