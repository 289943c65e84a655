"""The files and the batches of a server: what was submitted, how far it is, and its results."""

import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.model_server.batch_script import BatchScript
from tests.model_server.bodies import body_of
from tests.model_server.requests import PATHS, Asked, Dialect
from tests.model_server.scripts import Reply, Script

Executed = Callable[[Asked, str, str], Reply]
"""Answers a request of a batch by the script, and writes it into the log."""
EXPIRED = "This request could not be executed before the completion window expired."
CANCELED = "This request was not executed because the batch was cancelled."
_LIVE_FAULTS = ("hang", "reset", "reset_mid_body", "cut_body", "garbage", "trickle")


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One request of a batch."""

    custom_id: str
    dialect: Dialect
    body: dict[str, Any]


@dataclass(slots=True)
class Batch:
    """A batch with all that its API tells of it.

    `answered` counts the answers of the requests by their ids: the calls that the provider charges for.
    """

    id: str
    format: str
    lines: list[BatchLine]
    headers: dict[str, str]
    created_at: float
    endpoint: str = ""
    input_file_id: str = ""
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    state: str = "in_progress"
    reads: int = 0
    lists: int = 0
    error: str = ""
    cancel_at: float | None = None
    ended_at: float | None = None
    answered: dict[str, int] = field(default_factory=dict[str, int])
    results: bytes = b""
    errors: bytes = b""
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    expired: int = 0

    @property
    def is_ended(self) -> bool:
        return self.ended_at is not None

    def to_json(self) -> dict[str, Any]:
        ids = [line.custom_id for line in self.lines]
        return {
            **{name: getattr(self, name) for name in ("id", "format", "state", "metadata", "created_at", "ended_at")},
            "custom_ids": ids,
            "answered": self.answered,
        }


class BatchStore:
    """All files and batches, the newest last."""

    def __init__(self, executed: Executed) -> None:
        self._executed = executed
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.files: dict[str, bytes] = {}
        self._batches: dict[str, Batch] = {}

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):06d}"

    def add(self, batch: Batch) -> None:
        with self._lock:
            self._batches[batch.id] = batch

    def get(self, batch_id: str) -> Batch | None:
        return self._batches.get(batch_id)

    def list(self) -> list[Batch]:
        with self._lock:
            return list(self._batches.values())

    def advance(self, batch: Batch, script: Script, *, is_released: bool, is_read: bool = True) -> None:
        """End a batch if it is time; a read counts."""
        if batch.is_ended:
            return
        how = script.batch
        is_due = batch.reads >= how.polls and time.time() - batch.created_at >= how.seconds
        batch.reads += is_read
        if batch.cancel_at is not None:
            self._end(batch, script, "canceled")
        elif is_due and (is_released or not how.is_held):
            self._end(batch, script, how.end)

    def _end(self, batch: Batch, script: Script, end: str) -> None:
        batch.ended_at = time.time()
        batch.state, batch.error = end, script.batch.error if end == "failed" else ""
        if end == "failed":
            return
        done = len(batch.lines) if end == "completed" else script.batch.done
        results: list[bytes] = []
        errors: list[bytes] = []
        for number, line in enumerate(batch.lines):
            for fate, told in self._told(batch, line, script) if number < done else _untouched(batch, line, end):
                is_error = batch.format == "openai" and fate != "succeeded"
                (errors if is_error else results).append(told)
        results += [_foreign(batch, number) for number in range(script.batch.foreign)]
        if not script.batch.is_ordered:
            random.Random(batch.id).shuffle(results)
        batch.results, batch.errors = b"".join(results), b"".join(errors)

    def _told(self, batch: Batch, line: BatchLine, script: Script) -> Iterator[tuple[str, bytes]]:
        """What the results have of an answered request: its fate and its line, or two, or none."""
        asked = Asked(line.dialect, line.body, batch.headers, line.dialect)
        reply = self._executed(asked, batch.id, line.custom_id)
        if reply.fault in {"line_expired", "line_canceled"}:
            yield from _untouched(batch, line, reply.fault.removeprefix("line_"))
            return
        if reply.fault == "line_error":
            batch.failed += 1
            yield "failed", _with_error(batch, line, "server_error", "The server had an error.")
            return
        broken = {"error": {"message": "The server had an error.", "type": "server_error"}}
        is_live_fault = reply.fault in _LIVE_FAULTS
        status = 500 if is_live_fault else reply.status
        body = broken if is_live_fault else body_of(asked, reply, script) if reply.raw is None else reply.raw
        if status < 300:
            batch.answered[line.custom_id] = batch.answered.get(line.custom_id, 0) + 1
        batch.succeeded, batch.failed = batch.succeeded + (status < 300), batch.failed + (status >= 300)
        told, fate = _with_answer(batch, line, status, body), "succeeded" if status < 300 else "failed"
        match reply.fault:
            case "line_missing":
                return
            case "line_malformed":
                yield fate, b'{"custom_id": "' + line.custom_id.encode() + b'", not JSON\n'
            case "line_cut":
                yield fate, told[: len(told) // 2] + b"\n"
            case "line_duplicate":
                yield fate, told
                yield fate, told
            case _:
                yield fate, told


def _with_answer(batch: Batch, line: BatchLine, status: int, body: Any) -> bytes:
    if batch.format == "openai":
        response = {"status_code": status, "request_id": "req_test", "body": body}
        return _line({"id": f"batch_req_{line.custom_id}", "custom_id": line.custom_id, "response": response})
    if status < 300:
        return _line({"custom_id": line.custom_id, "result": {"type": "succeeded", "message": body}})
    # A script may have the error of another dialect
    is_own = isinstance(body, dict) and body.get("type") == "error"
    error = (
        body if is_own else {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": "Error"}}
    )
    return _line({"custom_id": line.custom_id, "result": {"type": "errored", "error": error}})


_KINDS = {400: "invalid_request_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}


def _with_error(batch: Batch, line: BatchLine, code: str, message: str) -> bytes:
    if batch.format == "openai":
        error = {"code": code, "message": message}
        told = {"id": f"batch_req_{line.custom_id}", "custom_id": line.custom_id, "response": None, "error": error}
        return _line(told)
    error = {"type": "error", "error": {"type": "api_error", "message": message}}
    return _line({"custom_id": line.custom_id, "result": {"type": "errored", "error": error}})


def _untouched(batch: Batch, line: BatchLine, end: str) -> Iterator[tuple[str, bytes]]:
    """The line of a request that was not executed."""
    if end == "expired":
        batch.expired += 1
    else:
        batch.canceled += 1
    if batch.format == "openai":
        code, words = ("batch_expired", EXPIRED) if end == "expired" else ("batch_cancelled", CANCELED)
        yield end, _with_error(batch, line, code, words)
    else:
        yield end, _line({"custom_id": line.custom_id, "result": {"type": end}})


def _foreign(batch: Batch, number: int) -> bytes:
    line = BatchLine(f"call_of_nobody_{number}", "openai" if batch.format == "openai" else "anthropic", {})
    return _with_answer(batch, line, 200, body_of(Asked(line.dialect, {}, {}), Reply(text="Not yours."), Script()))


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def openai_lines(content: bytes, endpoint: str, how: BatchScript) -> tuple[list[BatchLine], str]:
    """The requests in an uploaded file, and why the batch fails; empty if it does not."""
    raws = content.splitlines()
    try:
        lines = [_request_in(raw, endpoint) for raw in raws]
    except (ValueError, KeyError, TypeError) as error:
        return [], f"A line is no request for this endpoint: {error}"
    checks = {
        "The file is empty.": not lines,
        "The file is larger than the limit.": len(content) > (how.bytes_max or 200_000_000),
        "The file has more requests than the limit.": len(lines) > (how.requests_max or 50_000),
        "A custom_id is used twice.": len({line.custom_id for line in lines}) < len(lines),
        "A batch has one model.": len({line.body.get("model") for line in lines}) > 1,
    }
    return lines, next((words for words, is_met in checks.items() if is_met), "")


def _request_in(raw: bytes, endpoint: str) -> BatchLine:
    value = json.loads(raw)
    if value["method"] != "POST" or value["url"] != endpoint:
        raise ValueError("another method or URL")
    return BatchLine(value["custom_id"], PATHS[value["url"]], value["body"])
