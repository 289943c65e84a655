"""Verifies deliveries of webhooks, whose signatures follow Standard Webhooks 1.0."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import ValidationError

from redraft_client._base import ResponseModel
from redraft_client.errors import InvalidSignature, UnexpectedResponse
from redraft_client.models import JobWebhookBody, RunWebhookBody

_DIGITS_MAX = 12


class OtherWebhookBody(ResponseModel):
    """A delivery of a type that this version of the client does not know."""

    type: str
    timestamp: str
    data: dict[str, Any]


WebhookBody: TypeAlias = JobWebhookBody | RunWebhookBody | OtherWebhookBody


def verify_webhook(body: bytes, headers: Mapping[str, str], secret: str, *, tolerance_s: float = 300.0) -> WebhookBody:
    """Verify a delivery, and return its content. Raises InvalidSignature if your Redraft server did not sign it.

    Args:
        body: the bytes as they arrived. JSON that was parsed and written again has another signature.
        headers: the headers of the request; the case of their names does not matter.
        secret: REDRAFT_WEBHOOK_SECRET of the server; several secrets are separated by spaces.
        tolerance_s: the maximum difference between the delivery's time and this clock, because somebody could send an
            old delivery again.

    A delivery may arrive more than once: ignore a `webhook-id` that you have already processed.
    """
    found = {name.lower(): value for name, value in headers.items()}
    message_id, timestamp, given = (found.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (message_id and timestamp and given):
        raise InvalidSignature("A header is missing: webhook-id, webhook-timestamp or webhook-signature.")
    signed = f"{message_id}.{timestamp}.".encode("utf-8", "replace") + body
    if not any(_is_signed(signed, given, key) for key in _keys(secret)):
        raise InvalidSignature("No signature fits the secret. Is it REDRAFT_WEBHOOK_SECRET of the server?")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _DIGITS_MAX):
        raise InvalidSignature("The header webhook-timestamp is no time.")
    if abs(time.time() - int(timestamp)) > tolerance_s:
        raise InvalidSignature(f"The delivery is more than {tolerance_s:g} s old, or a clock is wrong.")
    return _read(body)


def _keys(secret: str) -> list[bytes]:
    try:
        keys = [base64.b64decode(each.removeprefix("whsec_"), validate=True) for each in secret.split()]
    except binascii.Error:
        keys = []
    # With an empty key, anybody could sign a delivery
    if not keys or not all(keys):
        raise ValueError("The secret must be whsec_ and base64, as in REDRAFT_WEBHOOK_SECRET.") from None
    return keys


def _is_signed(signed: bytes, given: str, key: bytes) -> bool:
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(expected, each.encode("utf-8", "replace")) for each in given.split())


_RUN_ENDS = ("run.finished", "run.gate_failed")


def _read(body: bytes) -> WebhookBody:
    try:
        other = OtherWebhookBody.model_validate_json(body)
        if other.type.startswith("job."):
            return JobWebhookBody.model_validate_json(body)
        return RunWebhookBody.model_validate_json(body) if other.type in _RUN_ENDS else other
    except ValidationError as error:
        raise UnexpectedResponse("The delivery is signed, but cannot be read. Update redraft-client.") from error
