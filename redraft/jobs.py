"""Messages to workers, which have only ids as payload, and to watching clients."""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from redraft.domain.jobs.states import Step


@dataclass(frozen=True, slots=True)
class StepMessage:
    """A step of a job is due. Stale and duplicate messages are harmless: the claim compares `step_no`."""

    step: Step
    job_id: str
    step_no: int
    # Whether the job is an item of a run: single jobs go first
    is_bulk: bool = field(default=False, compare=False)

    @property
    def task(self) -> str:
        return f"redraft.{self.step.value}"

    @property
    def payload(self) -> dict[str, Any]:
        return {"job_id": self.job_id, "step_no": self.step_no}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer that is being generated, for watching clients only.

    Attributes:
        candidate: the number of the candidate, from 1 on.
        attempt: the number of the attempt; a higher one replaces the text of earlier ones.
        offset: the characters of this attempt before the piece; 0 starts the text again.
    """

    iteration: int
    candidate: int
    attempt: int
    offset: int
    text: str
    at: str = field(default_factory=_now, compare=False)

    def encode(self) -> str:
        """Return the delta as JSON. ASCII escapes can encode lone surrogates too."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, payload: bytes) -> Self | None:
        """The delta, or None if another version has sent it in an unknown form."""
        try:
            return cls(**json.loads(payload))
        except (TypeError, ValueError):
            return None


INTERACTIVE_QUEUE = "interactive"
BULK_QUEUE = "bulk"
CANARY_TASK = "redraft.canary"


def canary_queue(worker_id: str) -> str:
    """The queue that only this worker consumes."""
    return f"canary.{worker_id}"
