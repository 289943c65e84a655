"""A job's texts to take along: the answer as a file, the request as one sends it again."""

from typing import Any

from fastapi import Request
from fastapi.responses import PlainTextResponse

from api.downloads import disposition
from api.pages.filters import clip
from api.pages.job_forms import minimal
from api.pages.snippets import snippets_of
from redraft.domain.states import JobKind
from redraft.operations.resources import Job

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
    asked = minimal(job.request)
    return {"asked": asked, "snippets": snippets_of(asked, base_url, with_key=has_auth) if is_plain else []}
