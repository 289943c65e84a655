"""The shapes of what a job came to: its result, its error, and the events that tell of it.

They describe JSON that is stored as it was made; nothing validates it again when it is read.
"""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from redraft.operations.jobs.iterations import CitationFound
from redraft.operations.shapes import Resource


class JobResult(Resource):
    """The best answer of a job, its score, and what it makes of its sources."""

    final_answer: str
    parsed: Any = Field(description="With answer_schema: the answer as JSON; else null.")
    success: bool | None = Field(description="Whether it was accepted; null: the evaluation was skipped.")
    total_iterations: int
    final_score: float | None
    best_iteration: int
    citations: list[CitationFound]
    sources_used: list[int] = Field(description="Indices of the cited sources, from 0 on.")
    sources_provided: int
    grounding_score: float | None
    unsupported_claims: list[str]
    confidence: float | None
    cited_text: str | None = Field(description="Of a structured answer: its prose, which all positions count in.")
    input_tokens: int = Field(description="Of the whole job, as the next two.")
    output_tokens: int
    latency_ms: int | None


class EventData(Resource):
    """What every event says; each type adds fields of its own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    message: str
    at: str = Field(json_schema_extra={"format": "date-time"})
    seconds: float | None = Field(default=None, description="What it took.")
    iteration: int | None = None
    candidate: int | None = None
    score: float | None = None
    passed: bool | None = None
    status: str | None = None
    stop_reason: str | None = None
    strategy: Literal["revise", "fresh", "encourage"] | None = None
    retry_count: int | None = None
    ts: str | None = None
