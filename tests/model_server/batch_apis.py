"""The batch APIs of both vendors over HTTP: files, batches, pages of lists, results."""

import json
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from tests.model_server.batch_script import BatchScript
from tests.model_server.batch_store import Batch, BatchLine, BatchStore, openai_lines
from tests.model_server.http import Request
from tests.model_server.scripts import Reply, Script, as_reply

_PATH = re.compile(r".*?/(?P<noun>messages/batches|batches|files)(/(?P<id>[^/]+))?(/(?P<verb>\w+))?")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_WINDOW_S = 24 * 3600
_ENDED_AT = {
    "completed": "completed_at",
    "failed": "failed_at",
    "expired": "expired_at",
    "canceled": "cancelled_at",
}
_BROKEN = {"error": {"message": "Scripted.", "type": "server_error"}}
_OPERATIONS = {
    ("POST", "files", False, None): "upload",
    ("DELETE", "files", True, None): "delete",
    ("GET", "files", True, "content"): "content",
    ("GET", "messages/batches", True, "results"): "results",
    **{
        (method, noun, has_id, verb): operation
        for noun in ("batches", "messages/batches")
        for method, has_id, verb, operation in (
            ("POST", False, None, "create"),
            ("GET", False, None, "list"),
            ("GET", True, None, "read"),
            ("POST", True, "cancel", "cancel"),
        )
    },
}


@dataclass(frozen=True, slots=True)
class Served:
    """The answer of a batch API. A `reply` with a fault breaks it on its way."""

    status: int
    body: bytes
    content_type: str = "application/json"
    reply: Reply | None = None


