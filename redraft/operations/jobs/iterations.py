"""The resources of iterations and evaluations, and the matrix of iterations by criteria."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from redraft.domain.bodies.fields import As
from redraft.domain.evaluation.claims import Claim
from redraft.domain.grounding.citations import Citation
from redraft.domain.grounding.support import Unsupported
from redraft.domain.loop.attempts import Attempt
from redraft.domain.loop.feedback import met_before
from redraft.operations.resource_base import CallTotals, Moment, Resource, StepError, cost_usd
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord

Role = Literal["loop", "audit", "rescore"]


class CriterionRow(Resource):
    """One criterion of the rubric, or one dimension of the profile."""

    id: str
    text: str
    kind: str
    weight: float
    required: bool
    hidden: bool


class CriterionOutcome(CriterionRow):
    """The result for one criterion."""

    score: float | None
    passed: bool | None
    evidence: str
    gap: str


class CheckRequest(Resource):
    """The request to a check on another server, or the call of a check in an installed package."""

    id: str | None = None
    attempts: int | None = None
    package: str | None = None
    seconds: float


class CheckOutcome(Resource):
    id: str
    kind: str
    passed: bool
    message: str
    request: CheckRequest | None = Field(
        default=None, description="The request to a server or a package; null for Redraft's own checks."
    )


class EvaluatorVerdict(Resource):
    """The verdict of one call, if the job has several evaluators or samples."""

    model: str
    sample: int
    status: Literal["ok", "error"]
    score: float | None
    reasoning: str
    error: Annotated[dict[str, Any] | None, As(StepError | None)]


class ClaimCheckResult(Resource):
    """The result of a claim check. `grounded` is the model's verdict; quotes were checked without a model."""

    grounded: bool | None
    claims: list[Claim]
    ungrounded_claims: list[str]
    confidence: float | None


class Evaluation(Resource):
    id: str
    role: Role
    job_id: str = Field(
        description="The job that evaluated the answer. For a rescoring this is another job than that of the answer."
    )
    status: Literal["ok", "error", "skipped"]
    score: float | None
    passed: bool
    meets_criteria: bool | None
    confidence: float | None
    evaluation_reasoning: str
    improvement_suggestions: list[str]
    issues: list[str]
    improvement_hint: str | None
    criteria: list[CriterionOutcome]
    checks: list[CheckOutcome]
    grounding: ClaimCheckResult | None
    requirements_met: bool | None
    judges: list[EvaluatorVerdict]
    disagreement: float | None
    evaluator_model: str | None
    profile: str
    profile_version: str | None
    reused_from: str | None
    error: Annotated[dict[str, Any] | None, As(StepError | None)]


class MarkerIssue(Resource):
    """A citation marker that names no source, or that cannot be read."""

    code: str
    message: str
    number: int
    start_pos: int
    end_pos: int


class GroundingResult(Resource):
    """The use of the sources in an answer, checked without a model."""

    citations: list[Citation]
    issues: list[MarkerIssue]
    sources_used: list[int] = Field(description="Indices of the cited sources; the first source has index 0.")
    sources_provided: int | None = None
    grounding_score: float | None
    unsupported: list[Unsupported] = Field(default=[])
    met: bool | None = Field(default=None, description="Whether code finds the answer grounded in its sources.")
    cited_text: str | None = Field(
        default=None,
        description="The prose of a structured answer. All positions are offsets in this text. Null for other answers.",
    )


class IterationUsage(CallTotals):
    """The usage of all calls that generated and evaluated an answer. `latency_ms` is the sum of their durations."""

    latency_ms: int


class Iteration(Resource):
    id: str
    number: int
    candidate: int
    generator_model: str | None
    generator_template: str | None = Field(
        default=None,
        description="The version of the generator template, as NAME@VERSION; null: the default, `standard`.",
    )
    answer: str
    feedback_given: str | None
    status: Literal["generated", "evaluated", "evaluation_failed", "evaluation_skipped"]
    evaluation: Evaluation | None
    further_evaluations: list[Evaluation] = Field(default=[])
    grounding: GroundingResult | None = None
    usage: IterationUsage
    created_at: Moment


class MatrixCell(Resource):
    """The result of an iteration for a criterion.

    `regressed`: an earlier iteration met the criterion, and this one does not.
    """

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
    """A table that shows which iteration met which criterion. It is empty without a rubric."""

    criteria: list[CriterionRow]
    iterations: list[MatrixColumn]


def iteration_resource(
    record: IterationRecord, usage: Mapping[str, int], further: Sequence[EvaluationRecord] = ()
) -> Iteration:
    """The resource of one candidate. `further` are its evaluations outside of the loop."""
    return Iteration.from_row(
        record,
        evaluation=record.evaluation and _evaluation(record.evaluation),
        further_evaluations=[_evaluation(each) for each in further],
        grounding=GroundingResult.model_validate(record.grounding) if record.grounding else None,
        usage=_usage(usage),
    )


def _usage(sums: Mapping[str, int]) -> IterationUsage:
    cost = cost_usd(sums.get("cost_nano_usd", 0), sums.get("unpriced_calls", 0))
    return IterationUsage.model_validate({**dict.fromkeys(IterationUsage.model_fields, 0), **sums, "cost_usd": cost})


def _evaluation(record: EvaluationRecord) -> Evaluation:
    return Evaluation.from_row(
        record,
        evaluation_reasoning=record.reasoning,
        improvement_suggestions=record.suggestions,
        issues=record.issues or [],
        criteria=[CriterionOutcome(**each) for each in record.criteria or ()],
        checks=[CheckOutcome(**each) for each in record.checks or ()],
        grounding=ClaimCheckResult.model_validate(record.grounding) if record.grounding else None,
        judges=[EvaluatorVerdict(**each) for each in record.judges or ()],
    )


def criteria_matrix(records: Sequence[IterationRecord]) -> CriteriaMatrix:
    attempts = [record.as_attempt() for record in records]
    rows = {result.id: result for attempt in attempts for result in attempt.criteria}
    return CriteriaMatrix(
        criteria=[CriterionRow.from_row(row) for row in rows.values()],
        iterations=[_column(attempt, attempts) for attempt in attempts],
    )


def _column(attempt: Attempt, attempts: Sequence[Attempt]) -> MatrixColumn:
    before = met_before(attempt, attempts)
    return MatrixColumn.from_row(
        attempt,
        number=attempt.iteration,
        passed=attempt.evaluation is not None and attempt.evaluation.passed,
        cells=[
            MatrixCell.from_row(each, regressed=each.passed is False and each.id in before) for each in attempt.criteria
        ],
    )
