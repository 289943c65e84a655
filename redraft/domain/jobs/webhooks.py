"""Standard Webhooks 1.0: the bodies of deliveries and their signatures."""

import base64
import hashlib
import hmac
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
