"""The operations of the API as steps without I/O. The drivers of both clients carry out the steps."""

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar, cast
from urllib.parse import quote

from redraft_client._protocol import (
    ModelT,
    Request,
    Response,
    Retries,
    Sleep,
    Steps,
    exchange,
    get,
    new_key,
    post,
    query,
    read,
)
from redraft_client.errors import JobFailed, WaitTimeout
from redraft_client.models import Evaluation, EventPage, Job, Run
from redraft_client.results import Answer

T = TypeVar("T")
_POLL_S = 50.0
_RUN_POLL_MAX_S = 5.0
# The minimum time between two polls of the same resource, also for a server that ignores `Prefer: wait`
_PAUSE_S = 1.0

Rows: TypeAlias = "str | Path | bytes | BinaryIO | Iterable[Mapping[str, Any]]"


class Operations:
    """Builds the steps of operations, with the retries of one client."""

    def __init__(self, retries: Retries) -> None:
        self.retries = retries

    def fetch(self, request: Request, model: type[ModelT]) -> Steps[ModelT]:
        return read(model, (yield from exchange(request, self.retries)))

    def raw(self, request: Request) -> Steps[Response]:
        return exchange(request, self.retries)

    def text(self, request: Request) -> Steps[str]:
        return (yield from exchange(request, self.retries)).content.decode("utf-8")

    def nothing(self, request: Request) -> Steps[None]:
        yield from exchange(request, self.retries)

    def wait_for_job(self, job_id: str, timeout_s: float) -> Steps[Job]:
        """Wait for the end of a job by long polls."""
        end, last = time.monotonic() + timeout_s, None
        while True:
            began = time.monotonic()
            request = _poll(job_id, last, min(_POLL_S, max(0.0, end - began)))
            response = yield from exchange(request, self.retries.for_waiting(), end)
            known = last
            last = known if known is not None and response.status == 304 else read(Job, response)
            if last.has_ended:
                return last
            now = time.monotonic()
            if now >= end:
                raise WaitTimeout(last, timeout_s)
            is_news = known is None or last.version != known.version
            if now - began < _PAUSE_S and not is_news:
                yield Sleep(min(_PAUSE_S, end - now))

    def wait_for_run(self, run_id: str, timeout_s: float) -> Steps[Run]:
        """Wait for the end of a run. It is polled every second at first, then less often."""
        end, pause_s = time.monotonic() + timeout_s, _PAUSE_S
        while True:
            response = yield from exchange(get(path("runs", run_id)), self.retries.for_waiting(), end)
            run = read(Run, response)
            if run.has_ended:
                return run
            left_s = end - time.monotonic()
            if left_s <= 0:
                raise WaitTimeout(run, timeout_s)
            yield Sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.2, _RUN_POLL_MAX_S)

    def generate(self, fields: Mapping[str, Any], key: str | None, timeout_s: float) -> Steps[Answer]:
        job = yield from self.fetch(post("/v1/generate-answer", fields, idempotency_key=key or new_key()), Job)
        job = job if job.has_ended else (yield from self.wait_for_job(job.id, timeout_s))
        if job.status != "succeeded" or job.result is None:
            raise JobFailed(job, f"{job.id} has no answer: {reason_of(job)}")
        return Answer(job.result.final_answer, job.result.success, job.result.final_score, job)

    def evaluate(self, fields: Mapping[str, Any], key: str | None, timeout_s: float) -> Steps[Evaluation]:
        job = yield from self.fetch(post("/v1/evaluate-answer", fields, idempotency_key=key or new_key()), Job)
        if not job.has_ended:
            yield from self.wait_for_job(job.id, timeout_s)
        job = yield from self.fetch(get(path("jobs", job.id), {"include": "iterations"}), Job)
        evaluation = job.iterations[0].evaluation if job.iterations else None
        if job.status != "succeeded" or evaluation is None or evaluation.status != "ok":
            error = evaluation.error if evaluation else None
            raise JobFailed(job, f"{job.id} has no verdict: {error.detail if error else reason_of(job)}")
        return evaluation

    def event_page(self, job_id: str, after: int) -> Steps[EventPage]:
        response = yield from exchange(get(path("jobs", job_id, "events"), {"after": after or None}), self.retries)
        if response.status == 204:
            return EventPage(data=[], next_after=str(after), is_over=True)
        return read(EventPage, response)


def path(*parts: str | int) -> str:
    """Return the path of a resource. Ids are quoted, so that an id with a slash cannot lead to another path."""
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


def reason_of(job: Job) -> str:
    if job.error is not None:
        return f"{job.error.code}: {job.error.detail}"
    return f"its status is {job.status}, its stop reason {job.stop_reason}."


def upload(rows: Rows, name: str, params: Mapping[str, Any]) -> Request:
    """Build an upload. It is repeatable, because files with equal rows are the same dataset."""
    content, own_name = _content(rows)
    columns: Mapping[str, str] = params.get("map") or {}
    mapping = [f"{target}={column}" for target, column in columns.items()]
    pairs = query({**params, "map": mapping, "name": name or own_name})
    headers = {"Accept": "application/json", "Content-Type": "application/octet-stream"}
    return Request("POST", "/v1/datasets", pairs, headers, content, is_repeatable=True)


def _content(rows: Rows) -> tuple[bytes, str]:
    if isinstance(rows, str | Path):
        file = Path(rows)
        return file.read_bytes(), file.name
    if isinstance(rows, bytes):
        return rows, ""
    if hasattr(rows, "read"):
        file = cast("BinaryIO", rows)
        return file.read(), Path(str(getattr(file, "name", ""))).name
    lines = (json.dumps(row, ensure_ascii=False) for row in cast("Iterable[Mapping[str, Any]]", rows))
    return "\n".join(lines).encode("utf-8", "surrogatepass"), "rows.jsonl"


def _poll(job_id: str, last: Job | None, wait_s: float) -> Request:
    headers = {"Accept": "application/json"}
    if wait_s >= 1:
        headers["Prefer"] = f"wait={int(wait_s)}"
    if last is not None:
        headers["If-None-Match"] = f'"{last.version}"'
    return Request("GET", path("jobs", job_id), headers=headers, is_repeatable=True, wait_s=wait_s)
