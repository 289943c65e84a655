"""Renders resources as JSON, adds the headers of a job, and negotiates content types."""

import re
from collections.abc import Mapping
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from redraft.domain.jobs.states import TERMINAL
from redraft.operations.jobs.resources import Job

POLL_AFTER_S = 1
_QUALITY = re.compile(r"q=(\d?(?:\.\d{0,3})?)$")


def has_ended(job: Job) -> bool:
    return job.status in TERMINAL


def render(model: BaseModel, status: int = 200, *, exclude: Any = None) -> Response:
    # The resource was validated when it was created. FastAPI would validate it again
    return Response(model.model_dump_json(exclude=exclude), status, media_type="application/json")


def render_job(job: Job, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    with_iterations = job.iterations is not None
    own = {"ETag": etag(job.version, with_iterations=with_iterations), "Cache-Control": "no-store"}
    if not has_ended(job):
        own["Retry-After"] = str(POLL_AFTER_S)
    body = job.model_dump_json(exclude=None if with_iterations else {"iterations"})
    return Response(body, status, {**own, **(headers or {})}, "application/json")


def render_unchanged(tag: str, *, is_over: bool) -> Response:
    headers = {"ETag": tag, "Cache-Control": "no-store"}
    if not is_over:
        headers["Retry-After"] = str(POLL_AFTER_S)
    return Response(None, 304, headers)


def render_submitted(job: Job, *, is_replay: bool) -> Response:
    headers = {"Location": job.urls["self"]}
    if is_replay:
        headers["Idempotent-Replayed"] = "true"
    return render_job(job, 200 if is_replay else 201 if has_ended(job) else 202, headers)


def etag(version: int, *, with_iterations: bool) -> str:
    return f'"{version}-i"' if with_iterations else f'"{version}"'


def is_match(if_none_match: str | None, tag: str) -> bool:
    """Whether the client already has this version."""
    if if_none_match is None:
        return False
    # RFC 9110 prescribes the weak comparison for If-None-Match
    known = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return "*" in known or tag in known


def prefers_json(request: Request) -> bool:
    """Whether Accept prefers JSON to an event stream. Without a preference, it is false."""
    accept = request.headers.get("accept", "")
    return _quality(accept, "application/json") > _quality(accept, "text/event-stream")


def _quality(accept: str, media_type: str) -> float:
    for each in accept.split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        if name == media_type:
            found = _QUALITY.match(parameters[-1]) if parameters else None
            return float(found.group(1) or 0) if found and found.group(1) != "." else 1.0
    return 0.0
