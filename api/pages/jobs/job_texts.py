"""Prepares texts of a job for its pages: the answer as a file, and the request with its settings."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import PlainTextResponse

from api.http.downloads import disposition
from api.http.security_headers import ANSWER_POLICY
from api.pages.new.job_forms import minimal
from api.pages.parts.filters import clip, count
from api.pages.parts.snippets import snippets_of
from redraft.domain.evaluation.rubrics import Criterion, statement_of
from redraft.domain.jobs.states import JobKind
from redraft.operations.jobs.resources import Job

_NAME_CHARS = 60


def plain_text(request: Request, text: str, name: str, fallback: str) -> PlainTextResponse:
    """Return a model's text as a plain text response. With `?download=1` the browser saves it."""
    kind = "attachment" if request.query_params.get("download") else "inline"
    headers = {
        "Content-Security-Policy": ANSWER_POLICY,
        "Content-Disposition": disposition(clip(name, _NAME_CHARS), fallback, ".txt", kind=kind),
        "Cache-Control": "no-store",
    }
    return PlainTextResponse(text.encode("utf-8", "replace"), headers=headers)


def request_texts(request: Request, job: Job) -> dict[str, Any]:
    """Return the settings and the rubric of a request, and snippets that send it.

    Only `generate_answer` jobs without attachments have snippets.
    """
    base_url = str(request.base_url).rstrip("/")
    has_auth = "key_id" in request.scope["state"]
    # The request of a job has no data of attachments, so it cannot be sent again
    is_plain = job.kind == JobKind.GENERATE_ANSWER and not job.request.get("attachments")
    body = _without_defaults(minimal(job.request))
    rubric = [Criterion.model_validate(each) for each in job.request.get("rubric") or ()]
    return {
        "settings": [(name, value) for name, value in _settings(job) if value],
        "rubric": [(statement_of(each), each) for each in rubric],
        "snippets": snippets_of(body, base_url, with_key=has_auth) if is_plain else [],
    }


_CRITERION_DEFAULTS = {"text": "", "kind": "binary", "weight": 1, "required": False, "hidden": False}


def _without_defaults(body: Mapping[str, Any]) -> dict[str, Any]:
    defaults: dict[str, Mapping[str, Any]] = {"rubric": _CRITERION_DEFAULTS, "sources": {"metadata": {}}}
    lists = {
        group: [
            {name: value for name, value in each.items() if value is not None and usual.get(name) != value}
            for each in body.get(group) or ()
        ]
        for group, usual in defaults.items()
    }
    return {**body, **{name: value for name, value in lists.items() if value}}


def _settings(job: Job) -> Iterator[tuple[str, str]]:
    request = job.request
    yield "Generator", _listed(request.get("model"), " → ")
    yield "Evaluator", _listed(job.evaluators, ", ") or "checks only"
    yield "Profile", request.get("profile") or ""
    yield "Maximum iterations", str(job.progress.iter_max) if job.kind == JobKind.GENERATE_ANSWER else ""
    yield "Threshold", f"{request['score_threshold']:g}"
    for group, names in _GROUPS.items():
        values: Mapping[str, Any] = request.get(group) or {} if group else request
        for name, words in names.items():
            yield words, _value(values.get(name))


_GROUPS = {
    "": {"candidates": "Candidates", "stream": "Shown while it is generated", "cache": "Identical earlier calls"},
    "revision": {"strategy": "After a low score", "from": "From the answer that is"},
    "evaluation": {
        "samples": "Samples",
        "audit": "Audit",
        "skip": "Evaluation skipped",
        "when": "Evaluated",
        "sample": "Share of evaluated jobs",
        "min_answer_chars": "Shortest evaluated answer",
    },
    "limits": {"deadline_s": "Time limit (s)", "max_cost_usd": "Maximum cost (USD)", "max_tokens": "Maximum tokens"},
    "sampling": {
        "temperature": "Temperature",
        "top_p": "Top p",
        "reasoning_effort": "Reasoning effort",
        "seed": "Seed",
        "max_output_tokens": "Maximum tokens of one answer",
    },
    "evaluator_sampling": {
        "temperature": "Evaluator temperature",
        "top_p": "Evaluator top p",
        "reasoning_effort": "Evaluator reasoning effort",
        "seed": "Evaluator seed",
        "max_output_tokens": "Maximum tokens of one verdict",
    },
}


def _listed(value: str | list[str] | None, between: str) -> str:
    return between.join(value) if isinstance(value, list) else value or ""


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return f"{value:g}" if isinstance(value, float) else _listed(value, ", ").replace("_", " ")
