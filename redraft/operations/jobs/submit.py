"""Submits a job: normalises the request, stores the job, and notifies the workers after the commit."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection

from redraft.domain.calls.models import ModelRef, parse_model
from redraft.domain.evaluation.aggregation import groups_of
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import (
    AnyRequest,
    EvaluateAnswer,
    GenerateAnswer,
    Limits,
    RescoreAnswers,
    dump,
    ladder,
)
from redraft.domain.jobs.states import JobKind, JobStatus, Step
from redraft.domain.structured.answers import check_schema
from redraft.errors import Conflict, FieldError, Invalid
from redraft.operations.jobs.webhooks import check_webhook
from redraft.operations.request_views import evaluators_of, models_named, needs_evaluator, schema_of
from redraft.operations.results.grounding import grounding_reader
from redraft.operations.results.job_results import event
from redraft.operations.services import Services
from redraft.operations.steps import context
from redraft.operations.steps.fault_points import FaultPoint, reached
from redraft.providers.catalog import DEFAULT_LOCAL, ProviderCatalog
from redraft.providers.shared.protocol import Usage
from redraft.storage.jobs import events, history, jobs
from redraft.storage.jobs.history import IterationRecord
from redraft.storage.jobs.jobs import JobRecord

SAME_MODEL = "evaluator_is_generator"
TINY_EVALUATOR = "evaluator_is_tiny"
NO_CONTEXT = "no_context"
GROUNDING_UNREAD = "grounding_not_read"
CRITERIA_UNJUDGED = "eval_crit_not_judged"
EVALUATORS_UNUSED = "evaluators_not_asked"


@dataclass(frozen=True, slots=True)
class Idempotency:
    """The key of a caller, unique within its scope: one caller and one route."""

    scope: str
    key: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A normalised request, ready to be stored.

    Attributes:
        digest: the hash of the request before it was normalised.
        grounding: the grounding of a given answer.
    """

    request: AnyRequest
    digest: str
    warnings: list[dict[str, str]]
    grounding: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Submission:
    job: JobRecord
    is_replay: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """A normalised request with its warnings and its maximum of calls; nothing is stored."""

    request: dict[str, Any]
    warnings: list[dict[str, str]]
    calls_max: int


def normalise(services: Services, request: AnyRequest) -> AnyRequest:
    """Fill in the models, and ensure that each can be called.

    Raises Invalid if a model is unknown or its provider has no key (`unknown_model`, `provider_auth`); the answer's
    schema is not valid (`invalid_schema`); there is a budget in USD and a price is unknown (`unpriced_model`); the
    webhook cannot be signed, or its address is not allowed (`webhooks_not_configured`, `address_not_allowed`).
    """
    providers = services.providers
    update: dict[str, Any] = {}
    if isinstance(request, GenerateAnswer):
        update["model"] = resolve_ladder(providers, request.model)
    fallback = services.settings.evaluator_model or (update["model"][0] if update else str(providers.default_model()))
    update |= normalise_evaluators(services, request, fallback)
    if isinstance(request, GenerateAnswer) and isinstance(request.answer_schema, Mapping):
        check_schema(request.answer_schema, "/answer_schema")
    update["grounding"] = request.grounds
    check_webhook(services, request.webhook)
    normal = request.model_copy(update=update)
    check_priced(services, normal.limits, models_named(normal))
    return normal


def normalise_evaluators(services: Services, request: AnyRequest, fallback: str) -> dict[str, Any]:
    """The fields that name evaluators, with full model names; a panel replaces the single evaluator.

    Raises Invalid if a model cannot be called, or the profile is unknown or needs a field that is missing.
    """
    providers, evaluation = services.providers, request.evaluation
    missing = services.profiles.get(request.profile).missing(request)
    if missing:
        words = f"Profile {request.profile!r} needs {', '.join(missing)}: add it, or name another profile."
        raise Invalid.at(f"/{missing[0]}", words, "nothing_to_evaluate_by")
    panel = [
        str(resolve_model(providers, name, f"/evaluation/panel/{index}")) for index, name in enumerate(evaluation.panel)
    ]
    audit = evaluation.audit and str(resolve_model(providers, evaluation.audit, "/evaluation/audit"))
    single = (
        panel[0] if panel else str(resolve_model(providers, request.evaluator_model or fallback, "/evaluator_model"))
    )
    return {"evaluator_model": single, "evaluation": evaluation.model_copy(update={"panel": panel, "audit": audit})}