class _Refused(Exception):  # noqa: N818 - an answer
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BatchApis:
    """Both APIs. `script` and `is_released` say what the server plays at the moment."""

    def __init__(self, store: BatchStore, script: Callable[[], Script], is_released: Callable[[], bool]) -> None:
        self.store = store
        self._script = script
        self._is_released = is_released
        self._played: dict[str, deque[Any]] = {}
        self._of: BatchScript | None = None

    def serve(self, request: Request) -> Served | None:
        """The answer to a request, or None if it is for no batch API."""
        found = _PATH.fullmatch(request.path)
        if found is None:
            return None
        operation = _OPERATIONS.get((request.method, found["noun"], found["id"] is not None, found["verb"]), "")
        reply = self._next_answer(operation)
        if reply is not None and (reply.status != 200 or reply.raw is not None):
            body = _BROKEN if reply.raw is None else reply.raw
            return Served(reply.status, body.encode() if isinstance(body, str) else _json(body), reply=reply)
        is_openai = found["noun"] != "messages/batches"
        handlers = self._openai_handlers() if is_openai else self._anthropic_handlers()
        try:
            _check_headers(request, is_openai=is_openai)
            value = handlers.get(operation, _nothing)(request, found["id"] or "")
        except _Refused as refused:
            kind = "not_found_error" if refused.status == 404 else "invalid_request_error"
            error = {"error": {"message": str(refused), "type": kind, "code": None, "param": None}}
            return Served(refused.status, _json(error if is_openai else {"type": "error", **error}), reply=reply)
        if isinstance(value, bytes):
            return Served(200, value, "application/x-jsonl", reply)
        return Served(200, _json(value), reply=reply)

    def _openai_handlers(self) -> dict[str, Callable[[Request, str], Any]]:
        return {
            "upload": self._upload,
            "content": self._content,
            "delete": self._delete,
            "create": self._create_openai,
            "read": lambda _, id_: self._openai_batch(self._batch(id_, "batch_")),
            "cancel": lambda _, id_: self._openai_batch(self._canceled(id_, "batch_", 409)),
            "list": self._list_openai,
        }

    def _anthropic_handlers(self) -> dict[str, Callable[[Request, str], Any]]:
        return {
            "create": self._create_anthropic,
            "read": lambda request, id_: self._anthropic_batch(self._batch(id_, "msgbatch_"), request),
            "cancel": lambda request, id_: self._anthropic_batch(self._canceled(id_, "msgbatch_", 400), request),
            "results": self._results,
            "list": self._list_anthropic,
        }

    def _next_answer(self, operation: str) -> Reply | None:
        how = self._script().batch
        if how is not self._of:
            self._of, self._played = how, {name: deque(items) for name, items in how.answers.items()}
        played = self._played.get(operation)
        item = played.popleft() if played else None
        return None if item is None else as_reply(item)

    def _batch(self, batch_id: str, prefix: str, *, is_read: bool = True) -> Batch:
        batch = self.store.get(batch_id)
        if batch is None or not batch.id.startswith(prefix):
            raise _Refused(404, f"No batch found with id '{batch_id}'.")
        self.store.advance(batch, self._script(), is_released=self._is_released(), is_read=is_read)
        return batch

    def _page(self, request: Request, prefix: str, cursor: str) -> tuple[list[Batch], bool]:
        """A page of batches, the newest first, and whether there are more."""
        params = {name: values[0] for name, values in parse_qs(request.query).items()}
        batches = [batch for batch in reversed(self.store.list()) if batch.id.startswith(prefix) and self._lists(batch)]
        ids = [batch.id for batch in batches]
        if cursor in params:
            batches = batches[ids.index(params[cursor]) + 1 :]
        limit = int(params.get("limit", 20))
        if not 1 <= limit <= 100:
            raise _Refused(400, "limit: must be 1 to 100")
        for batch in batches[:limit]:
            self.store.advance(batch, self._script(), is_released=self._is_released())
        return batches[:limit], len(batches) > limit

    def _lists(self, batch: Batch) -> bool:
        batch.lists += 1
        return batch.lists > self._script().batch.unlisted

    def _canceled(self, id_: str, prefix: str, status: int) -> Batch:
        batch = self._batch(id_, prefix, is_read=False)
        if batch.is_ended:
            raise _Refused(status, f"Cannot cancel a batch with status '{batch.state}'.")
        batch.cancel_at = time.time()
        return batch

    def _content(self, request: Request, id_: str) -> bytes:
        if id_ not in self.store.files:
            raise _Refused(404, f"No such File object: {id_}")
        return self.store.files[id_]

    def _delete(self, request: Request, id_: str) -> dict[str, Any]:
        self._content(request, id_)
        del self.store.files[id_]
        return {"id": id_, "object": "file", "deleted": True}

    def _list_openai(self, request: Request, _: str) -> dict[str, Any]:
        page, has_more = self._page(request, "batch_", "after")
        return {"object": "list", "data": [self._openai_batch(batch) for batch in page], "has_more": has_more}

    def _upload(self, request: Request, _: str) -> dict[str, Any]:
        parts = _multipart(request)
        if parts.get("purpose") != b"batch" or "file" not in parts:
            raise _Refused(400, "'purpose' must be 'batch', and 'file' is required")
        file_id = self.store.new_id("file")
        self.store.files[file_id] = parts["file"]
        return {"id": file_id, "object": "file", "bytes": len(parts["file"]), "purpose": "batch"}

    def _create_openai(self, request: Request, _: str) -> dict[str, Any]:
        script, body = self._script(), _object(request)
        content = self.store.files.get(body.get("input_file_id", ""))
        if content is None:
            raise _Refused(400, "Invalid 'input_file_id': no such file.")
        if body.get("completion_window") != "24h":
            raise _Refused(400, "Invalid 'completion_window'.")
        endpoint = body.get("endpoint", "")
        lines, error = openai_lines(content, endpoint, script.batch)
        batch = Batch(
            self.store.new_id("batch"),
            "openai",
            lines,
            {"authorization": "[redacted]"},
            time.time(),
            endpoint=endpoint,
            input_file_id=body["input_file_id"],
            metadata=body.get("metadata") or {},
        )
        if error:
            batch.state, batch.error, batch.ended_at = "failed", error, time.time()
        self.store.add(batch)
        self.store.advance(batch, script, is_released=self._is_released(), is_read=False)
        return self._openai_batch(batch)

    def _openai_batch(self, batch: Batch) -> dict[str, Any]:
        for name, content in (("output", batch.results), ("error", batch.errors)):
            if content:
                self.store.files.setdefault(f"file_{name}_{batch.id}", content)
        how, total = self._script().batch, len(batch.lines)
        done = batch.succeeded if batch.is_ended else min(total, total * batch.reads // max(1, how.polls + 1))
        at = {_ENDED_AT[batch.state]: int(batch.ended_at)} if batch.ended_at else {}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": batch.endpoint,
            "errors": {"object": "list", "data": [{"code": "invalid", "message": batch.error}]}
            if batch.error
            else None,
            "input_file_id": batch.input_file_id,
            "completion_window": "24h",
            "status": _openai_state(batch, how),
            "output_file_id": f"file_output_{batch.id}" if batch.results else None,
            "error_file_id": f"file_error_{batch.id}" if batch.errors else None,
            "created_at": int(batch.created_at),
            "expires_at": int(batch.created_at) + _WINDOW_S,
            **at,
            "request_counts": {"total": total, "completed": done, "failed": total - done if batch.is_ended else 0},
            "metadata": batch.metadata,
        }

    def _results(self, request: Request, id_: str) -> bytes:
        batch = self._batch(id_, "msgbatch_", is_read=False)
        if not batch.is_ended:
            raise _Refused(404, "The batch has no results yet.")
        return batch.results

    def _list_anthropic(self, request: Request, _: str) -> dict[str, Any]:
        page, has_more = self._page(request, "msgbatch_", "after_id")
        data = [self._anthropic_batch(batch, request) for batch in page]
        return {"data": data, "has_more": has_more, "first_id": None, "last_id": None}

    def _create_anthropic(self, request: Request, _: str) -> dict[str, Any]:
        how = self._script().batch
        if len(request.body) > (how.bytes_max or 256_000_000):
            raise _Refused(413, "Request exceeds the maximum size")
        wanted = _object(request).get("requests") or []
        ids = [each.get("custom_id") for each in wanted]
        if not wanted or len(wanted) > (how.requests_max or 100_000):
            raise _Refused(400, "requests: 1 to 100000 items")
        if len(set(ids)) < len(ids) or not all(_ID.fullmatch(str(each)) for each in ids):
            raise _Refused(400, "requests: custom_id must be unique and match ^[a-zA-Z0-9_-]{1,64}$")
        version = {"x-api-key": "[redacted]", "anthropic-version": request.headers["anthropic-version"]}
        lines = [BatchLine(each["custom_id"], "anthropic", each["params"]) for each in wanted]
        batch = Batch(self.store.new_id("msgbatch"), "anthropic", lines, version, time.time())
        self.store.add(batch)
        self.store.advance(batch, self._script(), is_released=self._is_released(), is_read=False)
        return self._anthropic_batch(batch, request)

    def _anthropic_batch(self, batch: Batch, request: Request) -> dict[str, Any]:
        state = "ended" if batch.is_ended else "canceling" if batch.cancel_at else "in_progress"
        if not batch.is_ended:
            state = self._script().batch.state or state
        counts = {"succeeded": batch.succeeded, "errored": batch.failed}
        counts |= {"canceled": batch.canceled, "expired": batch.expired}
        if not batch.is_ended:
            counts = dict.fromkeys(counts, 0)
        host = request.headers.get("host", "")
        url = self._script().batch.results_url or f"http://{host}/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": state,
            "request_counts": {"processing": 0 if batch.is_ended else len(batch.lines), **counts},
            "ended_at": _time(batch.ended_at),
            "created_at": _time(batch.created_at),
            "expires_at": _time(batch.created_at + _WINDOW_S),
            "archived_at": None,
            "cancel_initiated_at": _time(batch.cancel_at),
            "results_url": url if batch.is_ended else None,
        }


