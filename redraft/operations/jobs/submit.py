"""Submits a job: normalises the request, stores the job, and notifies the workers after the commit.

`cost_estimates.py` estimates the cost of a request.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection

from redraft.domain.calls.model_names import ModelRef, parse_model
from redraft.domain.checks.shorthand import misread_check
from redraft.domain.evaluation.rubrics import Criterion, misread_checks
from redraft.domain.jobs.ids import TraceParent, new_id
from redraft.domain.jobs.requests import (
    AnyRequest,
    EvaluateAnswer,
    GenerateAnswer,
    RescoreAnswers,
    dump,
    ladder,
)
from redraft.domain.jobs.states import JobKind, JobStatus, Step
from redraft.domain.structured.answers import check_schema
from redraft.errors import Conflict, FieldError, Invalid
from redraft.operations.calls import check_requests
from redraft.operations.fault_points import FaultPoint, reached
from redraft.operations.jobs import attachments
from redraft.operations.jobs.variables import with_rendered_texts
from redraft.operations.jobs.webhooks import check_webhook
from redraft.operations.request_views import evaluators_of, models_named, needs_evaluator
from redraft.operations.results.grounding import grounding_reader
from redraft.operations.results.job_results import Event, event
from redraft.operations.services import Services
from redraft.operations.steps import context
from redraft.operations.template_lookup import keep, unstored_template_of
from redraft.operations.tuning_lookup import tuned
from redraft.prompts.template_files import SHORT, GeneratorTemplate
from redraft.providers.catalog import DEFAULT_LOCAL, ProviderCatalog
from redraft.providers.shared.protocol import Usage
from redraft.storage.engine.statements import Change
from redraft.storage.jobs import events, history, jobs
from redraft.storage.jobs.history import IterationRecord
from redraft.storage.jobs.jobs import JobRecord


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The idempotency key of a request. The scope is the caller and the route, and the key is unique in its scope."""

    scope: str
    key: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A job before it is stored: its normalised request, its warnings, and the grounding of an answer to evaluate.

    `digest` is the hash of the request as the user sent it. `files` has the data of its attachments. `template` is the
    file of its template if the database may not have the version yet.
    """

    request: AnyRequest
    digest: str
    warnings: list[dict[str, str]]
    grounding: dict[str, Any] | None
    files: list[dict[str, Any]]
    template: GeneratorTemplate | None


@dataclass(frozen=True, slots=True)
class Submission:
    job: JobRecord
    is_replay: bool


def normalise(services: Services, request: AnyRequest, *, is_row: bool = False) -> AnyRequest:
    """Fill in variables and models, and ensure that each model can be called.

    With `is_row`, the request is the item of a run, whose texts are already rendered.

    Raises Invalid if:
        a criterion in words is a check, or a misspelled one (`check_misread`);
        a variable of a text is missing or not used, or there is no such template (`with_rendered_texts`);
        a model is unknown, or its provider has no key (`unknown_model`, `provider_auth`);
        the schema of the answer is not valid (`invalid_schema`);
        there is a budget in USD, and a price is unknown (`unpriced_model`);
        there are too many attachments, or they are too large;
        the webhook cannot be signed, or its address is not allowed (`webhooks_not_configured`, `address_not_allowed`).
    """
    providers = services.providers
    refuse_misread_checks(request.rubric, request.eval_crit)
    request = with_rendered_texts(services, _with_default_template(services, request), is_row=is_row)
    update: dict[str, Any] = {
        "grounding": request.grounds,
        "attachments": attachments.without_data(services.settings, request),
    }
    if isinstance(request, GenerateAnswer):
        update["model"] = resolve_ladder(providers, request.model)
        # The job ends with its first answer, so no iteration can follow
        if request.evaluation.when == "after_answer":
            update["iter_max"] = 1
    fallback = services.settings.evaluator_model or (update["model"][0] if "model" in update else None)
    update |= normalise_evaluators(services, request, fallback or str(providers.default_model()))
    if isinstance(request, GenerateAnswer) and isinstance(request.answer_schema, Mapping):
        check_schema(request.answer_schema, "/answer_schema")
    check_webhook(services, request.webhook)
    check_requests.ensure_known(services.settings, request)
    normal = request.model_copy(update=update)
    normal = normal.model_copy(update=tuned(services, normal))
    check_priced(services, normal, normal.limits.max_cost_usd)
    return normal


def _with_default_template(services: Services, request: AnyRequest) -> AnyRequest:
    """Return the request with the template `short` if only the bundled model generates and no template is named."""
    if not isinstance(request, GenerateAnswer) or request.generator_template or services.settings.local_model:
        return request
    if set(resolve_ladder(services.providers, request.model)) != {str(DEFAULT_LOCAL)}:
        return request
    # The bundled model writes about long prompts instead of following them: docs/evidence.md
    return request.model_copy(update={"generator_template": SHORT})


def refuse_misread_checks(rubric: Sequence[Criterion] | None, eval_crit: str | None) -> None:
    """Raise Invalid if a criterion in words is a check, or a misspelled one (`check_misread`)."""
    # Not a rule of the model of a request, because stored requests of earlier versions stay valid
    errors = misread_checks(rubric)
    if eval_crit and (words := misread_check(eval_crit)):
        errors.append(FieldError("/eval_crit", words, "check_misread"))
    if errors:
        raise Invalid("A criterion in words is a check.", tuple(errors), code="check_misread")


def normalise_evaluators(services: Services, request: AnyRequest, fallback: str) -> dict[str, Any]:
    """The fields that name evaluators, with full model names. A panel replaces the single evaluator.

    Raises Invalid if a model cannot be called, the profile is unknown, or the profile needs a field that is missing.
    """
    providers, evaluation = services.providers, request.evaluation
    missing = services.profiles.get(request.profile).missing(request)
    if missing:
        words = f"Profile {request.profile!r} needs {', '.join(missing)}: add it, or name another profile."
        raise Invalid.at(f"/{missing[0]}", words, "nothing_to_evaluate_by")
    # A panel holds all evaluators. The single evaluator is still needed, for a column of the job
    panel = [
        str(resolve_model(providers, name, f"/evaluation/panel/{index}")) for index, name in enumerate(evaluation.panel)
    ]
    audit = evaluation.audit and str(resolve_model(providers, evaluation.audit, "/evaluation/audit"))
    evaluator = request.evaluator_model or fallback
    single = panel[0] if panel else str(resolve_model(providers, evaluator, "/evaluator_model"))
    return {"evaluator_model": single, "evaluation": evaluation.model_copy(update={"panel": panel, "audit": audit})}


def check_priced(services: Services, request: AnyRequest, budget: float | None) -> None:
    """Raise Invalid if there is a budget and a model has no known price (`unpriced_model`)."""
    # A model has a price for every usage or for no usage, so any usage shows whether the model has a price
    for name in models_named(request) if budget is not None else ():
        if services.providers.price(parse_model(name), Usage(input_tokens=1, output_tokens=1)) is None:
            words = f"The price of {name} is unknown, so a budget in USD cannot be enforced: set REDRAFT_PRICES for it."
            raise Invalid.at("/limits/max_cost_usd", words, "unpriced_model")


def resolve_ladder(providers: ProviderCatalog, model: str | list[str] | None) -> list[str]:
    if isinstance(model, list):
        return [str(resolve_model(providers, name, f"/model/{index}")) for index, name in enumerate(model)]
    name = str(providers.default_model()) if model is None else model
    return [str(resolve_model(providers, name, "/model"))]


def resolve_model(providers: ProviderCatalog, name: str, pointer: str) -> ModelRef:
    """The model with this name. Raises Invalid if the model is unknown, or its provider has no key."""
    ref = parse_model(name, pointer)
    providers.check_configured(ref, pointer)
    return ref


def warnings_of(services: Services, request: AnyRequest) -> list[dict[str, str]]:
    """The warnings about a normalised request; docs/errors.md explains their codes."""
    about_evaluators = _weak_evaluators if needs_evaluator(request) else _idle_evaluators
    found = (*_unreadable_grounding(request), *about_evaluators(services, request))
    return [{"code": code, "message": message} for code, message in found]


def _unreadable_grounding(request: AnyRequest) -> Iterator[tuple[str, str]]:
    if request.grounds and not request.sources:
        text = "The answer must be grounded in sources, but there are none: the answer can only ask for sources."
        yield "no_context", text
    has_schema = isinstance(request, GenerateAnswer) and isinstance(request.answer_schema, Mapping)
    if has_schema and request.grounds and request.grounds.require_grounding:
        text = "Citations are not read in answers with a schema of the user, so require_grounding accepts every answer."
        yield "grounding_not_read", text


def _weak_evaluators(services: Services, request: AnyRequest) -> Iterator[tuple[str, str]]:
    """Warnings about models that evaluate their own answers, are too small to evaluate, or ignore the criteria."""
    evaluators = evaluators_of(request)
    own = [model for model in evaluators if isinstance(request, GenerateAnswer) and model in ladder(request)]
    if own:
        text = f"{', '.join(own)} evaluates its own answers; a model of another family evaluates better."
        yield "evaluator_is_generator", text
    if str(DEFAULT_LOCAL) in evaluators and not services.settings.local_model:
        text = f"{DEFAULT_LOCAL} is too small to evaluate reliably: use checks, or choose another evaluator."
        yield "evaluator_is_tiny", text
    if request.eval_crit and "eval_crit" not in services.profiles.get(request.profile).sees:
        text = f"Profile {request.profile!r} does not use eval_crit: only the generator sees it, no evaluator does."
        yield "eval_crit_not_judged", text


def _idle_evaluators(_services: Services, request: AnyRequest) -> Iterator[tuple[str, str]]:
    """Warnings about fields that have no effect, because the rubric has only checks."""
    evaluation = request.evaluation
    if request.eval_crit:
        text = "The rubric holds only checks, so no model evaluates eval_crit: add a binary criterion for it."
        yield "eval_crit_not_judged", text
    settings = {"panel": evaluation.panel, "samples": evaluation.samples > 1, "audit": evaluation.audit}
    idle = [name for name, is_set in settings.items() if is_set]
    if idle:
        text = f"The rubric holds only checks, so no evaluator is called: {', '.join(idle)} have no effect."
        yield "evaluators_not_asked", text


def submit(
    services: Services,
    request: AnyRequest,
    idempotency: Idempotency | None = None,
    *,
    traceparent: TraceParent | None = None,
) -> Submission:
    """Store a job, notify the workers of its first step, and wake the clients that wait for changes of jobs.

    `traceparent` is the trace context of the request. The idempotency key is a column of the job, so simultaneous
    requests with the same key create one job.

    Raises Invalid if `normalise` refuses the request, or the key was used with another request. Raises Conflict if the
    job of the key was deleted at the same time.
    """
    ready = prepare(services, request)
    row = row_of(ready, idempotency, traceparent=traceparent)
    job = _store_in_group(services, ready, row)
    if job is None:
        with services.database.write() as connection:
            # A group commit with unknown outcome may have stored the job
            job = store(connection, ready, row) or jobs.get(connection, row["id"])
            if job is None and idempotency:
                return _replay(connection, idempotency, ready.digest, request)
    if job is None:
        raise RuntimeError("A job without an idempotency key was refused because its key exists.")
    reached(FaultPoint.SUBMITTED, job.id)
    # A fast worker would find no job before the commit. If this process dies here, the sweeper notifies the workers
    context.notify(services, context.message_of(job))
    services.queue.wake(job.id)
    return Submission(job, is_replay=False)


def prepare(services: Services, request: AnyRequest, *, is_row: bool = False) -> Ready:
    """Prepare a job outside of a unit of work. Raises the errors of `normalise`."""
    normal = normalise(services, request, is_row=is_row)
    # The digest is of the request as sent. The normalised request depends on the settings, so a changed setting would
    # make a replay look like another request. Without defaults, the digest stays the same when a release adds a field
    digest = _digest(request.model_dump(mode="json", by_alias=True, exclude_defaults=True))
    # Long answers take time to check, so this is done before the unit of work
    grounding = grounding_reader(normal)(normal.answer) if isinstance(normal, EvaluateAnswer) else None
    files = attachments.rows_of(request.attachments)
    return Ready(
        normal, digest, warnings_of(services, normal), grounding, files, unstored_template_of(services, normal)
    )


def _store_in_group(services: Services, ready: Ready, row: Mapping[str, Any]) -> JobRecord | None:
    """Store a job and its first event with one statement. None if the job needs further rows, or was not stored."""
    group_commit, request = services.database.group_commit, ready.request
    has_other_rows = ready.files or ready.template or request.webhook or not isinstance(request, GenerateAnswer)
    if group_commit is None or has_other_rows:
        return None
    rows = [events.rows_of(row["id"], 1, [_queued()])]
    return jobs.add_in_group(group_commit, row, request.limits.deadline_s, rows)


def store(
    connection: Connection, ready: Ready, row: Mapping[str, Any], changes: Sequence[Change] = ()
) -> JobRecord | None:
    """Store a job, and make other changes. None if its id or its idempotency key exists.

    The caller notifies the workers after the commit.
    """
    table, queued = events.rows_of(row["id"], 1, [_queued()])
    job = jobs.add(connection, row, ready.request.limits.deadline_s, [(table, queued)], changes)
    if job is None:
        return None
    attachments.store(connection, job.id, ready.request, ready.files)
    keep(connection, ready.template)
    if isinstance(ready.request, EvaluateAnswer):
        given = IterationRecord(
            id=new_id("iteration"),
            number=1,
            candidate=1,
            generator_model=None,
            answer=ready.request.answer,
            feedback_given=None,
            created_at=job.created_at,
            evaluation=None,
            grounding=ready.grounding,
        )
        history.add_iterations(connection, job.id, [given])
    events.add_deliveries(connection, job, queued)
    return job


def _queued() -> Event:
    return event("job.queued", "The job is stored and waits for a worker.")


def row_of(
    ready: Ready,
    idempotency: Idempotency | None = None,
    *,
    run_id: str | None = None,
    delivery: str | None = None,
    traceparent: TraceParent | None = None,
) -> dict[str, Any]:
    """Return the row of a new job, with a new id."""
    request = ready.request
    return {
        "id": new_id("job"),
        "status": JobStatus.QUEUED.value,
        "request": dump(request),
        "metadata": request.metadata,
        "warnings": ready.warnings,
        "evaluator_model": request.evaluator_model,
        "idempotency_scope": idempotency.scope if idempotency else None,
        "idempotency_key": idempotency.key if idempotency else None,
        "request_hash": ready.digest,
        "event_seq": 1,
        "run_id": run_id,
        "delivery": delivery,
        "trace_id": traceparent and traceparent.trace_id,
        "traceparent": traceparent and str(traceparent),
        **_first_step(request),
    }


def _first_step(request: AnyRequest) -> dict[str, Any]:
    """The columns that hold the kind and the first step of a job."""
    if isinstance(request, GenerateAnswer):
        place = {"step": Step.GENERATE.value, "iteration": 0, "iteration_limit": request.iter_max}
        return {**place, "kind": JobKind.GENERATE_ANSWER.value, "model": ladder(request)[0]}
    if isinstance(request, RescoreAnswers):
        numbers = request.iterations
        place = {"step": Step.EVALUATE.value, "iteration": numbers[0], "iteration_limit": numbers[-1]}
        return {**place, "kind": JobKind.RESCORE_ANSWERS.value, "rescored_job_id": request.job_id}
    return {"step": Step.EVALUATE.value, "iteration": 1, "iteration_limit": 1, "kind": JobKind.EVALUATE_ANSWER.value}


def _digest(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(to_json(fields)).hexdigest()


def _replay(connection: Connection, idempotency: Idempotency, digest: str, request: AnyRequest) -> Submission:
    known = jobs.find_by_key(connection, idempotency.scope, idempotency.key)
    if known is None:
        raise Conflict("The job of this Idempotency-Key was deleted at the same moment; send the request again.")
    # Jobs that an earlier version stored have the digest of all fields
    if known.request_hash not in {digest, _digest(dump(request))}:
        words = f"This Idempotency-Key was used for job {known.id} with another body; use a new key."
        raise Invalid.at("", words, "idempotency_key_reused")
    return Submission(known, is_replay=True)