def check_priced(services: Services, limits: Limits, models: Sequence[str]) -> None:
    """Refuse a budget in USD if it cannot be enforced.

    Raises Invalid if a model's price is unknown (code `unpriced_model`).
    """
    if limits.max_cost_usd is None:
        return
    for name in models:
        if services.providers.price(parse_model(name), Usage(input_tokens=1, output_tokens=1)) is None:
            words = f"The price of {name} is unknown, so a budget in USD cannot be enforced: set REDRAFT_PRICES for it."
            raise Invalid.at("/limits/max_cost_usd", words, "unpriced_model")


def resolve_ladder(providers: ProviderCatalog, model: str | list[str] | None) -> list[str]:
    if model is None:
        return [str(resolve_model(providers, str(providers.default_model()), "/model"))]
    if isinstance(model, str):
        return [str(resolve_model(providers, model, "/model"))]
    return [str(resolve_model(providers, name, f"/model/{index}")) for index, name in enumerate(model)]


def resolve_model(providers: ProviderCatalog, name: str, pointer: str) -> ModelRef:
    ref = parse_model(name, pointer)
    providers.check_configured(ref, pointer)
    return ref


def warnings_of(services: Services, request: AnyRequest) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    if request.grounds and not request.sources:
        text = "The answer must be grounded in sources, but the job has none: the answer can only ask for them."
        found.append({"code": NO_CONTEXT, "message": text})
    if _is_unread(request):
        text = "Citations are not read in answers with their own schema, so require_grounding accepts all of them."
        found.append({"code": GROUNDING_UNREAD, "message": text})
    if not needs_evaluator(request):
        return [*found, *_idle_evaluators(request)]
    found += _unreliable_evaluators(services, request)
    if request.eval_crit and "eval_crit" not in services.profiles.get(request.profile).sees:
        text = f"Profile {request.profile!r} does not use eval_crit: only the generator sees it, no evaluator does."
        found.append({"code": CRITERIA_UNJUDGED, "message": text})
    return found


def _unreliable_evaluators(services: Services, request: AnyRequest) -> list[dict[str, str]]:
    """Warnings about models that evaluate their own answers, or that are too small to evaluate."""
    found: list[dict[str, str]] = []
    evaluators = evaluators_of(request)
    own = [model for model in evaluators if isinstance(request, GenerateAnswer) and model in ladder(request)]
    if own:
        text = f"{', '.join(own)} evaluates its own answers; a model of another family evaluates better."
        found.append({"code": SAME_MODEL, "message": text})
    if str(DEFAULT_LOCAL) in evaluators and not services.settings.local_model:
        text = f"{DEFAULT_LOCAL} is too small to evaluate reliably: use checks, or choose another evaluator."
        found.append({"code": TINY_EVALUATOR, "message": text})
    return found


def _is_unread(request: AnyRequest) -> bool:
    """Whether grounding is required although citations cannot be read in an answer with its own schema."""
    has_own = isinstance(request, GenerateAnswer) and isinstance(request.answer_schema, Mapping)
    return has_own and request.grounds is not None and request.grounds.require_grounding


def _idle_evaluators(request: AnyRequest) -> list[dict[str, str]]:
    """Warnings about fields that have no effect, because the rubric has only checks."""
    evaluation, found = request.evaluation, list[dict[str, str]]()
    if request.eval_crit:
        text = "The rubric holds only checks, so no model evaluates eval_crit: add a binary criterion for it."
        found.append({"code": CRITERIA_UNJUDGED, "message": text})
    settings = {"panel": evaluation.panel, "samples": evaluation.samples > 1, "audit": evaluation.audit}
    idle = [name for name, is_set in settings.items() if is_set]
    if idle:
        text = f"The rubric holds only checks, so no evaluator is called: {', '.join(idle)} have no effect."
        found.append({"code": EVALUATORS_UNUSED, "message": text})
    return found


def estimate(services: Services, request: AnyRequest) -> Estimate:
    """The answer to `validate_only`: the normalised request, and its maximum of calls without retries."""
    normal = normalise(services, request)
    return Estimate(dump(normal), warnings_of(services, normal), calls_max(services, normal))


@dataclass(frozen=True, slots=True)
class CallsMax:
    """The maximum of model calls of a request, without retries after failures.

    Attributes:
        generate: the calls of this type in each iteration, like `evaluate` and `repair`.
        audit: the calls after the end of the loop, with their repairs.
    """

    iterations: int
    generate: int
    evaluate: int
    repair: int
    audit: int

    @property
    def total(self) -> int:
        return self.iterations * (self.generate + self.evaluate + self.repair) + self.audit


def calls_max(services: Services, request: AnyRequest) -> int:
    """The maximum of model calls of a request, without retries after failures."""
    return estimate_calls(services, request).total


