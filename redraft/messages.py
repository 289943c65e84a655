"""The messages to workers, whose payload has only ids, and the messages to clients that watch a job."""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from redraft.domain.jobs.states import Step


@dataclass(frozen=True, slots=True)
class StepMessage:
    """The message that a step of a job is due. A stale or duplicate one has no effect: the claim compares `step_no`."""

    step: Step
    job_id: str
    step_no: int
    # Items of runs have their own queue, which workers read after the queue of single jobs
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
    """A piece of an answer that is being generated. Only clients that watch the job get it.

    Attributes:
        candidate: the number of the candidate; the first one is 1.
        attempt: the number of the attempt; its text replaces the text of lower attempts.
        offset: the number of characters of this attempt before the piece; with 0 the text begins again.
    """

    iteration: int
    candidate: int
    attempt: int
    offset: int
    text: str
    at: str = field(default_factory=_now, compare=False)

    def encode(self) -> str:
        """Return the delta as JSON in ASCII, since UTF-8 cannot encode lone surrogates."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, payload: bytes) -> Self | None:
        """The delta; None if another version has sent it in an unknown form."""
        try:
            return cls(**json.loads(payload))
        except (TypeError, ValueError):
            return None


INTERACTIVE_QUEUE = "interactive"
BULK_QUEUE = "bulk"
CANARY_TASK = "redraft.canary"
HEARTBEAT_COMMAND = "redraft_heartbeat"


def canary_queue(worker_id: str) -> str:
    """The name of the queue that only this worker consumes."""
    return f"canary.{worker_id}"
