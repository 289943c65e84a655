"""Standard Webhooks 1.0: bodies, signatures, and the retry schedule."""

import base64
import hashlib
import hmac
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

from pydantic_core import to_json

EventType = Literal[
    "job.queued",
    "job.started",
    "iteration.started",
    "iteration.generated",
    "iteration.evaluated",
    "thinking",
    "step.retrying",
    "job.continued",
    "done",
    "evaluated",
]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
RunEventType = Literal["run.finished", "run.round_finished", "run.gate_failed"]

EVENT_BYTES_MAX = 64 * 1024
"""A larger event is sent without its long parts."""
_PART_BYTES_MAX = 4 * 1024

WAITS_S = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""The waits after the first failed attempt, the second, and so on. Standard Webhooks recommends this schedule."""
ATTEMPTS_MAX = len(WAITS_S) + 1
WAIT_MAX_S = 86_400.0
_JITTER = 0.1


def message_type(event_type: str) -> str:
    """Return the public event type, which begins with `job.` or `run.`: `job.done` for `done`."""
    return event_type if event_type.startswith(("job.", "run.")) else f"job.{event_type}"


def body_of(about: Mapping[str, Any], seq: int, event_type: str, event: Mapping[str, Any]) -> bytes:
    """Build the body of a delivery about a job or run. `seq` is the number of a job's event, or the run's version."""
    # The body depends only on stored values, so that each attempt sends the same bytes.
    sent, is_truncated = _within_bounds(event)
    data = {**about, "seq": seq, "truncated": is_truncated, "event": sent}
    return to_json({"type": message_type(event_type), "timestamp": event["at"], "data": data})


def _within_bounds(event: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the event data to send, and whether long parts were replaced by null."""
    if len(to_json(event)) <= EVENT_BYTES_MAX:
        return dict(event), False
    return {name: _shortened(value) for name, value in event.items()}, True


def _shortened(value: Any) -> Any:
    parts = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    return _unless_long(value if parts is None else {name: _unless_long(part) for name, part in parts.items()})


def _unless_long(value: Any) -> Any:
    return value if len(to_json(value)) <= _PART_BYTES_MAX else None


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """Build the header `webhook-signature`: one signature per key, so that keys can be rotated without a gap."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = [hmac.new(key, signed, hashlib.sha256).digest() for key in keys]
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def headers_of(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Build the headers of Standard Webhooks; `timestamp` is the time of the attempt in Unix seconds."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(keys, message_id, timestamp, body),
    }


def attempts_left(attempts: int, attempts_before: int) -> int:
    """Return how many attempts a delivery has left. The `attempts_before` its latest redelivery do not count."""
    return max(0, ATTEMPTS_MAX - (attempts - attempts_before))


def wait_s(failures: int, *, asked_s: float | None = None, rng: random.Random | None = None) -> float | None:
    """Return the seconds to wait after a number of failed attempts (from 1), or None if no attempt is left.

    `asked_s` is the receiver's `Retry-After`. The wait is at least as long; a value above one day counts as one day.
    """
    if failures >= ATTEMPTS_MAX:
        return None
    # Because of the jitter, deliveries that the same outage delayed are not repeated at the same moment.
    own_s = WAITS_S[failures - 1] * (rng or random).uniform(1, 1 + _JITTER)
    return max(own_s, min(asked_s or 0.0, WAIT_MAX_S))