def estimate_calls(services: Services, request: AnyRequest) -> CallsMax:
    """The maximum by type: each evaluator call, and each generation with a schema, may need one repair."""
    questions = len(groups_of(request.rubric, services.settings.criteria_per_call))
    judged = questions * len(evaluators_of(request)) * request.evaluation.samples
    audited = 2 * questions if request.evaluation.audit else 0
    if not isinstance(request, GenerateAnswer):
        return CallsMax(1, 0, judged, judged, audited)
    many, repaired = request.candidates, judged + (1 if schema_of(request) else 0)
    return CallsMax(request.iter_max, many, many * judged, many * repaired, 2 * audited)


def submit(services: Services, request: AnyRequest, idempotency: Idempotency | None = None) -> Submission:
    """Store a job, then notify the workers of its first step, and wake the clients that watch jobs.

    The idempotency key is a column of the job's row, so simultaneous requests with one key make one job.

    Raises:
        Invalid: `normalise` refuses the request, or the key was used with another request.
        Conflict: the job of the key was deleted at the same time.
    """
    ready = prepare(services, request)
    with services.database.write() as connection:
        job = store(connection, ready, idempotency=idempotency)
        if job is None and idempotency:
            return _replay(connection, idempotency, ready.digest)
        if job is None:
            raise RuntimeError("A job without an idempotency key met another one.")
    reached(FaultPoint.SUBMITTED, job.id)
    # After the commit: a worker that is faster would find no job. If the process dies here, the sweeper notifies
    context.notify(services, context.message_of(job))
    services.queue.wake(job.id)
    return Submission(job, is_replay=False)


def prepare(services: Services, request: AnyRequest) -> Ready:
    """Prepare a job outside of a unit of work; raises what `normalise` raises."""
    normal = normalise(services, request)
    digest = hashlib.sha256(to_json(dump(request))).hexdigest()
    grounding = grounding_reader(normal)(normal.answer) if isinstance(normal, EvaluateAnswer) else None
    return Ready(normal, digest, warnings_of(services, normal), grounding)


def store(
    connection: Connection, ready: Ready, *, idempotency: Idempotency | None = None, run_id: str | None = None
) -> JobRecord | None:
    """Store a job; None if its idempotency key exists. The caller notifies the workers after the commit."""
    row = {**_row(ready, idempotency), "run_id": run_id}
    job = jobs.add(connection, row, ready.request.limits.deadline_s)
    if job is None:
        return None
    if isinstance(ready.request, EvaluateAnswer):
        history.add_iterations(connection, job.id, [_given_answer(job, ready.request, ready.grounding)])
    events.add(connection, job, 1, [event("job.queued", "The job is stored and waits for a worker.")])
    return job


def _row(ready: Ready, idempotency: Idempotency | None) -> dict[str, Any]:
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
        **_beginning(request),
    }


def _beginning(request: AnyRequest) -> dict[str, Any]:
    """The first step of a job of this kind, as columns."""
    if isinstance(request, GenerateAnswer):
        place = {"step": Step.GENERATE.value, "iteration": 0, "iteration_limit": request.iter_max}
        return {**place, "kind": JobKind.GENERATE_ANSWER.value, "model": ladder(request)[0]}
    if isinstance(request, RescoreAnswers):
        numbers = request.iterations
        place = {"step": Step.EVALUATE.value, "iteration": numbers[0], "iteration_limit": numbers[-1]}
        return {**place, "kind": JobKind.RESCORE_ANSWERS.value, "rescored_job_id": request.job_id}
    return {"step": Step.EVALUATE.value, "iteration": 1, "iteration_limit": 1, "kind": JobKind.EVALUATE_ANSWER.value}


def _given_answer(job: JobRecord, request: EvaluateAnswer, grounding: dict[str, Any] | None) -> IterationRecord:
    return IterationRecord(
        id=new_id("iteration"),
        number=1,
        candidate=1,
        generator_model=None,
        answer=request.answer,
        feedback_given=None,
        created_at=job.created_at,
        evaluation=None,
        grounding=grounding,
    )


def _replay(connection: Connection, idempotency: Idempotency, digest: str) -> Submission:
    known = jobs.find_by_key(connection, idempotency.scope, idempotency.key)
    if known is None:
        raise Conflict("The job of this Idempotency-Key was deleted at this moment; send the request again.")
    if known.request_hash != digest:
        words = f"This Idempotency-Key was used for job {known.id} with another body; use a new key."
        raise Invalid(words, (FieldError("", words, "idempotency_key_reused"),), code="idempotency_key_reused")
    return Submission(known, is_replay=True)
