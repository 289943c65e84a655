"""Results that the client builds from responses of the API."""

from dataclasses import dataclass, field
from typing import Any

from redraft_client.models import EventData, Job


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a job.

    Attributes:
        text: the answer.
        success: whether the evaluation accepted the answer; None if it was not evaluated. If no answer was accepted,
            `text` is the best answer.
        score: the score of the answer, from 0 to 1; None if no evaluation was usable.
        job: the whole job, with its stop reason, citations, usage and warnings.
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
