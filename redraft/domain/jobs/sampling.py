"""The sampling parameters of a request, which generator and evaluators have in common."""

from typing import Annotated

from pydantic import Field

from redraft.domain.bodies.fields import StrictModel
from redraft.domain.calls.conversation import ReasoningEffort, SamplingParameters


class Sampling(StrictModel):
    """Sampling parameters. A parameter that is null is not sent.

    If a model refuses a parameter, the call is repeated without it, and the job has the warning
    `parameter_not_sent`.
    """

    temperature: float | None = Field(default=None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    max_output_tokens: int | None = Field(
        default=None, ge=1, le=1_000_000, description="The limit includes reasoning tokens."
    )
    reasoning_effort: ReasoningEffort | None = Field(
        default=None,
        description="Sent as reasoning_effort (openai), or as thinking with an effort or a budget (anthropic).",
    )
    seed: int | None = Field(default=None, ge=-(2**63), le=2**63 - 1, description="Anthropic's API accepts no seed.")

    @property
    def parameters(self) -> SamplingParameters:
        """The parameters without the output limit, which is planned for each call."""
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "reasoning_effort": self.reasoning_effort,
        }


ChangedSampling = Annotated[
    Sampling | None, Field(description="Omitted fields keep their earlier value; a field with null is not sent.")
]
