"""The shapes of what was written and how it was judged: iterations, evaluations, and iteration by criterion."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from redraft.domain.bodies.fields import As
from redraft.domain.jobs.loop import Attempt, met_before
from redraft.operations.resource_base import Moment, Resource, StepError, cost_usd
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord

Role = Literal["loop", "audit", "rescore"]


class CriterionFound(Resource):
    """What was found for one criterion of the rubric, or one dimension of the profile."""

    id: str
    text: str
    kind: str
    weight: float
    required: bool
    hidden: bool
    score: float | None
    passed: bool | None
    evidence: str
    gap: str


class CheckFound(Resource):
    id: str
    kind: str
    passed: bool
    message: str


class JudgeFound(Resource):
    """What one evaluator said, when several were asked, or one several times."""

    model: str
    sample: int
    status: Literal["ok", "error"]
    score: float | None
    reasoning: str
    error: Annotated[dict[str, Any] | None, As(StepError | None)]


class ClaimFound(Resource):
    """One claim of the answer; `start` and `end` of the quote, in characters of its source."""

    claim: str
    supported: bool
    label: Literal["supported", "contradicted", "not_found"]
    source: int | None
    quote: str
    start: int | None
    end: int | None
    problem: str


class ClaimsFound(Resource):
    """What a claim check found; `grounded` is what the model said, the claims are what held."""

    grounded: bool | None
    claims: list[ClaimFound]
    ungrounded_claims: list[str]
    confidence: float | None


class Evaluation(Resource):
    id: str
    role: Role
    job_id: str = Field(description="The job that judged; of a rescoring another one than the answer's.")
    status: Literal["ok", "error", "skipped"]
    score: float | None
    passed: bool
    meets_criteria: bool | None
    confidence: float | None
    evaluation_reasoning: str
    improvement_suggestions: list[str]
    issues: list[str]
    improvement_hint: str | None
    criteria: list[CriterionFound]
    checks: list[CheckFound]
    grounding: ClaimsFound | None
    requirements_met: bool | None
    judges: list[JudgeFound]
    disagreement: float | None
    evaluator_model: str | None
    profile: str
    profile_version: str | None
    reused_from: str | None
    error: Annotated[dict[str, Any] | None, As(StepError | None)]


class CitationFound(Resource):
    """A mark that points to a source; positions in characters of the answer."""

    source_index: int
    source_number: int
    chunk_id: str | None
    document_id: str | None
    quoted_text: str
    start_pos: int
    end_pos: int


class MarkIssue(Resource):
    """A mark that points nowhere, or not plainly."""

    code: str
    message: str
    number: int
    start_pos: int
    end_pos: int


class UnsupportedFound(Resource):
    """A statement that no source supports, as code sees it; positions in characters of the answer."""

    text: str
    reason: Literal["number", "uncited", "unrelated"]
    missing_numbers: list[str]
    start_pos: int
    end_pos: int


class GroundingFound(Resource):
    """What code found of the sources in an answer."""

    citations: list[CitationFound]
    issues: list[MarkIssue]
    sources_used: list[int] = Field(description="Indices of the cited sources, from 0 on.")
    sources_provided: int | None = None
    grounding_score: float | None
    unsupported: list[UnsupportedFound] = Field(default=[])
    met: bool | None = Field(default=None, description="Whether code finds the answer to rest on its sources.")
    cited_text: str | None = Field(
        default=None, description="Of a structured answer: its prose, which all positions count in."
    )


class IterationUsage(Resource):
    """What an answer took to write and to judge; `latency_ms`: all its calls' time together."""

    calls: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: str | None
    latency_ms: int


class Iteration(Resource):
    id: str
    number: int
    candidate: int
    generator_model: str | None
    answer: str
    feedback_given: str | None
    status: Literal["generated", "evaluated", "evaluation_failed", "evaluation_skipped"]
    evaluation: Evaluation | None
    further_evaluations: list[Evaluation] = Field(default=[])
    grounding: GroundingFound | None = None
    usage: IterationUsage
    created_at: Moment