def _openai_state(batch: Batch, how: BatchScript) -> str:
    if batch.is_ended:
        return {"canceled": "cancelled"}.get(batch.state, batch.state)
    if batch.cancel_at is not None:
        return "cancelling"
    is_last = batch.reads >= how.polls > 1
    return how.state or ("validating" if batch.reads == 0 else "finalizing" if is_last else "in_progress")


def _errors(batch: Batch) -> list[dict[str, str]]:
    return [{"code": "invalid_batch", "message": batch.error}]


def _check_headers(request: Request, *, is_openai: bool) -> None:
    if not (request.headers.get("authorization") or request.headers.get("x-api-key")):
        raise _Refused(401, "You didn't provide an API key.")
    if not is_openai and "anthropic-version" not in request.headers:
        raise _Refused(400, "anthropic-version: header is required")


def _nothing(request: Request, _: str) -> Any:
    raise _Refused(404, f"Nothing is at {request.path}.")


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _object(request: Request) -> dict[str, Any]:
    try:
        value = json.loads(request.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _Refused(400, "We could not parse the JSON body")
    return value


def _multipart(request: Request) -> dict[str, bytes]:
    """The parts of a form by their names."""
    found = re.search(r'boundary="?([^";]+)', request.headers.get("content-type", ""))
    if found is None:
        raise _Refused(400, "A form is expected.")
    parts: dict[str, bytes] = {}
    for part in request.body.split(b"--" + found[1].encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="(\w+)"', head)
        if name:
            parts[name[1].decode()] = content.removesuffix(b"\r\n")
    return parts
