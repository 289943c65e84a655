"""The page `/new`, a form for a job. A model can draft its fields, and a user can check and send it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, ServicesOf
from api.pages.jobs.job_forms import LABELS, FormError, JobForm, located, validate
from api.pages.parts.forms import FormWithFilesOf, idempotency_of, new_token
from api.pages.parts.rendering import page, pages_router, see_other
from api.pages.parts.snippets import Snippet, snippets_of
from api.routes.jobs.submitting import draft
from redraft.domain.jobs.attachments import MEDIA_TYPES
from redraft.domain.jobs.drafts import RefineQuestion
from redraft.domain.jobs.requests import DEFAULT_PROFILE, GenerateAnswer
from redraft.domain.jobs.rubric_lines import lines_like_checks
from redraft.errors import Invalid, RedraftError
from redraft.operations.admin import installation
from redraft.operations.jobs import cost_estimates, queries, references, submit
from redraft.operations.jobs.cost_estimates import Preview
from redraft.operations.jobs.refine import Refinement
from redraft.operations.services import Services
from redraft.operations.template_lookup import list_templates

router = pages_router()

_NOTES_MAX = 5
_NO_FILES = "The commands below leave out the images and PDFs."
_NO_CHECK = "This line of the rubric is not a check, so a model evaluates it as text: {line}"


@dataclass
class _FormState:
    """The state of the form: its fields, its errors, its preview, and the draft of a model."""

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
    state = (
        _clone(services, request)
        if request.query_params.get("from")
        else _FormState(JobForm.of_request({}), new_token())
    )
    return _show(request, services, state)


@router.post("/new")
async def use_form(request: Request, context: ContextOf, sent: FormWithFilesOf) -> Response:
    state = _FormState(JobForm.sent(sent), sent.text("token") or new_token())
    verb = sent.text("do")
    if verb == "send" and (job_id := await run_in_threadpool(_send, request, context.services, state)):
        return see_other(f"/jobs/{job_id}")
    if verb == "add_source":
        state.extra_source = True
    elif verb != "refine" or await _refine(context, state):
        await run_in_threadpool(_check, request, context.services, state)
    return await run_in_threadpool(_show, request, context.services, state, is_part=verb == "preview")


def _clone(services: Services, request: Request) -> _FormState:
    job = queries.get_job(services, references.find_job_id(services, request.query_params["from"]))
    state = _FormState(JobForm.of_request(job.request), new_token(), cloned=job.id, kind=job.kind)
    _check(request, services, state)
    # The job can name models that are no longer configured. Such errors are shown when the form is sent
    state.errors = []
    return state


def _send(request: Request, services: Services, state: _FormState) -> str | None:
    """Submit the form, and return the id of the job. Return None if the form has errors."""
    body = _read(state)
    if body is None:
        return None
    content = json.dumps(state.form.body()[0], sort_keys=True)
    try:
        return submit.submit(services, body, idempotency_of(request, "new", state.token, content)).job.id
    except Invalid as error:
        state.errors, state.status = located(error.errors), 422
        return None


def _read(state: _FormState) -> GenerateAnswer | None:
    body, errors = state.form.body()
    request, more = validate(body)
    known = {field_error.field for field_error in errors}
    # An invalid rubric is not part of the request, so an additional error about missing criteria would be wrong
    if "rubric" in known:
        known.add("eval_crit")
    state.errors = [*errors, *(each for each in more if each.field not in known)]
    if state.errors:
        state.status = 422
        return None
    return request


def _check(request: Request, services: Services, state: _FormState) -> None:
    """Validate the form, and estimate the number and the cost of its model calls."""
    asked = _read(state)
    if asked is None:
        return
    try:
        state.found = cost_estimates.preview(services, asked)
    except Invalid as error:
        state.errors, state.status = located(error.errors), 422
    state.notes = [
        _NO_CHECK.format(line=line[:200]) for line in lines_like_checks(state.form.texts["rubric"])[:_NOTES_MAX]
    ]
    # The commands would be too long with the data of files
    body = asked.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"attachments"})
    if asked.attachments:
        state.notes = [*state.notes, _NO_FILES]
    base_url = str(request.base_url).rstrip("/")
    state.snippets = snippets_of(body, base_url, with_key="key_id" in request.scope["state"])


async def _refine(context: Context, state: _FormState) -> bool:
    """Let a model draft the task and the empty fields from a question. Return whether there is a draft."""
    question, models = state.form.texts["instruct"], state.form.texts["model"]
    try:
        asked = RefineQuestion.model_validate({"question": question, "model": models.split("\n")[0].strip() or None})
        found = await draft(context, asked)
    except Invalid as error:
        state.errors, state.status = located(error.errors), 422
    except ValueError:
        state.errors, state.status = [FormError("instruct", "Write a question first")], 422
    except RedraftError as error:
        state.trouble, state.status = f"No draft was made. {error.message}", 502
    else:
        state.draft, state.question = found, question
        _fill_in(state.form, found)
    return state.draft is not None


def _fill_in(form: JobForm, found: Refinement) -> None:
    drafted = found.model_dump(mode="json", include={"resp_format", "eval_crit", "rubric"})
    # Other profiles have no rubric
    if form.texts["profile"] not in {"", DEFAULT_PROFILE}:
        del drafted["rubric"]
    empty = {name: value for name, value in drafted.items() if not form.texts[name].strip()}
    form.fill(instruct=found.instruct, **empty)


def _show(request: Request, services: Services, state: _FormState, *, is_part: bool = False) -> Response:
    words: dict[str, list[str]] = {}
    for field_error in state.errors:
        words.setdefault(field_error.field, []).append(field_error.words)
    return page(
        request,
        "new/preview.html" if is_part else "new/form.html",
        200 if is_part else state.status,
        state=state,
        texts=state.form.texts,
        words={name: ". ".join(each) for name, each in words.items()},
        models=installation.list_models(services),
        labels=LABELS,
        media_types=MEDIA_TYPES,
        profiles=services.profiles.all(),
        templates=[each.name for each in list_templates(services)],
    )
