"""What `/openapi.json` says beside the routes: problems, security, examples."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.models import Example
from fastapi.openapi.utils import get_openapi

from api.authentication import is_open, scope_of
from api.http import problems
from api.http.problems import TITLES, Problem
from api.webhook_bodies import describe_webhooks
from redraft.operations.jobs.resources import Job

Answers = dict[int | str, dict[str, Any]]

EXAMPLE_GENERATE: dict[str, Example] = {
    "question": {
        "summary": "A question and what makes an answer good",
        "value": {
            "instruct": "Why is the sky blue?",
            "resp_format": "Three sentences for a child of eight.",
            "eval_crit": "Names scattering; no formula; no wrong claim.",
            "iter_max": 3,
            "score_threshold": 0.8,
        },
    }
}
EXAMPLE_EVALUATE: dict[str, Example] = {
    "answer": {
        "summary": "An answer to evaluate",
        "value": {
            "instruct": "Why is the sky blue?",
            "eval_crit": "Names scattering; no formula; no wrong claim.",
            "answer": "Air scatters blue light more than red light.",
        },
    }
}
EXAMPLE_REFINE: dict[str, Example] = {
    "question": {"summary": "A rough question", "value": {"question": "sky blue why? for my kid"}}
}
_JOB_HEADERS = {
    "ETag": "The job's version, for If-None-Match.",
    "Retry-After": "Seconds until it is worth looking again; absent once the job has ended.",
}
_PROBLEM_REF = {"$ref": "#/components/schemas/Problem"}
_EVERYWHERE = (500,)
_GUARDED = (400, 401, 403, 429, 503)
_LIMIT_HEADERS = {
    "Retry-After": "Seconds until one more request is let in.",
    "RateLimit": "What is left: `r` requests; in `t` seconds all of them again.",
    "RateLimit-Policy": "`q` requests in `w` seconds.",
}


def answers(*codes: int) -> Answers:
    """The refusals of a route; they get their schema when the description is made."""
    return {code: {"description": TITLES[code][1]} for code in codes}


def job_answers(code: int, description: str) -> Answers:
    """An answer that is a job, with its headers."""
    names = dict(_JOB_HEADERS)
    if code in {201, 202}:
        names["Location"] = "Where the job is."
    return {code: {"description": description, "model": Job, "headers": _described(names)}}


def _described(names: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in names.items()}


def describe(app: FastAPI, root: str = "") -> dict[str, Any]:
    """The OpenAPI document, made once per app."""
    if app.openapi_schema is None:
        found = get_openapi(
            title="Redraft",
            version=version("redraft"),
            summary="Writes answers iteratively: generate, evaluate, revise until accepted.",
            description=_INTRODUCTION,
            routes=app.routes,
            servers=[{"url": root}] if root else None,
        )
        components = found.setdefault("components", {})
        _add_schemas(components.setdefault("schemas", {}))
        describe_webhooks(found)
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "rd_…"}}
        for path, operations in found["paths"].items():
            for method, operation in operations.items():
                _complete(path, method, operation)
        app.openapi_schema = found
    return app.openapi_schema


_INTRODUCTION = (
    "Submit a job, then poll it, wait for it (`Prefer: wait=N`) or follow its events. "
    "All errors are problem documents (RFC 9457). "
    "An API key is needed unless the server listens on loopback only; each operation names the scope that it needs. "
    "Where keys are needed, `RateLimit` on every answer tells how many requests are left."
)


def _add_schemas(schemas: dict[str, Any]) -> None:
    own = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(own.pop("$defs"))
    schemas["Problem"] = own
    for replaced in ("HTTPValidationError", "ValidationError"):
        schemas.pop(replaced, None)


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    responses: dict[str, Any] = operation["responses"]
    codes = _EVERYWHERE if is_open(path) else _EVERYWHERE + _GUARDED
    for code in codes:
        responses.setdefault(str(code), {"description": TITLES[code][1]})
    if not is_open(path):
        operation["security"] = [{"key": [scope_of(method.upper(), path).value]}, {}]
        responses["429"]["headers"] = _described(_LIMIT_HEADERS)
    for code, answer in responses.items():
        if int(code) >= 400:
            example = _example(int(code), path)
            answer["content"] = {problems.MEDIA_TYPE: {"schema": _PROBLEM_REF, "example": example}}
            answer["description"] = TITLES[int(code)][1]


def _example(status: int, path: str) -> dict[str, Any]:
    code, title = TITLES[status]
    error = {
        "pointer": "/iter_max",
        "detail": "must be at least 1",
        "code": "greater_than_equal",
    }
    return {
        "type": f"urn:redraft:error:{code}",
        "title": title,
        "status": status,
        "code": code,
        "detail": title + ".",
        "instance": path,
        "request_id": "req_3f0c6c1e9a",
        "retryable": status in {429, 503},
        "errors": [error] if status == 422 else [],
    }
