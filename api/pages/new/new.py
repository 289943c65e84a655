"""The page `/new`, a form for a job. A model can draft its fields, and a user can check and send it."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, ServicesOf
from api.pages.new import trials
from api.pages.new.form_errors import FormError, find_all, in_order, located, validate
from api.pages.new.job_form_fields import GROUPS, LABELS
from api.pages.new.job_forms import JobForm, KeptFile
from api.pages.new.rubric_rows import FLAGS, KINDS, VALUES
from api.pages.new.trials import Trial
from api.pages.parts.forms import Form, FormWithFilesOf, idempotency_of, new_token, read_count
from api.pages.parts.rendering import page, pages_router, see_other
from api.pages.parts.snippets import Snippet, snippets_of
from api.routes.jobs.submitting import draft
from redraft.domain.jobs.attachments import MEDIA_TYPES
from redraft.domain.jobs.drafts import RefineQuestion
from redraft.domain.jobs.ids import read_traceparent
from redraft.domain.jobs.requests import DEFAULT_PROFILE, GenerateAnswer
from redraft.errors import Conflict, Invalid, NotFound, RedraftError
from redraft.operations.admin import installation
from redraft.operations.jobs import attachments, cost_estimates, queries, references, submit
from redraft.operations.jobs.cost_estimates import Preview
from redraft.operations.jobs.refine import Refinement
from redraft.operations.services import Services
from redraft.operations.template_lookup import list_templates

router = pages_router()

_NO_FILES = "The commands below leave out the images and PDFs."


@dataclass
class _FormState:
    """The state of the form: its fields, its errors, its preview, and the draft of a model.

    `focus` is the id of the field to continue with, and `added` the group that has a new empty row. If `is_inserted`, a
    script inserts the response into the page. Then the response has the status 200 even with errors, because browsers
    print other statuses in their consoles.
    """

    form: JobForm
    token: str
    is_inserted: bool = False
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
    added: str = ""
    focus: str = ""
    trial: Trial | None = None

    def refuse(self, errors: Iterable[FormError]) -> bool:
        """Set the errors, in the order of the page. Return whether there are any."""
        self.errors = in_order(self.form.placed(errors))
        self.status = 422 if self.errors else 200
        return bool(self.errors)


@router.get("/new")
def show_new(request: Request, services: ServicesOf) -> Response:
    if request.query_params.get("from"):
        return _show(request, services, _clone(services, request))
    state = _FormState(JobForm.of_request({}), new_token())
    state.form.texts["stream"] = "on"
    return _show(request, services, state)


@router.post("/new")
async def use_form(request: Request, context: ContextOf, sent: FormWithFilesOf) -> Response:
    state, verb = await run_in_threadpool(_sent_state, context.services, sent), sent.text("do")
    if verb == "refine":
        if await _refine(context, state):
            await run_in_threadpool(_check, request, context.services, state)
    elif path := await run_in_threadpool(_act, request, context.services, state, verb):
        return see_other(path)
    return await run_in_threadpool(_show, request, context.services, state, is_part=verb == "preview")


def _sent_state(services: Services, sent: Form) -> _FormState:
    state = _FormState(JobForm.sent(sent), sent.text("token") or new_token(), is_inserted=bool(sent.text("part")))
    state.form.kept = _kept_files(services, sent.texts("kept"))
    return state


def _act(request: Request, services: Services, state: _FormState, verb: str) -> str | None:
    """Do what a button asks for. Return the path of the page that follows, or None to show the form again."""
    action, _, rest = verb.partition("_")
    match action:
        case "send":
            return _send(request, services, state)
        case "try":
            return _try(services, state, with_model=rest == "model")
        case "rubric":
            state.refuse(state.form.show_rubric(as_text=rest == "text"))
            state.focus = "rubric" if state.form.is_text else "criterion_text_1"
        case "show":
            pass
        case "add" | "remove" | "up" | "down":
            state.focus = _focus_after(state, action, rest)
        case _:
            _check(request, services, state)
    return None


def _focus_after(state: _FormState, action: str, place: str) -> str:
    group, _, number = place.rpartition("_") if action != "add" else (place, "", "0")
    if group not in GROUPS:
        return ""
    rows, part = state.form.rows[group], "text" if group == "criterion" else GROUPS[group][1][0]
    if action == "add":
        state.added = group
        return f"{group}_{part}_{len(rows) + 1}"
    moved = read_count(number) + {"up": -1, "down": 1, "remove": 0}[action]
    return f"{group}_{part}_{min(max(moved, 1), len(rows) or 1)}"


def _clone(services: Services, request: Request) -> _FormState:
    job = queries.get_job(services, references.find_job_id(services, request.query_params["from"]))
    state = _FormState(JobForm.of_request(job.request), new_token(), cloned=job.id, kind=job.kind)
    digests = [each["digest"] for each in job.request.get("attachments", ())]
    state.form.kept = _kept_files(services, [f"{job.id}/{digest}" for digest in digests])
    _check(request, services, state)
    # The job can name models that are no longer configured. Such errors are shown when the form is sent
    state.errors, state.status = [], 200
    return state


def _kept_files(services: Services, named: Sequence[str]) -> list[KeptFile]:
    """Read the attachments that the form takes from an earlier job. A name is the id of the job and a digest."""
    # One more than the maximum, so that the request with all of them is refused
    different = list(dict.fromkeys(named))[: services.settings.attachments_max + 1]
    return [KeptFile(each, _kept_file(services, each)) for each in different]


def _kept_file(services: Services, name: str) -> attachments.StoredFile | None:
    job_id, _, digest = name.partition("/")
    try:
        return attachments.get(services, job_id, digest)
    except NotFound:
        return None


def _send(request: Request, services: Services, state: _FormState) -> str | None:
    """Submit the form, and return the path of the job. Return None if the form has errors."""
    asked = _read(state, partial(submit.normalise, services))
    if asked is None:
        return None
    content = json.dumps(state.form.body()[0], sort_keys=True)
    idempotency = idempotency_of(request, "new", state.token, content)
    traceparent = read_traceparent(request.headers.get("traceparent"))
    try:
        job = submit.submit(services, asked, idempotency, traceparent=traceparent).job
    except Invalid as error:
        state.refuse(located(error.errors))
        return None
    return f"/jobs/{job.id}"


def _read(state: _FormState, check: Callable[[GenerateAnswer], object]) -> GenerateAnswer | None:
    """Return the request, or None if it has errors. `check` raises Invalid for errors of models or templates."""
    body, errors = state.form.body()
    known = {field_error.field for field_error in errors}
    more = [each for each in find_all(body, check) if each.field not in known]
    return None if state.refuse([*errors, *more]) else validate(body)[0]


def _check(request: Request, services: Services, state: _FormState) -> None:
    """Validate the form, and estimate the number and the cost of its model calls."""
    found: list[Preview] = []
    asked = _read(state, lambda each: found.append(cost_estimates.preview(services, each)))
    if asked is None:
        return
    state.found = found[-1]
    # The commands would be too long with the data of files
    body = asked.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"attachments"})
    if asked.attachments:
        state.notes = [_NO_FILES]
    base_url = str(request.base_url).rstrip("/")
    state.snippets = snippets_of(body, base_url, with_key="key_id" in request.scope["state"])


def _try(services: Services, state: _FormState, *, with_model: bool) -> str | None:
    """Try the rubric on the answer of a past job. Return the path of the new job if models evaluate the answer."""
    errors: list[FormError] = []
    rubric = state.form.rubric(errors)
    state.focus = "trial"
    if not rubric:
        errors.append(FormError("try_job", "write a criterion first"))
    elif not errors:
        errors += find_all({"instruct": "-", "rubric": rubric}, lambda _: None)
    if state.refuse(errors):
        return None
    try:
        trial = trials.try_rubric(services, rubric, state.form.texts["try_job"].strip())
        if with_model:
            return f"/jobs/{trials.evaluate(services, trial)}"
        state.trial = trial
    except (NotFound, Conflict, Invalid) as error:
        state.refuse([FormError("try_job", error.message)])
    return None


async def _refine(context: Context, state: _FormState) -> bool:
    """Let a model draft the task and the empty fields from a question. Return whether there is a draft."""
    question, models = state.form.texts["instruct"], state.form.texts["model"]
    try:
        asked = RefineQuestion.model_validate({"question": question, "model": models.split("\n")[0].strip() or None})
        found = await draft(context, asked)
    except Invalid as error:
        state.refuse(located(error.errors))
    except ValueError:
        state.refuse([FormError("instruct", "Write a question first")])
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
    is_filled = {"rubric": form.has_rubric}
    empty = {
        name: value
        for name, value in drafted.items()
        if not is_filled.get(name, bool(form.texts.get(name, "").strip()))
    }
    form.fill(instruct=found.instruct, **empty)


def _show(request: Request, services: Services, state: _FormState, *, is_part: bool = False) -> Response:
    words: dict[str, list[str]] = {}
    for field_error in state.errors:
        words.setdefault(field_error.field, []).append(field_error.words)
    return page(
        request,
        "new/preview.html" if is_part else "new/form.html",
        200 if is_part or state.is_inserted else state.status,
        state=state,
        texts=state.form.texts,
        words={name: ". ".join(each) for name, each in words.items()},
        models=installation.list_models(services),
        labels=LABELS,
        media_types=MEDIA_TYPES,
        profiles=services.profiles.all(),
        templates=[each.name for each in list_templates(services)],
        rows={group: _rows_shown(state, group) for group in GROUPS},
        choices={"kinds": KINDS, "flags": FLAGS, "values": VALUES},
    )


def _rows_shown(state: _FormState, group: str) -> list[dict[str, str]]:
    """Return the rows of a group. Add an empty row if there are no rows, or if the user asked for a row."""
    rows = state.form.rows[group]
    return [*rows, dict.fromkeys(GROUPS[group][1], "")] if state.added == group or not rows else rows
