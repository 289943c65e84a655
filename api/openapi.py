"""Builds the OpenAPI document: adds problems, security, examples and webhooks to the document of FastAPI."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Literal

from fastapi.openapi.models import Example
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from api.authentication import is_open, scope_of
from api.http import problems
from api.http.problems import TITLES, Problem
from redraft.domain.jobs.webhooks import EVENT_TYPES, message_type
from redraft.operations.bulk.run_completion import RoundFinished, RunFinished
from redraft.operations.jobs.resources import EventData, Job
from redraft.operations.resource_base import Moment, Resource

Answers = dict[int | str, dict[str, Any]]

EXAMPLE_GENERATE: dict[str, Example] = {
    "question": {
        "summary": "A question with evaluation criteria",
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
    "Retry-After": "The recommended time until the next request, in seconds; absent if the job has ended.",
}
_LIMIT_HEADERS = {
    "Retry-After": "The time until the next request is allowed, in seconds.",
    "RateLimit": "`r` is the number of remaining requests; `t` is the time until all are available, in seconds.",
    "RateLimit-Policy": "The limit is `q` requests in `w` seconds.",
}
_WEBHOOK_SIGNATURE = (
    "Signed as Standard Webhooks 1.0 specifies, with `webhook-id`, `webhook-timestamp` and `webhook-signature`."
)
_REF = "#/components/schemas/{model}"


class _Data(Resource):
    url: str = Field(description="The path of the job or of the run.")
    truncated: bool = Field(description="Whether values that are too long are replaced by null.")


class JobWebhookData(_Data):
    """An event of a job."""

    job_id: str
    metadata: dict[str, str]
    seq: int = Field(description="The number of the event in its job.")
    event: EventData


class JobWebhookBody(Resource):
    """The body of a job's webhook."""

    type: str = Field(json_schema_extra={"enum": [message_type(each) for each in EVENT_TYPES]})
    timestamp: Moment
    data: JobWebhookData


class RunWebhookData(_Data):
    """The end of a run."""

    run_id: str
    seq: int = Field(description="The version of the run. It is larger when a resumed run ends again.")
    event: RunFinished


class RunWebhookBody(Resource):
    """The body of a run's webhook."""

    type: Literal["run.finished", "run.gate_failed"]
    timestamp: Moment
    data: RunWebhookData


class RoundWebhookData(_Data):
    """The end of a round of batches."""

    run_id: str
    seq: int = Field(description="The version of the run. It grows with each round.")
    event: RoundFinished


class RoundWebhookBody(Resource):
    """The body of a run's webhook at the end of a round."""

    type: Literal["run.round_finished"]
    timestamp: Moment
    data: RoundWebhookData


_WEBHOOKS: Mapping[str, tuple[str, type[Resource]]] = {
    "job.event": ("An event of a job, of a type that the webhook selects.", JobWebhookBody),
    "run.finished": ("A run has ended. If it is resumed, the message is sent again when it ends.", RunWebhookBody),
    "run.round_finished": ("The results of a round of batches are stored.", RoundWebhookBody),
    "run.gate_failed": ("A run of a schedule has ended, and one of its gates has failed.", RunWebhookBody),
}


def problems_of(*codes: int) -> Answers:
    """Return descriptions of the problems of a route. `_complete` adds those that follow from its path and body."""
    return {code: {"description": TITLES[code][1]} for code in codes}


def job_answers(descriptions: Mapping[int, str]) -> Answers:
    """Return descriptions of responses whose body is a job, with their headers."""
    created = {**_JOB_HEADERS, "Location": "The path of the job."}
    return {
        code: {
            "description": text,
            "model": Job,
            "headers": _described(created if code in {201, 202} else _JOB_HEADERS),
        }
        for code, text in descriptions.items()
    }


def _described(names: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in names.items()}


def describe(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    found = get_openapi(
        title="Redraft",
        version=version("redraft"),
        summary="Writes answers iteratively: generates, evaluates and revises until an answer is accepted.",
        description="Submit a job. Then poll the job, wait for it (`Prefer: wait=N`), or follow its events. "
        "All errors are problem documents (RFC 9457). Requests need an API key, unless the server listens on "
        "loopback only. Each operation names the scope that it needs. If keys are needed, the header `RateLimit` "
        "of every response has the number of remaining requests.",
        routes=routes,
    )
    components = found.setdefault("components", {})
    components["schemas"] = _own_schemas() | components.get("schemas", {})
    # These are the errors of FastAPI. Redraft answers with problem documents instead
    for replaced in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(replaced, None)
    found["webhooks"] = {name: _webhook(*each) for name, each in _WEBHOOKS.items()}
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "rd_…"}}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            _complete(path, method, operation)
    return found


def _own_schemas() -> dict[str, Any]:
    bodies = [body for _, body in _WEBHOOKS.values()]
    _, found = models_json_schema([(each, "serialization") for each in (Problem, *bodies)], ref_template=_REF)
    return found["$defs"]


def _webhook(summary: str, body: type[BaseModel]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(model=body.__name__)}}}
    operation = {
        "summary": summary,
        "description": _WEBHOOK_SIGNATURE,
        "tags": ["webhooks"],
        "requestBody": {"required": True, "content": content},
        "responses": {"2XX": {"description": "The message is received. After any other response, it is sent again."}},
    }
    return {"post": operation}


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add the security of an operation, and the problems that follow from its path and its body."""
    responses: dict[str, Any] = operation["responses"]
    codes = [500, *((404,) if "{" in path else ()), *((413, 415) if "requestBody" in operation else ())]
    if not is_open(path):
        codes += [400, 401, 403, 429, 503]
        operation["security"] = [{"key": [scope_of(method.upper(), path).value]}, {}]
        responses["429"] = {"headers": _described(_LIMIT_HEADERS)}
    for code in {*codes, *(code for code in map(int, responses) if code >= 400)}:
        content = {"schema": {"$ref": _REF.format(model="Problem")}, "example": _example(code, path)}
        answer = responses.setdefault(str(code), {})
        answer |= {"description": TITLES[code][1], "content": {problems.MEDIA_TYPE: content}}


def _example(status: int, path: str) -> dict[str, Any]:
    code, title = TITLES[status]
    error = {"pointer": "/iter_max", "detail": "must be at least 1", "code": "greater_than_equal"}
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
