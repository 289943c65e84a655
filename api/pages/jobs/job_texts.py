"""A job's texts to take along: the answer as a file, the request as one sends it again."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import PlainTextResponse

from api.http.downloads import disposition
from api.pages.jobs.job_forms import minimal
from api.pages.parts.filters import clip, count
from api.pages.parts.snippets import snippets_of
from redraft.domain.evaluation.rubrics import Criterion, statement_of
from redraft.domain.jobs.states import JobKind
from redraft.operations.jobs.resources import Job

_POLICY = "sandbox; default-src 'none'"
_NAME_CHARS = 60


def plain_text(request: Request, text: str, name: str, fallback: str) -> PlainTextResponse:
    """A model's text as it is, where no browser takes it for more; `?download=1` saves it."""
    kind = "attachment" if request.query_params.get("download") else "inline"
    headers = {
        "Content-Security-Policy": _POLICY,
        "Content-Disposition": disposition(clip(name, _NAME_CHARS), fallback, ".txt", kind=kind),
        "Cache-Control": "no-store",
    }
    return PlainTextResponse(text.encode("utf-8", "replace"), headers=headers)


def request_texts(request: Request, job: Job) -> dict[str, Any]:
    """The request without what is so anyway, and the ways to send it again; none of what no form can send."""
    base_url = str(request.base_url).rstrip("/")
    has_auth = "key_id" in request.scope["state"]
    is_plain = job.kind == JobKind.GENERATE_ANSWER
    asked = _pruned(minimal(job.request))
    return {
        "told": settings_text(job),
        "rubric": _rubric(job),
        "snippets": snippets_of(asked, base_url, with_key=has_auth) if is_plain else [],
    }


_USUAL_OF_A_CRITERION = {"text": "", "kind": "binary", "weight": 1, "required": False, "hidden": False}


def _pruned(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The request without what is so anyway in its criteria and sources."""
    rubric = [_without(each, _USUAL_OF_A_CRITERION) for each in asked.get("rubric") or ()]
    sources = [_without(each, {"metadata": {}}) for each in asked.get("sources") or ()]
    lists = {"rubric": rubric, "sources": sources}
    return {**asked, **{name: value for name, value in lists.items() if value}}


def _without(values: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and usual.get(name) != value}


def _rubric(job: Job) -> list[tuple[str, Criterion]]:
    """Each criterion with what it says of an answer."""
    rubric = [Criterion.model_validate(each) for each in job.request.get("rubric") or ()]
    return [(statement_of(each), each) for each in rubric]


def settings_text(job: Job) -> list[tuple[str, str]]:
    """The settings in force, each with what it is called."""
    return [(name, value) for name, value in _settings(job) if value]


def _settings(job: Job) -> Iterator[tuple[str, str]]:
    request = job.request
    yield "Generator", _listed(request.get("model"), " → ")
    yield "Evaluator", _listed(request.get("evaluation", {}).get("panel") or request.get("evaluator_model"), ", ")
    yield "Profile", request.get("profile") or ""
    yield "Iterations at most", str(job.progress.iter_max) if job.kind == JobKind.GENERATE_ANSWER else ""
    yield "Threshold", f"{request['score_threshold']:g}"
    for name, words in _FLAT.items():
        yield words, _value(request.get(name))
    for group, names in _GROUPS.items():
        values: Mapping[str, Any] = request.get(group) or {}
        for name, words in names.items():
            yield words, _value(values.get(name))


_FLAT = {"candidates": "Candidates", "stream": "Shown while it is written", "cache": "Identical earlier calls"}
_GROUPS = {
    "revision": {"strategy": "After a low score", "from": "From the answer that is"},
    "evaluation": {"samples": "Samples", "audit": "Audit", "skip": "Evaluation left out"},
    "limits": {"deadline_s": "Seconds at most", "max_cost_usd": "USD at most", "max_tokens": "Tokens at most"},
    "sampling": {"temperature": "Temperature", "max_output_tokens": "Tokens of one answer at most"},
}


def _listed(value: str | list[str] | None, between: str) -> str:
    return between.join(value) if isinstance(value, list) else value or ""


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return f"{value:g}" if isinstance(value, float) else _listed(value, ", ").replace("_", " ")
