"""Ratings of evaluations by people: the body of a request, and the priority of a verdict for review."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from redraft.domain.bodies.fields import Fraction, StrictModel, Text
from redraft.domain.evaluation.calibration import Verdict

NOTE_MAX = 10_000
# Evaluators disagree if their scores differ by at least this much.
DISAGREEMENT = 0.2

Name = Annotated[Text, Field(max_length=64)]


class RateEvaluation(StrictModel):
    """A person's rating of an evaluation, or of one criterion of it."""

    verdict: Verdict = Field(description="Your opinion on the evaluator's decision to pass or fail the answer.")
    criterion: Name | None = Field(default=None, description="A criterion's id; null: the evaluation as a whole.")
    candidate: int | None = Field(
        default=None, ge=1, le=1_000_000, description="The number of the candidate; null: the one with the best score."
    )
    evaluation_id: Name | None = Field(
        default=None, description="The id of an evaluation by an audit or a rescoring; null: the job's own."
    )
    score: Fraction | None = Field(default=None, description="The score that you would have given.")
    note: Annotated[Text, Field(max_length=NOTE_MAX)] = ""


@dataclass(frozen=True, slots=True)
class ReviewPriority:
    """The priority of a verdict for review, and the reason in words. A higher weight is reviewed earlier.

    `is_dispute`: whether evaluators disagree about the answer.
    """

    weight: float
    words: str
    is_dispute: bool = False


def review_priority_of(
    score: float, threshold: float, *, disagreement: float | None, is_contradicted: bool
) -> ReviewPriority:
    """Return the priority of a verdict for review by people.

    Verdicts that another evaluation contradicts come first, then verdicts of evaluators that disagree, then scores near
    the threshold.
    """
    distance = abs(score - threshold)
    side = "above" if score >= threshold else "below"
    # The distance is at most 1, so the weights of the three kinds lie in ranges that hardly overlap.
    if is_contradicted:
        return ReviewPriority(3 - distance, "another evaluation of this answer decided otherwise", is_dispute=True)
    if disagreement is not None and disagreement >= DISAGREEMENT:
        return ReviewPriority(1 + disagreement, f"its evaluators are {disagreement:.2f} apart", is_dispute=True)
    words = f"{distance:.2f} {side} the threshold" if distance >= 0.005 else "at the threshold"
    return ReviewPriority(1 - distance, words)
