"""Message contracts: what is sent to workers, by name, with a typed payload of ids only; what listeners are told."""

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
    is_bulk: bool = field(default=False, compare=False)
    """An item of a run: people's jobs go first."""

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
    """A piece of an answer that is being written: for whoever listens now, stored nowhere.

    Attributes:
        iteration: the iteration that is being written.
        candidate: which of its candidates, from 1 on.
        attempt: which attempt at it; a higher one withdraws the text of those before.
        offset: the characters of this attempt's text before this piece; 0 begins it anew.
        text: the piece.
        at: when it came.
    """

    iteration: int
    candidate: int
    attempt: int
    offset: int
    text: str
    at: str = field(default_factory=_now, compare=False)

    def encode(self) -> str:
        """As JSON in ASCII, which holds any text."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, payload: bytes) -> Self | None:
        """None for what another version has sent and this one does not understand."""
        try:
            return cls(**json.loads(payload))
        except (TypeError, ValueError):
            return None


INTERACTIVE_QUEUE = "interactive"
BULK_QUEUE = "bulk"
CANARY_TASK = "redraft.canary"


def canary_queue(worker_id: str) -> str:
    """The queue that one worker alone listens to."""
    return f"canary.{worker_id}"
