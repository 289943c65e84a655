"""Derives values from a request: the schema of the answer, the evaluators, the models, the rules of the loop."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from redraft.domain.evaluation.aggregation import groups_of
from redraft.domain.jobs.requests import AnyRequest, EvaluateAnswer, GenerateAnswer, RescoreAnswers, ladder
from redraft.domain.jobs.states import JobKind, Step
from redraft.domain.loop.rules import Rules
from redraft.domain.structured.named_schemas import Structure, structure_schema
from redraft.errors import Invalid
from redraft.prompts.profiles import Profiles
from redraft.storage.jobs.jobs import JobRecord

_KINDS: dict[str, type[AnyRequest]] = {
    JobKind.GENERATE_ANSWER: GenerateAnswer,
    JobKind.EVALUATE_ANSWER: EvaluateAnswer,
    JobKind.RESCORE_ANSWERS: RescoreAnswers,
}


def parse_request(job: JobRecord) -> AnyRequest:
    """The normalised request as it was stored."""
    return _KINDS[job.kind].model_validate(job.request)


def readable_request(job: JobRecord) -> AnyRequest | None:
    """The request of a job that ends. None if an earlier version stored it, and this version cannot read it."""
    try:
        return parse_request(job)
    except ValidationError:
        return None


def structure_of(request: AnyRequest) -> Structure | None:
    """The named structure that the answer must have; None if the request names no structure."""
    named = request.answer_schema if isinstance(request, GenerateAnswer) else None
    if isinstance(named, str):
        return named
    return "json" if request.grounds and request.grounds.output_format == "json" else None


def schema_of(request: AnyRequest) -> Mapping[str, Any] | None:
    """The JSON Schema that the answer must match; None if the answer may be any text."""
    own = None if isinstance(request, EvaluateAnswer) else request.answer_schema
    if isinstance(own, Mapping):
        return own
    structure = structure_of(request)
    return structure_schema(structure, len(request.sources)) if structure else None


def rules_of(job: JobRecord, request: AnyRequest, profiles: Profiles) -> Rules:
    prefers_latest = _is_yes_no(request, profiles)
    if not isinstance(request, GenerateAnswer):
        return Rules(iteration_limit=1, prefers_latest=prefers_latest)
    return Rules(
        iteration_limit=job.iteration_limit,
        first_iteration=job.first_iteration,
        plateau_patience=request.stop.plateau_patience,
        plateau_delta=request.stop.plateau_delta,
        strategy=request.revision.strategy,
        start_from=request.revision.start_from,
        prefers_latest=prefers_latest,
        # A speculative answer lacks the latest feedback, so the next answer may still differ
        unchanged_patience=2 if overlaps(request) else 1,
    )


def _is_yes_no(request: AnyRequest, profiles: Profiles) -> bool:
    """Whether an evaluation only says yes or no: the profile has a pass flag, or the rubric is one binary criterion."""
    if request.rubric:
        scoring = [criterion for criterion in request.rubric if criterion.weight]
        return len(scoring) == 1 and scoring[0].kind != "scale"
    try:
        return profiles.get(request.profile).reply.pass_flag is not None
    except Invalid:
        # A process that lacks the profile must still be able to end the job
        return False


def evaluators_of(request: AnyRequest) -> tuple[str, ...]:
    """The panel, or the single evaluator, of a normalised request."""
    return tuple(request.evaluation.panel) or (request.evaluator_model or "",)


def overlaps(request: AnyRequest) -> bool:
    """Whether the next iteration is generated while the answers of an iteration are evaluated."""
    return isinstance(request, GenerateAnswer) and request.evaluation.when == "overlap"


def models_named(request: AnyRequest) -> list[str]:
    """All models that a normalised request may call."""
    generators = ladder(request) if isinstance(request, GenerateAnswer) else ()
    auditor = [request.evaluation.audit] if request.evaluation.audit else []
    return list(dict.fromkeys([*generators, *evaluators_of(request), *auditor]))


def needs_evaluator(request: AnyRequest) -> bool:
    """Whether a model evaluates the answer; False for a rubric that holds only checks."""
    return bool(groups_of(request.rubric, "auto"))


def models_of(job: JobRecord, request: AnyRequest) -> tuple[str, ...]:
    """The models of the current step: the model of the iteration in the ladder, or the evaluators."""
    if job.step == Step.AUDIT:
        return (request.evaluation.audit or "",)
    if job.step == Step.EVALUATE or not isinstance(request, GenerateAnswer):
        return evaluators_of(request)
    # All iterations after the end of the ladder use its last model
    models = ladder(request)
    return (models[min(job.iteration, len(models) - 1)],)


def step_iteration(job: JobRecord) -> int:
    """The number of the iteration that the current step generates or evaluates."""
    return job.iteration + 1 if job.step == Step.GENERATE else job.iteration
