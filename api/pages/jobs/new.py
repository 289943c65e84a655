"""`/new`: try it. A form for a job, drafted, checked and sent."""

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, ServicesOf
from api.pages.jobs.job_forms import LABELS, FormError, JobForm, located, validate
from api.pages.parts.forms import FormOf
from api.pages.parts.rendering import page, pages_router, see_other
from api.pages.parts.snippets import Snippet, snippets_of
from api.routes.jobs.refine import draft
from redraft.domain.jobs.drafts import RefineQuestion
from redraft.domain.jobs.requests import DEFAULT_PROFILE, GenerateAnswer
from redraft.domain.jobs.rubric_lines import check_like
from redraft.errors import Invalid, RedraftError
from redraft.operations.admin import installation
from redraft.operations.jobs import cost_estimates, queries, references, submit
from redraft.operations.jobs.cost_estimates import Preview
from redraft.operations.jobs.refine import Refinement
from redraft.operations.jobs.submit import Idempotency
from redraft.operations.services import Services

router = pages_router()

_NOTES_MAX = 5
_NO_CHECK = "No check is called or written so: {line} (a model evaluates this line of the rubric as text)."


@dataclass
class _Desk:
    """The form as it will be shown, with all that is said of it.

    Attributes:
        token: makes of two clicks on "Send" one job.
        trouble: why something could not be done, in words; `status` is the answer's.
        question: from which the draft was made.
    """

    form: JobForm
    token: str
    errors: list[FormError] = field(default_factory=list[FormError])
    trouble: str | None = None
    status: int = 200
    found: Preview | None = None
    notes: Sequence[str] = ()
    snippets: Sequence[Snippet] = ()
    draft: Refinement | None = None
    question: str = ""
    cloned: str | None = None
    kind: str | None = None
    extra_source: bool = False


@router.get("/new")
def show_new(request: Request, services: ServicesOf) -> Response:
    """The form: empty, or filled in as another job was asked for."""
    desk = _clone(services, request) if request.query_params.get("from") else _Desk(JobForm.blank(), new_token())
    return _show(request, services, desk)


@router.post("/new")
async def use_form(request: Request, context: ContextOf, sent: FormOf) -> Response:
    """Send the job, or do to the form what the button says: check, refine, add a source."""
    desk = _Desk(JobForm.sent(sent), sent.text("token") or new_token())
    verb = sent.text("do")
    if verb == "send" and (job_id := await run_in_threadpool(_send, request, context.services, desk)):
        return see_other(f"/jobs/{job_id}")
    await _VERBS.get(verb, _check)(request, context, desk)
    return await run_in_threadpool(_show, request, context.services, desk, is_part=verb == "preview")


def new_token() -> str:
    return secrets.token_urlsafe(16)


def _clone(services: Services, request: Request) -> _Desk:
    job = queries.get_job(services, references.find_job_id(services, request.query_params["from"]))
    desk = _Desk(JobForm.of_request(job.request), new_token(), cloned=job.id, kind=job.kind)
    _look_at(request, services, desk)
    desk.errors = []
    return desk


def _send(request: Request, services: Services, desk: _Desk) -> str | None:
    """The id of the job that is made, or was made by the same form before; None if the form has to be mended."""
    asked = _read(desk)
    if asked is None:
        return None
    try:
        return submit.submit(services, asked, _idempotency(request, desk)).job.id
    except Invalid as error:
        desk.errors, desk.status = located(error.errors), 422
        return None


def _idempotency(request: Request, desk: _Desk) -> Idempotency:
    """Per form and what it says: an edited one, sent from the same page again, is another job."""
    caller = request.scope["state"].get("key_id") or "-"
    said = json.dumps(desk.form.body()[0], sort_keys=True)
    return Idempotency(f"{caller}:new", hashlib.sha256(f"{desk.token}\n{said}".encode(errors="replace")).hexdigest())


def _read(desk: _Desk) -> GenerateAnswer | None:
    body, errors = desk.form.body()
    asked, more = validate(body)
    told = {error.field for error in errors}
    if "rubric" in told:
        told.add("eval_crit")
    desk.errors = [*errors, *(each for each in more if each.field not in told)]
    if desk.errors:
        desk.status = 422
        return None
    return asked


def _look_at(request: Request, services: Services, desk: _Desk) -> None:
    """Check the form, and estimate calls and cost."""
    asked = _read(desk)
    if asked is None:
        return
    try:
        desk.found = cost_estimates.preview(services, asked)
    except Invalid as error:
        desk.errors, desk.status = located(error.errors), 422
    desk.notes = [_NO_CHECK.format(line=line[:200]) for line in check_like(desk.form.texts["rubric"])[:_NOTES_MAX]]
    body = asked.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    base_url = str(request.base_url).rstrip("/")
    desk.snippets = snippets_of(body, base_url, with_key="key_id" in request.scope["state"])


async def _check(request: Request, context: Context, desk: _Desk) -> None:
    await run_in_threadpool(_look_at, request, context.services, desk)


async def _add_source(request: Request, context: Context, desk: _Desk) -> None:  # noqa: ARG001 - one shape for all
    desk.extra_source = True


async def _refine(request: Request, context: Context, desk: _Desk) -> None:
    """Let a model draft the task and the fields that are empty from the question."""
    question = desk.form.texts["instruct"]
    try:
        asked = RefineQuestion.model_validate({"question": question, "model": desk.form.first_model})
        found = await draft(context, asked)
    except Invalid as error:
        desk.errors, desk.status = located(error.errors), 422
    except ValueError:
        desk.errors, desk.status = [FormError("instruct", "Write a question first: it is what is refined")], 422
    except RedraftError as error:
        desk.trouble, desk.status = f"No draft was made. {error.message}", 502
    else:
        desk.draft, desk.question = found, question
        _fill_in(desk.form, found)
        await _check(request, context, desk)


def _fill_in(form: JobForm, found: Refinement) -> None:
    """The question gives way to the task; of the other fields, what the user has written stays."""
    drafted = found.model_dump(mode="json", include={"resp_format", "eval_crit", "rubric"})
    if form.texts["profile"] not in {"", DEFAULT_PROFILE}:
        del drafted["rubric"]
    empty = {name: value for name, value in drafted.items() if not form.texts[name].strip()}
    form.fill(instruct=found.instruct, **empty)


_VERBS: dict[str, Callable[[Request, Context, _Desk], Awaitable[None]]] = {
    "refine": _refine,
    "add_source": _add_source,
}


def _show(request: Request, services: Services, desk: _Desk, *, is_part: bool = False) -> Response:
    words: dict[str, list[str]] = {}
    for error in desk.errors:
        words.setdefault(error.field, []).append(error.words)
    context: dict[str, Any] = {
        "desk": desk,
        "texts": desk.form.texts,
        "words": {name: ". ".join(each) for name, each in words.items()},
        "models": installation.list_models(services),
        "labels": LABELS,
        "profiles": services.profiles.all(),
    }
    template = "new/preview.html" if is_part else "new/form.html"
    return page(request, template, 200 if is_part else desk.status, **context)
