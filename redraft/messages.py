"""The messages to workers, whose payload has only ids, and the messages to clients that watch a job."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self
from uuid import uuid4

from redraft.domain.jobs.states import Step


@dataclass(frozen=True, slots=True)
class StepMessage:
    """Says that a step of a job is due. A stale or duplicate message has no effect: the claim compares `step_no`."""

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


_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer that a model is generating. It is sent only to clients that watch the job.

    Attributes:
        candidate: the number of the candidate; the first one is 1.
        attempt: the number of the attempt; its text replaces the text of earlier attempts.
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
        # Faster than `asdict`, which copies each value: a worker may publish thousands of deltas a second
        return _encode({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def decode(cls, payload: bytes) -> Self | None:
        """Return the delta, or None if it has an unknown form, because another version of Redraft has sent it."""
        try:
            return cls(**json.loads(payload))
        except (TypeError, ValueError):
            return None


def task_message(task: str, payload: Mapping[str, Any], queue: str, *, priority: int, life_s: float) -> str:
    """Return a message to a Celery worker in the form that kombu stores in a list of Redis.

    The content is version 2 of Celery's protocol. Celery's `send_task` builds an equal message with ten times the CPU
    time, because it creates a client, a queue and an exchange for each message.
    """
    task_id = str(uuid4())
    expires_at = datetime.now(UTC) + timedelta(seconds=life_s)
    body = json.dumps([[], payload, dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))])
    headers = {
        "lang": "py",
        "task": task,
        "id": task_id,
        "root_id": task_id,
        "expires": expires_at.isoformat(),
        "retries": 0,
        "kwargsrepr": repr(payload),
        "ignore_result": True,
    }
    properties = {
        "correlation_id": task_id,
        "delivery_tag": str(uuid4()),
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": priority,
        "body_encoding": "base64",
    }
    envelope = {
        "body": base64.b64encode(body.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": headers,
        "properties": properties,
    }
    return json.dumps(envelope)


def list_of(queue: str, priority: int) -> str:
    """Return the name of the list in Redis that has kombu's messages of this queue and priority."""
    # kombu separates queue and priority by these two characters
    return f"{queue}\x06\x16{priority}" if priority else queue


INTERACTIVE_QUEUE = "interactive"
BULK_QUEUE = "bulk"
CANARY_TASK = "redraft.canary"
HEARTBEAT_COMMAND = "redraft_heartbeat"


def canary_queue(worker_id: str) -> str:
    """Return the name of the queue that only this worker consumes."""
    return f"canary.{worker_id}"
