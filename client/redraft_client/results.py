"""Results that the client composes of several parts of the API."""

from dataclasses import dataclass, field
from typing import Any

from redraft_client.models import EventData, Job


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a job.

    Attributes:
        text: the answer.
        success: whether the evaluation accepted it; None if it was not evaluated. An answer that was not accepted is
            the best one found.
        score: its score, from 0 to 1; None if no evaluation was usable.
        job: the whole job: stop reason, citations, usage, warnings.
    """

    text: str
    success: bool | None
    score: float | None
    job: Job = field(repr=False)

    @property
    def parsed(self) -> Any:
        """The value of an answer with `answer_schema`."""
        return getattr(self.job.result, "parsed", None)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """An event of a job or run. `id` is None for an event that is not stored, such as `answer.delta`."""

    type: str
    data: EventData
    id: int | None
