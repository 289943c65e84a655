"""What a person may say of an evaluation."""

from typing import Annotated

from pydantic import Field

from redraft.domain.bodies.fields import Fraction, StrictModel, Text
from redraft.domain.evaluation.calibration import Verdict

NOTE_MAX = 10_000

Name = Annotated[Text, Field(max_length=64)]


class RateEvaluation(StrictModel):
    """A person's verdict on an evaluation, or on one criterion of it."""

    verdict: Verdict = Field(description="Whether the evaluator is right that the answer passes, or that it does not.")
    criterion: Name | None = Field(default=None, description="A criterion's id; null: the evaluation as a whole.")
    candidate: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Null: the only one, or the one that scored best."
    )
    evaluation_id: Name | None = Field(
        default=None, description="An audit's or a rescoring's evaluation; null: the job's own."
    )
    score: Fraction | None = Field(default=None, description="What you would have given.")
    note: Annotated[Text, Field(max_length=NOTE_MAX)] = ""
