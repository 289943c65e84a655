"""The resources of iterations and evaluations, and the matrix of iterations by criteria."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from redraft.domain.bodies.fields import As
from redraft.domain.jobs.loop import Attempt, met_before
from redraft.operations.resource_base import Moment, Resource, StepError, cost_usd
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord

Role = Literal["loop", "audit", "rescore"]


class CriterionFound(Resource):
    """The result for one criterion of the rubric, or for one dimension of the profile."""

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


class EvaluatorVerdict(Resource):
    """The verdict of one evaluator, if several evaluators or several samples were asked for."""

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
    """The result of a claim check. `grounded` is the model's statement; code has checked the claims' quotes."""

    grounded: bool | None
    claims: list[ClaimFound]
    ungrounded_claims: list[str]
    confidence: float | None


class Evaluation(Resource):
    id: str
    role: Role
    job_id: str = Field(description="The job that evaluated; after a rescoring it is not the job of the answer.")
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
    judges: list[EvaluatorVerdict]
    disagreement: float | None
    evaluator_model: str | None
    profile: str
    profile_version: str | None
    reused_from: str | None
    error: Annotated[dict[str, Any] | None, As(StepError | None)]


class CitationFound(Resource):
    """A citation marker that points to a source; positions in characters of the answer."""

    source_index: int
    source_number: int
    chunk_id: str | None
    document_id: str | None
    quoted_text: str
    start_pos: int
    end_pos: int


class MarkIssue(Resource):
    """A citation marker that points to no source, or that is not understood."""

    code: str
    message: str
    number: int
    start_pos: int
    end_pos: int


class UnsupportedFound(Resource):
    """A statement for which code finds no support in any source; positions in characters of the answer."""

    text: str
    reason: Literal["number", "uncited", "unrelated"]
    missing_numbers: list[str]
    start_pos: int
    end_pos: int


class GroundingFound(Resource):
    """What code found out about an answer and its sources."""

    citations: list[CitationFound]
    issues: list[MarkIssue]
    sources_used: list[int] = Field(description="Indices of the cited sources, from 0 on.")
    sources_provided: int | None = None
    grounding_score: float | None
    unsupported: list[UnsupportedFound] = Field(default=[])
    met: bool | None = Field(default=None, description="Whether code finds the answer grounded in its sources.")
    cited_text: str | None = Field(
        default=None, description="The prose of a structured answer; all positions refer to it."
    )


class IterationUsage(Resource):
    """The usage of all calls that wrote and evaluated an answer; `latency_ms` is the sum of their times."""

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
    """The result of an iteration for a criterion; `regressed`: an earlier iteration met the criterion."""

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
    """Which attempt met which criterion. Empty without a rubric."""

    criteria: list[MatrixRow]
    iterations: list[MatrixColumn]


def iteration_resource(
    record: IterationRecord, usage: Mapping[str, int], further: Sequence[EvaluationRecord] = ()
) -> Iteration:
    """One candidate; `further` are its evaluations outside of the loop."""
    names = ("id", "number", "candidate", "generator_model", "answer", "feedback_given", "status", "created_at")
    return Iteration(
        **{name: getattr(record, name) for name in names},
        evaluation=record.evaluation and _evaluation(record.evaluation),
        further_evaluations=[_evaluation(each) for each in further],
        grounding=GroundingFound.model_validate(record.grounding) if record.grounding else None,
        usage=_usage(usage),
    )


def _usage(sums: Mapping[str, int]) -> IterationUsage:
    known = {name: sums.get(name, 0) for name in IterationUsage.model_fields if name != "cost_usd"}
    cost = None if sums.get("unpriced_calls") else cost_usd(sums.get("cost_nano_usd", 0))
    return IterationUsage(**known, cost_usd=cost)


def _evaluation(record: EvaluationRecord) -> Evaluation:
    names = ("id", "role", "job_id", "status", "score", "passed", "meets_criteria", "confidence", "improvement_hint")
    names += ("requirements_met", "disagreement", "evaluator_model", "profile", "profile_version", "reused_from")
    return Evaluation(
        **{name: getattr(record, name) for name in names},
        evaluation_reasoning=record.reasoning,
        improvement_suggestions=record.suggestions,
        issues=record.issues or [],
        criteria=[CriterionFound(**each) for each in record.criteria or ()],
        checks=[CheckFound(**each) for each in record.checks or ()],
        grounding=ClaimsFound.model_validate(record.grounding) if record.grounding else None,
        judges=[EvaluatorVerdict(**each) for each in record.judges or ()],
        error=record.error,
    )


def criteria_matrix(records: Sequence[IterationRecord]) -> CriteriaMatrix:
    """Which criteria each attempt met, in the order of the attempts."""
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