class MatrixRow(Resource):
    """One criterion of the matrix."""

    id: str
    text: str
    kind: str
    weight: float
    required: bool
    hidden: bool


class MatrixCell(Resource):
    """What an iteration did for a criterion; `regressed`: an earlier iteration met it."""

    id: str
    score: float | None
    passed: bool | None
    regressed: bool


class MatrixColumn(Resource):
    number: int
    candidate: int
    score: float | None
    passed: bool
    cells: list[MatrixCell]


class CriteriaMatrix(Resource):
    """Iteration by criterion: what each attempt met. Empty without a rubric."""

    criteria: list[MatrixRow]
    iterations: list[MatrixColumn]


def iteration_resource(
    record: IterationRecord, usage: Mapping[str, int], further: Sequence[tuple[str, EvaluationRecord]] = ()
) -> Iteration:
    """One candidate; `further`: its evaluations outside of the loop, each with its role."""
    return Iteration(
        id=record.id,
        number=record.number,
        candidate=record.candidate,
        generator_model=record.generator_model,
        answer=record.answer,
        feedback_given=record.feedback_given,
        status=record.status,  # type: ignore[arg-type]
        evaluation=record.evaluation and _evaluation(record.evaluation),
        further_evaluations=[_evaluation(each) for _, each in further],
        grounding=GroundingFound.model_validate(record.grounding) if record.grounding else None,
        usage=_usage(usage),
        created_at=record.created_at,
    )


def _usage(sums: Mapping[str, int]) -> IterationUsage:
    known = {name: sums.get(name, 0) for name in IterationUsage.model_fields if name != "cost_usd"}
    cost = None if sums.get("unpriced_calls") else cost_usd(sums.get("cost_nano_usd", 0))
    return IterationUsage(**known, cost_usd=cost)


def _evaluation(record: EvaluationRecord) -> Evaluation:
    return Evaluation(
        id=record.id,
        role=record.role,  # type: ignore[arg-type]
        job_id=record.job_id,
        status=record.status,  # type: ignore[arg-type]
        score=record.score,
        passed=record.passed,
        meets_criteria=record.meets_criteria,
        confidence=record.confidence,
        evaluation_reasoning=record.reasoning,
        improvement_suggestions=record.suggestions,
        issues=record.issues or [],
        improvement_hint=record.improvement_hint,
        criteria=[CriterionFound(**each) for each in record.criteria or ()],
        checks=[CheckFound(**each) for each in record.checks or ()],
        grounding=ClaimsFound.model_validate(record.grounding) if record.grounding else None,
        requirements_met=record.requirements_met,
        judges=[JudgeFound(**each) for each in record.judges or ()],
        disagreement=record.disagreement,
        evaluator_model=record.evaluator_model,
        profile=record.profile,
        profile_version=record.profile_version,
        reused_from=record.reused_from,
        error=record.error,
    )


def criteria_matrix(records: Sequence[IterationRecord]) -> CriteriaMatrix:
    """What each attempt met of the rubric, in the order of the attempts."""
    attempts = [record.as_attempt() for record in records]
    rows = {result.id: result for attempt in attempts for result in attempt.criteria}
    return CriteriaMatrix(
        criteria=[MatrixRow.model_validate(row, from_attributes=True) for row in rows.values()],
        iterations=[_column(attempt, attempts) for attempt in attempts],
    )


def _column(attempt: Attempt, attempts: Sequence[Attempt]) -> MatrixColumn:
    before = met_before(attempt, attempts)
    cells = [
        MatrixCell(
            id=each.id, score=each.score, passed=each.passed, regressed=each.passed is False and each.id in before
        )
        for each in attempt.criteria
    ]
    passed = attempt.evaluation is not None and attempt.evaluation.passed
    return MatrixColumn(
        number=attempt.iteration, candidate=attempt.candidate, score=attempt.score, passed=passed, cells=cells
    )
