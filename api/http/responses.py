"""Answers: resources as JSON, and the headers that belong to a job."""

from collections.abc import Mapping
from typing import Any

from fastapi import Response
from pydantic import BaseModel

from redraft.domain.jobs.states import TERMINAL
from redraft.operations.jobs.resources import Job

POLL_AFTER_S = 1
_TERMINAL = frozenset(status.value for status in TERMINAL)


def has_ended(job: Job) -> bool:
    return job.status in _TERMINAL


def render(model: BaseModel, status: int = 200, *, exclude: Any = None) -> Response:
    """Send a resource without validating it again: it was validated when it was created."""
    return Response(model.model_dump_json(exclude=exclude), status, media_type="application/json")


def render_job(job: Job, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A job with its ETag and, while it runs, when to look again."""
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
    """201 when there is nothing left to wait for, 202 before; 200 when the key was used before."""
    headers = {"Location": job.urls["self"]}
    if is_replay:
        headers["Idempotent-Replayed"] = "true"
    status = 200 if is_replay else 201 if has_ended(job) else 202
    return render_job(job, status, headers)


def etag(version: int, *, with_iterations: bool) -> str:
    return f'"{version}-i"' if with_iterations else f'"{version}"'


def is_match(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has this version already (weak comparison, as RFC 9110 wants it for If-None-Match)."""
    if if_none_match is None:
        return False
    known = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return "*" in known or tag in known
