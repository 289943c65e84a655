"""Submit a job: normalise the request, store it, and only then ring."""

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
    EvaluationOptions,
    GenerateAnswer,
    Limits,
    RescoreAnswers,
    dump,
    ladder,
)
from redraft.domain.jobs.states import JobKind, JobStatus, Step
from redraft.domain.structured.answers import check_schema
from redraft.errors import Conflict, Flaw, Invalid
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
    """The caller's key, unique within a scope (who calls which route)."""

    scope: str
    key: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A normalised request, ready to be stored.

    Attributes:
        digest: of the request as it came.
        grounding: what a given answer makes of its sources.
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
    """What a request would become: nothing is stored."""

    request: dict[str, Any]
    warnings: list[dict[str, str]]
    calls_max: int


def normalise(services: Services, request: AnyRequest) -> AnyRequest:
    """Fill in the models, and see to it that each can be called.

    Raises:
        Invalid: a model is unknown or its provider has no key (`unknown_model`, `provider_auth`); the answer's
            schema is none (`invalid_schema`); a budget in money meets an unknown price (`unpriced_model`); its
            webhook cannot be signed, or leads to where none may (`webhooks_not_configured`, `address_not_allowed`).
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
    """The fields that say who judges, with every model's full name; a panel stands for the one evaluator.

    Raises:
        Invalid: a model cannot be called, or the profile is unknown or needs something that is not there.
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
    """Refuse a budget in money that could not be kept.

    Raises:
        Invalid: a model's price is not known (code `unpriced_model`).
    """
    if limits.max_cost_usd is None:
        return
    for name in models:
        if services.providers.price(parse_model(name), Usage(input_tokens=1, output_tokens=1)) is None:
            words = f"The price of {name} is not known, so no budget in USD can be kept: set REDRAFT_PRICES for it."
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
        text = "The answer is to rest on sources and none are given: it can only ask for them."
        found.append({"code": NO_CONTEXT, "message": text})
    if _is_unread(request):
        text = "An answer of your own schema is not read for citations, so the grounding rule lets all of them pass."
        found.append({"code": GROUNDING_UNREAD, "message": text})
    if not needs_evaluator(request):
        return [*found, *_idle_evaluators(request)]
    found += _unreliable_evaluators(services, request)
    if request.eval_crit and "eval_crit" not in services.profiles.get(request.profile).sees:
        text = f"Profile {request.profile!r} does not look at eval_crit; the writer is told of it, no judge is."
        found.append({"code": CRITERIA_UNJUDGED, "message": text})
    return found


def _unreliable_evaluators(services: Services, request: AnyRequest) -> list[dict[str, str]]:
    """Warnings about models that evaluate their own answers, or that are too small to evaluate."""
    found: list[dict[str, str]] = []
    evaluators = evaluators_of(request)
    own = [model for model in evaluators if isinstance(request, GenerateAnswer) and model in ladder(request)]
    if own:
        text = f"{', '.join(own)} judges its own answers; another model family judges better."
        found.append({"code": SAME_MODEL, "message": text})
    if str(DEFAULT_LOCAL) in evaluators and not services.settings.local_model:
        text = f"{DEFAULT_LOCAL} is too small to evaluate reliably: use checks, or choose another evaluator."
        found.append({"code": TINY_EVALUATOR, "message": text})
    return found


def _is_unread(request: AnyRequest) -> bool:
    """Whether nothing can be told of an answer's sources though they are required."""
    has_own = isinstance(request, GenerateAnswer) and isinstance(request.answer_schema, Mapping)
    return has_own and request.grounds is not None and request.grounds.require_grounding


def _idle_evaluators(request: AnyRequest) -> list[dict[str, str]]:
    """What a rubric of nothing but checks leaves without a use."""
    evaluation, found = request.evaluation, list[dict[str, str]]()
    if request.eval_crit:
        text = "The rubric holds only checks, so no model judges eval_crit: make a binary criterion of it."
        found.append({"code": CRITERIA_UNJUDGED, "message": text})
    idle = [name for name, is_set in _asked_for(evaluation) if is_set]
    if idle:
        text = f"The rubric holds only checks, so nobody is asked: {', '.join(idle)} change nothing."
        found.append({"code": EVALUATORS_UNUSED, "message": text})
    return found


def _asked_for(evaluation: EvaluationOptions) -> list[tuple[str, bool]]:
    return [
        ("panel", bool(evaluation.panel)),
        ("samples", evaluation.samples > 1),
        ("audit", evaluation.audit is not None),
    ]


def estimate(services: Services, request: AnyRequest) -> Estimate:
    """What `validate_only` answers: the normalised request and the most calls it can take without retries."""
    normal = normalise(services, request)
    return Estimate(dump(normal), warnings_of(services, normal), calls_max(services, normal))


@dataclass(frozen=True, slots=True)
class CallsMax:
    """The most model calls that a request can take, retries after failures aside.

    Attributes:
        generate: in each iteration; as are `evaluate` and `repair`, which asks again after an unusable reply.
        audit: after the end, with its own repairs.
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
    """The most model calls that a request can take, retries after failures aside."""
    return estimate_calls(services, request).total


def estimate_calls(services: Services, request: AnyRequest) -> CallsMax:
    """Every asking of an evaluator may be made twice, and so may every generation that a schema binds."""
    questions = len(groups_of(request.rubric, services.settings.criteria_per_call))
    judged = questions * len(evaluators_of(request)) * request.evaluation.samples
    audited = 2 * questions if request.evaluation.audit else 0
    if not isinstance(request, GenerateAnswer):
        return CallsMax(1, 0, judged, judged, audited)
    many, repaired = request.candidates, judged + (1 if schema_of(request) else 0)
    return CallsMax(request.iter_max, many, many * judged, many * repaired, 2 * audited)


def submit(services: Services, request: AnyRequest, idempotency: Idempotency | None = None) -> Submission:
    """Store a job, ring for its first step, and wake whoever watches all jobs.

    The idempotency key is a column of the job's own row, so twins that arrive at once are one job.

    Raises:
        Invalid: a model cannot be called, or the key was used with another request.
    """
    ready = prepare(services, request)
    with services.database.write() as connection:
        job = store(connection, ready, idempotency=idempotency)
        if job is None and idempotency:
            return _replay(connection, idempotency, ready.digest)
        if job is None:
            raise RuntimeError("A job without an idempotency key met another one.")
    reached(FaultPoint.SUBMITTED, job.id)
    context.notify(services, context.message_of(job))
    services.queue.wake(job.id)
    return Submission(job, is_replay=False)


def prepare(services: Services, request: AnyRequest) -> Ready:
    """All that can be known of a job before it is stored; raises what `normalise` raises."""
    normal = normalise(services, request)
    digest = hashlib.sha256(to_json(dump(request))).hexdigest()
    grounding = grounding_reader(normal)(normal.answer) if isinstance(normal, EvaluateAnswer) else None
    return Ready(normal, digest, warnings_of(services, normal), grounding)


def store(
    connection: Connection, ready: Ready, *, idempotency: Idempotency | None = None, run_id: str | None = None
) -> JobRecord | None:
    """Store a job; None when one with its idempotency key exists already. Nobody is rung for yet."""
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
    """Where a job of this kind begins."""
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
        raise Invalid(words, (Flaw("", words, "idempotency_key_reused"),), code="idempotency_key_reused")
    return Submission(known, is_replay=True)
