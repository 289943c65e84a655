"""The models of responses, from the API's description. `make docs` generates this file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from redraft_client._base import JobState, ResponseModel, RunState

JobKind: TypeAlias = Literal['generate_answer', 'evaluate_answer', 'rescore_answers'] | str
JobStatus: TypeAlias = Literal['queued', 'running', 'succeeded', 'failed', 'canceled'] | str
Outcome: TypeAlias = Literal['queued', 'running', 'accepted', 'not_accepted', 'not_evaluated', 'failed', 'canceled'] | str
StopReason: TypeAlias = Literal['answered', 'accepted', 'iteration_limit', 'plateau', 'unchanged', 'budget_exhausted', 'deadline_exceeded', 'evaluator_error', 'evaluation_skipped', 'canceled', 'error'] | str


class AnswerDiff(ResponseModel):
    """Two answers of a job, compared word by word. The `equal` and `insert` parts together are the newer answer."""
    from_iteration: int
    to_iteration: int
    is_cut: bool
    """Only the first 200,000 characters of each answer were compared."""
    parts: list[DiffPart]


class Attempt(ResponseModel):
    """The best answer of one iteration, with the verdict on it."""
    iteration: int
    is_returned: bool
    is_accepted: bool
    score: float | None = None
    answer: Excerpt
    reasoning: Excerpt
    gaps: list[Gap]
    gaps_left_out: int = 0


class Backing(ResponseModel):
    """Independent verdicts on the returned answers."""
    who: Literal['people', 'the independent evaluator'] | str
    n: int
    gap: Mean | None = None
    confirmed: Estimate | None = None


class BadRowReport(ResponseModel):
    """A row that cannot become a job."""
    line: int
    last_line: int
    custom_id: str | None = None
    errors: list[RowError]


class Bias(ResponseModel):
    """The mean difference between the scores of people and of the evaluator; positive if people score higher."""
    value: float
    n: int


class Bin(ResponseModel):
    """The number of scores from `low` to below `high`; the last bin includes 1."""
    low: float
    high: float
    count: int


class CalibrationGroup(ResponseModel):
    """The calibration of one evaluator with one profile, for whole evaluations or for one criterion."""
    evaluator_model: str | None = None
    profile: str
    profile_version: str | None = None
    criterion: str | None = None
    status: Literal['calibrated', 'not calibrated'] | str
    n: int
    unsure: int
    ratings_needed: int
    table: Crossing
    agreement: Estimate | None = None
    kappa: Kappa | None = None
    kappa_reason: str | None = None
    sensitivity: Estimate | None = None
    specificity: Estimate | None = None
    bias: Bias | None = None
    wanted_precision: float
    threshold: Threshold | None = None
    threshold_reason: str | None = None


class CalibrationReport(ResponseModel):
    """One group for each evaluator, profile, version and criterion. Groups with the most ratings come first."""
    data: list[CalibrationGroup]
    left_out: int
    """The number of groups that are not in `data`. A narrower query returns them."""


class Call(ResponseModel):
    id: str
    type: str
    iteration: int
    candidate: int
    model: str
    attempt: int
    status: Literal['started', 'succeeded', 'failed'] | str
    cached: bool
    http_status: int | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: str | None = None
    latency_ms: int | None = None
    error: StepError | None = None
    started_at: str
    finished_at: str | None = None
    provider: str
    delivery: Literal['live', 'batch'] | str = 'live'
    batch_id: str | None = None
    """The batch of the run that delivers the call; null for a live call."""
    request: Any = None
    response: Any = None
    truncated: bool
    response_headers: dict[str, str] | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    """Input tokens that the provider wrote to its cache; a part of the input tokens."""
    reasoning_tokens: int | None = None


class CallList(ResponseModel):
    """Model calls, oldest first, with retries and failed calls."""
    data: list[Call]

    def __iter__(self) -> Iterator[Call]:  # type: ignore[override]
        return iter(self.data)


class CallTotals(ResponseModel):
    """The model calls of one or more iterations, failed calls included."""
    calls: int
    tokens: int
    seconds: float


class CheckOutcome(ResponseModel):
    id: str
    kind: str
    passed: bool
    message: str
    request: CheckRequest | None = None
    """The request to a server or a package; null for Redraft's own checks."""


class CheckRequest(ResponseModel):
    """The request to a check on another server, or the call of a check in an installed package."""
    id: str | None = None
    attempts: int | None = None
    package: str | None = None
    seconds: float


class Citation(ResponseModel):
    """One source cited at one position. A marker with several numbers makes several citations."""
    source_index: int
    source_number: int
    chunk_id: str | None = None
    document_id: str | None = None
    quoted_text: str
    start_pos: int
    end_pos: int


class Claim(ResponseModel):
    """One claim of an answer. Attributes: supported: the evaluator labels the claim as supported, and the source
    contains the quote. label: the evaluator's label; `not_found` instead of `supported` if the quote is not
    in the source. source: the number of the source that the evaluator names. start: the position of the quote
    in the source, up to `end`; both are None without a quote in the text. problem: the reason why the claim
    is not supported; empty for a supported claim.
    """
    claim: str
    supported: bool
    label: Literal['supported', 'contradicted', 'not_found'] | str
    source: int | None = None
    quote: str
    start: int | None = None
    end: int | None = None
    problem: str


class ClaimCheckResult(ResponseModel):
    """The result of a claim check. `grounded` is the model's verdict; quotes were checked without a model."""
    grounded: bool | None = None
    claims: list[Claim]
    ungrounded_claims: list[str]
    confidence: float | None = None


class Comparison(ResponseModel):
    """A new run compared with a baseline. Differences are new minus baseline. Rows are given as sorted
    `custom_id`s.
    """
    n: int
    score: Mean | None = None
    pass_rate: Mean | None = None
    mcnemar_p: float | None = None
    wins: int
    ties: int
    losses: int
    newly_passing: list[str]
    newly_failing: list[str]
    verdicts: Verdicts
    only_in_baseline: list[str]
    only_in_new: list[str]
    words: list[str]


class Correlation(ResponseModel):
    """A rank correlation from -1 to 1. Its 95 % interval is None for few pairs and for a value of 1 or -1."""
    value: float
    low: float | None = None
    high: float | None = None
    n: int


class Costs(ResponseModel):
    """The cost of a run, failed calls included, in total and per accepted answer."""
    total_usd: str | None = None
    known_usd: str
    unpriced: int
    per_accepted_usd: str | None = None
    input_tokens: int
    output_tokens: int
    input_tokens_per_accepted: float | None = None
    output_tokens_per_accepted: float | None = None


class Counts(ResponseModel):
    """The number of items in each state: total = queued + running + succeeded + failed + canceled + invalid."""
    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int
    invalid: int
    judged: int
    accepted: int
    rows: int
    deleted: int = 0
    deleted_answers: int = 0


class CriteriaMatrix(ResponseModel):
    """A table that shows which iteration met which criterion. It is empty without a rubric."""
    criteria: list[CriterionRow]
    iterations: list[MatrixColumn]


class CriterionOutcome(ResponseModel):
    """The result for one criterion."""
    id: str
    text: str
    kind: str
    weight: float
    required: bool
    hidden: bool
    score: float | None = None
    passed: bool | None = None
    evidence: str
    gap: str


class CriterionRate(ResponseModel):
    """How many items met one criterion of their rubric, in the first and in the returned answer."""
    id: str
    text: str
    judged: int
    not_met: int
    first: Estimate | None = None
    returned: Estimate | None = None
    texts: int = 1
    weight: float | None = 1.0


class CriterionRow(ResponseModel):
    """One criterion of the rubric, or one dimension of the profile."""
    id: str
    text: str
    kind: str
    weight: float
    required: bool
    hidden: bool


class Crossing(ResponseModel):
    """A table of two verdicts: the number of answers that a person and an evaluator pass or fail."""
    both_pass: int = 0
    only_evaluator_passes: int = 0
    only_person_passes: int = 0
    both_fail: int = 0


class Dataset(ResponseModel):
    """The rows of a file. `version` is the hash of the rows, so files with equal rows are the same dataset."""
    id: str
    object: Literal['dataset'] | str = 'dataset'
    name: str
    version: str
    format: str
    rows: int
    """The number of good and bad rows."""
    bad_rows: int
    columns: DatasetColumns
    created_at: str
    urls: dict[str, str]


class DatasetCheck(ResponseModel):
    """The result of a check: the rows of a file as a run would read them."""
    format: str
    delimiter: str | None = None
    version: str
    rows: int
    """The number of good and bad rows."""
    good: int
    bad: int
    kinds: dict[str, int]
    """The number of good rows for each kind of job."""
    mapping: dict[str, str]
    """The column that fills each field."""
    never_seen: list[str]
    """Columns that the mapping names and no row has."""
    unused: list[UnusedColumn]
    samples: list[dict[str, Any]]
    """The first good rows as normalised requests."""
    duplicates: int
    """Bad rows that have the custom_id of an earlier row."""
    blank: dict[str, int]
    """By field, the number of rows in which the column of the field is empty."""
    literal: int
    """Rows that look like templates and have no vars."""
    errors: list[BadRowReport]
    """The first bad rows."""
    calls_max: int
    """The maximum of model calls, without retries after failures."""
    cost_max_usd: str | None = None
    """The maximum cost of these calls, with 8192 output tokens for a call without an output limit; null if a
    price is unknown.
    """
    unpriced_models: list[str]
    """Models without a known price; REDRAFT_PRICES sets prices."""


class DatasetColumns(ResponseModel):
    """The columns that fill fields, and the columns that fill no field."""
    used: dict[str, str]
    """The column that fills each field."""
    unused: dict[str, int]
    """For each column that fills no field, the number of rows that have it."""
    never_seen: list[str]
    """Columns that the mapping names and no row has."""


class DatasetItem(ResponseModel):
    """One row: its fields, or its errors."""
    position: int
    custom_id: str | None = None
    line: int
    fields: dict[str, Any] | None = None
    vars: dict[str, Any] | None = None
    human_score: float | None = None
    human_pass: bool | None = None
    errors: list[RowError]


class DatasetItemPage(ResponseModel):
    """Rows in the order of the file."""
    data: list[DatasetItem]
    next_cursor: str | None = None
    """The value of `after` for the next page; null on the last page."""

    def __iter__(self) -> Iterator[DatasetItem]:  # type: ignore[override]
        return iter(self.data)


class DatasetPage(ResponseModel):
    data: list[Dataset]
    next_cursor: str | None = None
    """The value of `after` for the next page; null on the last page."""

    def __iter__(self) -> Iterator[Dataset]:  # type: ignore[override]
        return iter(self.data)


class DeliveryList(ResponseModel):
    """One delivery for each event that the webhook selects, in the order of the events."""
    data: list[WebhookDelivery]

    def __iter__(self) -> Iterator[WebhookDelivery]:  # type: ignore[override]
        return iter(self.data)


class DiffPart(ResponseModel):
    """A part of the text: in both answers, only in the old one, or only in the new one."""
    kind: Literal['equal', 'delete', 'insert'] | str
    text: str


class ErrorGroup(ResponseModel):
    """The items with one error code, with the message of one item."""
    code: str
    count: int
    example_id: str
    example_words: str | None = None


class Estimate(ResponseModel):
    """A figure with the ends of its 95 % interval."""
    value: float
    low: float
    high: float


class Evaluation(ResponseModel):
    id: str
    role: Literal['loop', 'audit', 'rescore'] | str
    job_id: str
    """The job that evaluated the answer. For a rescoring this is another job than that of the answer."""
    status: Literal['ok', 'error', 'skipped'] | str
    score: float | None = None
    passed: bool
    meets_criteria: bool | None = None
    confidence: float | None = None
    evaluation_reasoning: str
    improvement_suggestions: list[str]
    issues: list[str]
    improvement_hint: str | None = None
    criteria: list[CriterionOutcome]
    checks: list[CheckOutcome]
    grounding: ClaimCheckResult | None = None
    requirements_met: bool | None = None
    judges: list[EvaluatorVerdict]
    disagreement: float | None = None
    evaluator_model: str | None = None
    profile: str
    profile_version: str | None = None
    reused_from: str | None = None
    error: StepError | None = None


class EvaluatorVerdict(ResponseModel):
    """The verdict of one call, if the job has several evaluators or samples."""
    model: str
    sample: int
    status: Literal['ok', 'error'] | str
    score: float | None = None
    reasoning: str
    error: StepError | None = None


class Event(ResponseModel):
    seq: int
    type: str
    data: EventData


class EventData(ResponseModel):
    """The fields of events. Each type of event may have further fields."""
    message: str
    at: str
    seconds: float | None = None
    """The duration of the step, or of the job in its last event."""
    iteration: int | None = None
    candidate: int | None = None
    score: float | None = None
    passed: bool | None = None
    status: str | None = None
    stop_reason: str | None = None
    strategy: Literal['revise', 'fresh', 'encourage'] | str | None = None
    retry_count: int | None = None
    ts: str | None = None
    trace_id: str | None = None
    answer: str | None = None
    """The whole answer, in iteration.generated."""
    evaluation_reasoning: str | None = None
    criteria: list[dict[str, Any]] | None = None
    """The verdict on each criterion, in iteration.evaluated."""
    text: str | None = None
    """The next piece of the answer, in answer.delta."""
    offset: int | None = None
    attempt: int | None = None
    withdrawn: bool | None = None
    result: dict[str, Any] | None = None
    """In `done` and `evaluated`: the result, with the fields of `result` of the job; null if there is no answer.
    In a webhook, the result has no tokens and no latency. If `truncated` is true, long values are null.
    """
    error: dict[str, Any] | None = None
    """Why the job or the evaluation failed."""


class EventPage(ResponseModel):
    """Events in order. A request with `?after=` and the value of `next_after` returns later events."""
    data: list[Event]
    next_after: str
    is_over: bool
    """Whether the job has ended and there is no later event."""

    def __iter__(self) -> Iterator[Event]:  # type: ignore[override]
        return iter(self.data)


class Example(ResponseModel):
    """An item with its question, and one or two of its answers, the earlier answer first."""
    custom_id: str
    repeat: int
    job_id: str
    stop_reason: str | None = None
    only_evaluates: bool
    question: Excerpt
    attempts: list[Attempt]


class Examples(ResponseModel):
    """The examples of a report. Attributes: lowest: the answers with the lowest scores that were not accepted.
    helped: the items whose score rose most, each with its first and its returned answer. hurt: the items with
    a revision that scored lower than an earlier answer, each with these two answers.
    """
    lowest: list[Example] = []
    helped: list[Example] = []
    hurt: list[Example] = []


class Excerpt(ResponseModel):
    """The beginning of a text. `length` is the number of characters of the whole text."""
    text: str
    length: int


class FlakyRow(ResponseModel):
    """A row of which some repeats are accepted and others are not."""
    custom_id: str
    accepted: int
    evaluated: int
    lowest: float | None = None
    highest: float | None = None


class FoundId(ResponseModel):
    id: str


class Gap(ResponseModel):
    """What an answer lacks. `criterion` is the criterion that the answer does not meet; None for a suggestion."""
    words: Excerpt
    criterion: Excerpt | None = None


class GroundingResult(ResponseModel):
    """The use of the sources in an answer, checked without a model."""
    citations: list[Citation]
    issues: list[MarkerIssue]
    sources_used: list[int]
    """Indices of the cited sources; the first source has index 0."""
    sources_provided: int | None = None
    grounding_score: float | None = None
    unsupported: list[Unsupported] = []
    met: bool | None = None
    """Whether code finds the answer grounded in its sources."""
    cited_text: str | None = None
    """The prose of a structured answer. All positions are offsets in this text. Null for other answers."""


class HumanAgreement(ResponseModel):
    """The agreement of the evaluator with the dataset's human columns, over the items with both verdicts."""
    passes: Crossing
    scores: int
    error: Mean | None = None
    bias: Mean | None = None
    order: Correlation | None = None


class ItemCriterion(ResponseModel):
    """Whether the first and the returned answer of an item met one criterion. Without a verdict, this is None."""
    id: str
    text: str
    first: bool | None = None
    returned: bool | None = None
    weight: float = 1.0


class ItemOutcome(ResponseModel):
    """One item of a run: one repeat of a row of the dataset. Scores are from 0 to 1."""
    custom_id: str
    repeat: int = 1
    status: Literal['queued', 'running', 'succeeded', 'failed', 'canceled', 'invalid'] | str = 'queued'
    stop_reason: str | None = None
    success: bool | None = None
    first_score: float | None = None
    final_score: float | None = None
    best_iteration: int | None = None
    scores_by_iteration: list[float | None] = []
    passed_by_iteration: list[bool] = []
    iterations: int = 0
    cost_usd: str | None = None
    cost_by_iteration: list[str | None] = []
    calls_by_iteration: list[CallTotals] = []
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float | None = None
    error_code: str | None = None
    error_words: str | None = None
    human_score: float | None = None
    human_pass: bool | None = None
    audit_score: float | None = None
    audit_passed: bool | None = None
    criteria: list[ItemCriterion] = []
    only_evaluates: bool = False
    is_deleted: bool = False
    number: int = 0


class Iteration(ResponseModel):
    id: str
    number: int
    candidate: int
    generator_model: str | None = None
    generator_template: str | None = None
    """The version of the generator template, as NAME@VERSION; null: the default, `standard`."""
    answer: str
    feedback_given: str | None = None
    status: Literal['generated', 'evaluated', 'evaluation_failed', 'evaluation_skipped'] | str
    evaluation: Evaluation | None = None
    further_evaluations: list[Evaluation] = []
    grounding: GroundingResult | None = None
    usage: IterationUsage
    created_at: str


class IterationList(ResponseModel):
    """Iterations in order. An iteration with several candidates has an entry for each."""
    data: list[Iteration]

    def __iter__(self) -> Iterator[Iteration]:  # type: ignore[override]
        return iter(self.data)


class IterationUsage(ResponseModel):
    """The usage of all calls that generated and evaluated an answer. `latency_ms` is the sum of their durations."""
    calls: int
    input_tokens: int
    cached_input_tokens: int
    """Input tokens from the provider's cache; a part of the input tokens."""
    cache_write_tokens: int
    """Input tokens that the provider wrote to its cache; a part of the input tokens."""
    output_tokens: int
    reasoning_tokens: int
    """A part of the output tokens."""
    cost_usd: str | None = None
    """null: the price of some call is unknown."""
    latency_ms: int


class IterationYield(ResponseModel):
    """The gain and the cost of one iteration, over the items with a verdict."""
    number: int
    reached: int
    evaluated: int
    newly_accepted: int
    accepted: int
    pass_rate: Estimate | None = None
    better: int | None = None
    worse: int | None = None
    mean_gain: float | None = None
    mean_change: float | None = None
    cost_usd: str | None = None
    cost_per_accepted_usd: str | None = None


class Job(JobState):
    id: str
    object: Literal['job'] | str = 'job'
    kind: JobKind
    status: JobStatus
    stop_reason: StopReason | None = None
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    progress: Progress
    request: dict[str, Any]
    """The request with all defaults."""
    result: JobResult | None = None
    warnings: list[JobWarning]
    usage: UsageTotals
    error: StepError | None = None
    metadata: dict[str, str]
    version: int
    continuations: int
    run_id: str | None = None
    """The run that the job is an item of."""
    trace_id: str | None = None
    """The trace id of the header traceparent of the request."""
    urls: dict[str, str]
    iterations: list[Iteration] | None = None


class JobEstimate(ResponseModel):
    """The response to a request with `validate_only`."""
    request: dict[str, Any]
    """The request with all default values."""
    warnings: list[JobWarning]
    calls_max: int
    """The maximum number of model calls, not counting retries after failures."""


class JobPage(ResponseModel):
    data: list[Job]
    next_cursor: str | None = None
    """The value of `after` for the next page; null on the last page."""

    def __iter__(self) -> Iterator[Job]:  # type: ignore[override]
        return iter(self.data)


class JobResult(ResponseModel):
    """The best answer of a job, with its score and its sources."""
    final_answer: str
    parsed: Any = None
    """The answer as JSON if the request has an answer_schema; otherwise null."""
    success: bool | None = None
    """Whether the answer was accepted; null if it is not evaluated: the evaluation was skipped, or is still to
    come (stop_reason answered).
    """
    total_iterations: int
    final_score: float | None = None
    best_iteration: int
    citations: list[Citation]
    sources_used: list[int]
    """Indices of the cited sources; the first source has index 0."""
    sources_provided: int
    grounding_score: float | None = None
    unsupported_claims: list[str]
    confidence: float | None = None
    cited_text: str | None = None
    """The prose of a structured answer. All positions are offsets in this text. Null for other answers."""
    input_tokens: int
    """Input tokens of the whole job."""
    output_tokens: int
    """Output tokens of the whole job."""
    latency_ms: int | None = None
    """Latency of the whole job."""


class JobWarning(ResponseModel):
    code: str
    message: str


class JobWebhookBody(ResponseModel):
    """The body of a job's webhook."""
    type: Literal['job.queued', 'job.started', 'job.iteration.started', 'job.iteration.generated', 'job.iteration.evaluated', 'job.thinking', 'job.step.retrying', 'job.continued', 'job.done', 'job.evaluated'] | str
    timestamp: str
    data: JobWebhookData


class JobWebhookData(ResponseModel):
    """An event of a job."""
    url: str
    """The path of the job or of the run."""
    truncated: bool
    """Whether values that are too long are replaced by null."""
    job_id: str
    metadata: dict[str, str]
    seq: int
    """The number of the event in its job."""
    event: EventData


class Kappa(ResponseModel):
    """Agreement beyond chance, from -1 to 1: 0 is the agreement by chance, 1 is perfect."""
    value: float
    low: float
    high: float
    standard_error: float


class Latency(ResponseModel):
    """Quantiles of the seconds from the start to the end of the succeeded items."""
    n: int
    p50: float
    p90: float
    p95: float
    p99: float
    longest: float


class MarkerIssue(ResponseModel):
    """A citation marker that names no source, or that cannot be read."""
    code: str
    message: str
    number: int
    start_pos: int
    end_pos: int


class MatrixCell(ResponseModel):
    """The result of an iteration for a criterion. `regressed`: an earlier iteration met the criterion, and this
    one does not.
    """
    id: str
    score: float | None = None
    passed: bool | None = None
    regressed: bool


class MatrixColumn(ResponseModel):
    number: int
    candidate: int
    score: float | None = None
    passed: bool
    cells: list[MatrixCell]


class Mean(ResponseModel):
    """A mean with the ends of its 95 % interval. Attributes: low: None, like `high`, for fewer than two
    clusters. If all clusters have the same mean, both ends equal it, which shows that nothing varies, not
    that the mean is certain. n: the number of values. clusters: the number of groups of related values, such
    as the repeats of a row. If there are no groups, this is equal to `n`.
    """
    value: float
    low: float | None = None
    high: float | None = None
    n: int
    clusters: int


class MeanScores(ResponseModel):
    """The mean relevance scores of cited and of uncited sources. A mean is None if there are no such sources."""
    cited: float | None = None
    uncited: float | None = None


class Model(ResponseModel):
    id: str
    provider: str
    configured: bool
    """Whether the model can be called: its API key is set, or no key is needed."""
    default: bool
    note: str


class ModelList(ResponseModel):
    """The default model, one model of each vendor, and the models of the endpoints. An endpoint for which the
    settings name no model is listed as `NAME:*`. Jobs can also name other models of these providers.
    """
    data: list[Model]

    def __iter__(self) -> Iterator[Model]:  # type: ignore[override]
        return iter(self.data)


class Part(ResponseModel):
    """The number of items whose score changed in one direction, and their share of all items with its 95 %
    interval.
    """
    count: int
    share: Estimate | None = None


class PassAtK(ResponseModel):
    """The chance that a row passes in at least one (pass@k) and in all (pass^k) of `k` repeats."""
    k: int
    rows: int
    pass_at_k: Estimate | None = None
    pass_hat_k: Estimate | None = None


class Problem(ResponseModel):
    """The body of every response with a status of 400 or above (RFC 9457)."""
    type: str
    title: str
    status: int
    code: str
    """A stable code for programs."""
    detail: str
    """A message for people."""
    instance: str
    """The path of the request."""
    request_id: str
    """The id of the request, as in X-Request-Id and in the log."""
    retryable: bool
    """Whether the same request may succeed later."""
    errors: list[ProblemFieldError]


class ProblemFieldError(ResponseModel):
    """One validation error."""
    pointer: str
    """JSON Pointer into the body; for other places `query/NAME`, `header/NAME` or `path/NAME`."""
    detail: str
    code: str


class Profile(ResponseModel):
    """An evaluation profile: prompts, reply schema, and the mapping of reply fields to evaluation fields."""
    name: str
    version: str
    """A hash of the files of the profile, in 12 hexadecimal digits."""
    title: str
    description: str
    built_in: bool
    needs: list[str]
    """The fields that a request must have."""
    sees: list[str]
    """The request fields that the evaluator gets in addition to the answer."""
    source_chars: int | None = None
    """The maximum number of characters of each source; null: no limit."""
    media: bool
    """Whether the evaluator gets images and PDFs."""
    files: dict[str, str]
    """The SHA-256 of each file."""
    templates: Templates
    reply_schema: dict[str, Any]
    """The schema of the evaluator's reply to a request without a rubric."""
    mapping: dict[str, str | list[str] | bool]
    """For each field of an evaluation, the reply field that provides its value."""


class ProfileList(ResponseModel):
    data: list[Profile]

    def __iter__(self) -> Iterator[Profile]:  # type: ignore[override]
        return iter(self.data)


class Progress(ResponseModel):
    iteration: int
    iter_max: int
    step: str | None = None
    best_score: float | None = None
    best_iteration: int | None = None
    score_threshold: float


class PromptMessage(ResponseModel):
    role: str
    content: str


class RankReport(ResponseModel):
    """How often each rank is cited. Rank 1 is the source with the highest relevance score."""
    observations: int
    """The number of accepted answers that are counted."""
    left_out: int
    """The number of structured answers, which have no citations."""
    observations_needed: int
    """Fewer observations allow no conclusion."""
    mean_relevance_score: MeanScores
    ranks: list[RankShare]


class RankShare(ResponseModel):
    """The share of answers that cite the source of this rank, among the answers with a source of this rank."""
    rank: int
    offered: int
    cited: int
    share: Estimate


class Rating(ResponseModel):
    id: str
    job_id: str
    iteration: int
    candidate: int
    evaluation_id: str
    role: Literal['loop', 'audit', 'rescore'] | str
    criterion: str | None = None
    verdict: Literal['agree', 'disagree', 'unsure'] | str
    score: float | None = None
    note: str
    rater: str
    created_at: str


class RatingList(ResponseModel):
    """Ratings, oldest first. The last rating of each rater counts, for an evaluation or a criterion."""
    data: list[Rating]

    def __iter__(self) -> Iterator[Rating]:  # type: ignore[override]
        return iter(self.data)


class Recommendation(ResponseModel):
    """A recommended value, or None if there is no recommendation. `words` is the reason."""
    value: float | None = None
    words: str


class Redelivered(ResponseModel):
    """The number of deliveries that are sent again."""
    redelivered: int


class Refinement(ResponseModel):
    """A draft. Its first four fields can be sent as the body of a request."""
    instruct: str
    resp_format: str
    eval_crit: str | None = None
    rubric: list[dict[str, Any]]
    reasoning: str
    usage: UsageTotals


class Repeats(ResponseModel):
    """The rows with two or more evaluated repeats."""
    rows: int
    flaky: int
    flaky_share: Estimate | None = None
    by_k: list[PassAtK]
    flaky_rows: list[FlakyRow]


class Revisions(ResponseModel):
    """The gain and the cost of all iterations after the first, over the items with a verdict."""
    newly_accepted: int
    cost_usd: str | None = None
    cost_per_accepted_usd: str | None = None
    calls: CallTotals | None = None


class RoundFinished(ResponseModel):
    """The payload of the event `run.round_finished`: the results of all batches of the round are stored."""
    message: str
    at: str
    id: str
    name: str
    round: RunRound
    counts: RunCounts
    usage: UsageTotals
    version: int


class RoundWebhookBody(ResponseModel):
    """The body of a run's webhook at the end of a round."""
    type: Literal['run.round_finished'] | str
    timestamp: str
    data: RoundWebhookData


class RoundWebhookData(ResponseModel):
    """The end of a round of batches."""
    url: str
    """The path of the job or of the run."""
    truncated: bool
    """Whether values that are too long are replaced by null."""
    run_id: str
    seq: int
    """The version of the run. It grows with each round."""
    event: RoundFinished


class RowError(ResponseModel):
    """A validation error in a row."""
    pointer: str
    detail: str
    code: str


class Run(RunState):
    """A run: a job for each row of a dataset."""
    id: str
    object: Literal['run'] | str = 'run'
    name: str
    dataset_id: str
    status: Literal['running', 'succeeded', 'canceled'] | str
    stop_reason: Literal['finished', 'budget_exhausted', 'canceled', 'error'] | str | None = None
    error: RunError | None = None
    """The reason why items are not started. Workers retry them for REDRAFT_RUN_GIVE_UP_S seconds."""
    created_at: str
    finished_at: str | None = None
    counts: RunCounts
    usage: UsageTotals
    repeat: int
    max_in_flight: int
    max_cost_usd: str | None = None
    delivery: Literal['live', 'batch'] | str = 'live'
    delivery_reason: str | None = None
    """Why `delivery: auto` chose this delivery; otherwise null."""
    rounds: list[RunRound] = []
    """The rounds of batches, the first one first."""
    saved_usd: str | None = None
    """The live price of the batches less their cost."""
    webhook: dict[str, Any] | None = None
    defaults: dict[str, Any]
    overrides: dict[str, Any]
    version: int
    urls: dict[str, str]


class RunBatch(ResponseModel):
    """A batch of calls of a run to one model."""
    id: str
    model: str
    status: Literal['ready', 'sent', 'ended'] | str
    provider_batch_id: str | None = None
    provider_status: str | None = None
    """The provider's own word for the state."""
    total: int
    done: int
    """The calls that the provider has ended, as it reports them."""
    succeeded: int
    """The calls whose replies are stored."""
    failed: int
    submitted_at: str | None = None
    expires_at: str | None = None
    """The latest time at which the provider ends the batch."""
    ended_at: str | None = None
    error: str | None = None
    """Why the provider refused the batch, or why the last request for it failed."""
    odd_line_count: int
    """Lines of the results that belong to no call of the batch."""


class RunCounts(ResponseModel):
    """The number of items by status. `total` is the sum of all statuses at any time."""
    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int
    invalid: int
    accepted: int
    """Succeeded items whose answer was accepted."""


class RunError(ResponseModel):
    """The reason why items of a run cannot be started, or were canceled because they could not be started for
    long.
    """
    code: str
    detail: str
    pointer: str
    """JSON pointer to a field of the row or of the run."""
    items: int
    """The number of items that the error delays, or that were canceled because of it."""
    since: str


class RunFacts(ResponseModel):
    """The facts that identify a run."""
    id: str
    name: str
    status: str
    dataset_name: str
    created_at: str
    dataset_version: str | None = None
    finished_at: str | None = None
    models: list[str] = []
    evaluator_models: list[str] = []
    has_only_checks: bool = False
    score_threshold: float | None = None
    iter_max: int | None = None
    cost_usd: str | None = None
    unpriced_models: list[str] = []
    deleted_jobs: int = 0
    saved_usd: str | None = None
    rounds_s: list[float | None] = []
    ratings: dict[str, int] | None = None
    evaluator_warnings: list[str] = []
    settings: dict[str, Any] | None = None


class RunFinished(ResponseModel):
    """The payload of the events `run.finished` and `run.gate_failed`. It has no questions or answers. Items of a
    canceled run may still be running, since their jobs are canceled right after the run.
    """
    message: str
    at: str
    id: str
    name: str
    status: Literal['succeeded', 'canceled'] | str
    stop_reason: Literal['finished', 'budget_exhausted', 'canceled', 'error'] | str
    error: RunError | None = None
    counts: RunCounts
    usage: UsageTotals
    version: int
    gates: list[RunGate] | None = None
    """The results of the gates, of `run.gate_failed`."""


class RunGate(ResponseModel):
    """The result of a gate."""
    gate: Literal['min_pass_rate', 'fail_on_regression'] | str
    passed: bool
    words: str


class RunItem(ResponseModel):
    """One repetition of a row of the dataset, with its result."""
    number: int
    custom_id: str
    repeat: int
    line: int
    status: Literal['queued', 'running', 'succeeded', 'failed', 'canceled', 'invalid'] | str
    stop_reason: str | None = None
    success: bool | None = None
    """Whether the answer was accepted; null if it was not evaluated."""
    final_score: float | None = None
    final_answer: str | None = None
    first_score: float | None = None
    best_iteration: int | None = None
    iterations: int
    score_threshold: float | None = None
    model: str | None = None
    evaluator_model: str | None = None
    calls: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: str | None = None
    seconds: float | None = None
    human_score: float | None = None
    human_pass: bool | None = None
    evaluation_reasoning: str | None = None
    """The reasoning in the evaluation of the final answer."""
    improvement_suggestions: list[str] | None = None
    """The suggestions in the evaluation of the final answer."""
    error_code: str | None = None
    error: str | None = None
    instruct: str | None = None
    """From the job, or from the row if there is no job. The same holds for `reference` and `metadata`."""
    reference: str | None = None
    metadata: dict[str, str]
    job_id: str | None = None


class RunItemPage(ResponseModel):
    """Items in the order of the dataset."""
    data: list[RunItem]
    next_cursor: str | None = None
    """The value of `after` for the next page; null on the last page."""

    def __iter__(self) -> Iterator[RunItem]:  # type: ignore[override]
        return iter(self.data)


class RunOutcomes(ResponseModel):
    """The facts, the outcomes and the examples of a run, from which its reports and comparisons are computed."""
    run: RunFacts
    items: list[ItemOutcome]
    examples: Examples


class RunPage(ResponseModel):
    data: list[Run]
    next_cursor: str | None = None
    """The value of `after` for the next page; null on the last page."""

    def __iter__(self) -> Iterator[Run]:  # type: ignore[override]
        return iter(self.data)


class RunReport(ResponseModel):
    """The figures of a run, finished or not. A figure that cannot be computed is None."""
    counts: Counts
    stop_reasons: dict[str, int]
    pass_rate: Estimate | None = None
    final_score: Mean | None = None
    uplift: Uplift
    iter_max_advice: Recommendation
    threshold_advice: Recommendation
    costs: Costs
    latency: Latency | None = None
    errors: list[ErrorGroup]
    agreement: HumanAgreement | None = None
    first_scores: list[Bin]
    final_scores: list[Bin]
    criteria: list[CriterionRate] = []
    repeats: Repeats | None = None


class RunRound(ResponseModel):
    """The batches of a run that were sent together. The next round follows when all of them have ended."""
    number: int
    total: int
    done: int
    succeeded: int
    failed: int
    started_at: str
    expires_at: str | None = None
    ended_at: str | None = None
    wall_s: float | None = None
    """The time from the start of the round to its end, in seconds."""
    batches: list[RunBatch]


class RunWebhookBody(ResponseModel):
    """The body of a run's webhook."""
    type: Literal['run.finished', 'run.gate_failed'] | str
    timestamp: str
    data: RunWebhookData


class RunWebhookData(ResponseModel):
    """The end of a run."""
    url: str
    """The path of the job or of the run."""
    truncated: bool
    """Whether values that are too long are replaced by null."""
    run_id: str
    seq: int
    """The version of the run. It is larger when a resumed run ends again."""
    event: RunFinished


class Schedule(ResponseModel):
    """A schedule, which starts a run of a dataset at regular times."""
    id: str
    object: Literal['schedule'] | str = 'schedule'
    name: str
    status: Literal['active', 'paused'] | str
    cron: str
    """In UTC."""
    dataset_id: str
    run: dict[str, Any]
    gates: dict[str, Any]
    created_at: str
    next_at: str | None = None
    """The time of the next run; null while the schedule is paused."""
    ticks: list[Tick]
    """The newest ticks, newest first."""
    urls: dict[str, str]


class SchedulePage(ResponseModel):
    data: list[Schedule]
    next_cursor: str | None = None
    """The value of `after` for the next page; null on the last page."""

    def __iter__(self) -> Iterator[Schedule]:  # type: ignore[override]
        return iter(self.data)


class StepError(ResponseModel):
    """The error of a job, an evaluation or a call; docs/errors.md explains each code."""
    type: str
    title: str
    code: str
    detail: str
    retryable: bool
    provider: str | None = None
    model: str | None = None
    iteration: int | None = None
    attempts: int | None = None
    output_limit: int | None = None
    """The output limit, in tokens, at which the answer was cut off."""


class Template(ResponseModel):
    """A version of a generator template."""
    name: str
    version: str
    """A hash of the texts, in 12 hexadecimal digits."""
    reference: str
    """NAME@VERSION, as in the field `generator_template` of a request."""
    origin: str
    """`built-in`; `file`: from REDRAFT_TEMPLATES_DIR; `saved`: by an administrator."""
    system: str
    user: str
    variables: list[str]
    """The names of `vars` that the texts use."""


class TemplateDetails(ResponseModel):
    name: str
    version: str
    """A hash of the texts, in 12 hexadecimal digits."""
    reference: str
    """NAME@VERSION, as in the field `generator_template` of a request."""
    origin: str
    """`built-in`; `file`: from REDRAFT_TEMPLATES_DIR; `saved`: by an administrator."""
    system: str
    user: str
    variables: list[str]
    """The names of `vars` that the texts use."""
    versions: list[TemplateVersion]
    """The stored versions, latest first."""
    used_by: list[TemplateUse]
    """The latest jobs with an answer by this version, latest first."""


class TemplateList(ResponseModel):
    """The current version of each template, by name."""
    data: list[Template]

    def __iter__(self) -> Iterator[Template]:  # type: ignore[override]
        return iter(self.data)


class TemplatePreview(ResponseModel):
    """The first prompt of the generator. Nothing is sent."""
    system: str
    messages: list[PromptMessage]


class TemplateUse(ResponseModel):
    job_id: str
    last_used_at: str


class TemplateVersion(ResponseModel):
    version: str
    saved_at: str


class Templates(ResponseModel):
    """The prompt templates. Values in braces are inserted as text, never as templates."""
    system: str
    user: str
    rubric_system: str | None = None
    """System prompt for a rubric; null if the profile supports no rubric."""
    rubric_user: str | None = None


class Threshold(ResponseModel):
    """A score threshold for the evaluator, its precision and recall, and the number of rated answers that reach
    it.
    """
    value: float
    precision: Estimate
    recall: float | None = None
    n: int


class Tick(ResponseModel):
    """A time at which a schedule started a run."""
    tick: str
    run_id: str | None = None
    """null if no run was started, or the run was deleted."""
    error: TickError | None = None
    gates: list[RunGate] | None = None
    """null until the run has ended, or without gates."""


class TickError(ResponseModel):
    """The reason why no run was started."""
    code: str
    detail: str


class Unsupported(ResponseModel):
    """A sentence that no source supports, with its position in characters of the answer. Attributes: reason:
    `number`: it contains a number that is in no source; `uncited`: it cites no source and resembles none;
    `unrelated`: it cites a source, but shares no word with any source in its language.
    """
    text: str
    reason: Literal['number', 'uncited', 'unrelated'] | str
    missing_numbers: list[str]
    start_pos: int
    end_pos: int


class UnusedColumn(ResponseModel):
    """A column that fills no field. `meant` is a field with a similar name, or None."""
    name: str
    rows: int
    meant: str | None = None


class Uplift(ResponseModel):
    """The change from the first answers to the returned answers."""
    n: int
    revised: int
    first: float | None = None
    returned: float | None = None
    gain: Mean | None = None
    helped: Part
    hurt: Part
    unchanged: Part
    iterations: list[IterationYield]
    revisions: Revisions
    backings: list[Backing]
    words: list[str]


class UsageLine(ResponseModel):
    """The calls to one model that ended on one day, in UTC."""
    calls: int
    input_tokens: int
    cached_input_tokens: int
    """Input tokens from the provider's cache; a part of the input tokens."""
    cache_write_tokens: int
    """Input tokens that the provider wrote to its cache; a part of the input tokens."""
    output_tokens: int
    reasoning_tokens: int
    """A part of the output tokens."""
    cost_usd: str | None = None
    """null: the price of some call is unknown."""
    failed_calls: int
    cached_calls: int
    unpriced_calls: int
    """Calls with an unknown cost."""
    day: str
    model: str


class UsageReport(ResponseModel):
    """All calls in a span of time, without calls of deleted jobs."""
    object: Literal['usage'] | str = 'usage'
    created_after: str
    created_before: str
    total: UsageSums
    data: list[UsageLine]
    """Newest day first."""
    has_more: bool
    """There are more than 1000 lines: narrow the span, or name a model."""


class UsageSums(ResponseModel):
    """The usage of several calls, including failed calls."""
    calls: int
    input_tokens: int
    cached_input_tokens: int
    """Input tokens from the provider's cache; a part of the input tokens."""
    cache_write_tokens: int
    """Input tokens that the provider wrote to its cache; a part of the input tokens."""
    output_tokens: int
    reasoning_tokens: int
    """A part of the output tokens."""
    cost_usd: str | None = None
    """null: the price of some call is unknown."""
    failed_calls: int
    cached_calls: int
    unpriced_calls: int
    """Calls with an unknown cost."""


class UsageTotals(ResponseModel):
    calls: int
    input_tokens: int
    cached_input_tokens: int
    """Input tokens from the provider's cache; a part of the input tokens."""
    cache_write_tokens: int
    """Input tokens that the provider wrote to its cache; a part of the input tokens."""
    output_tokens: int
    reasoning_tokens: int
    """A part of the output tokens."""
    cost_usd: str | None = None
    """null: the price of some call is unknown."""
    latency_ms: int | None = None
    """The time from the request to the end; null before the end."""


class Verdicts(ResponseModel):
    """Rows that lack a verdict in one run or in both. All other figures leave these rows out."""
    lost: list[str]
    won: list[str]
    neither: list[str]
    p: float
    repeats_without: int


class WebhookDelivery(ResponseModel):
    """The delivery of an event of a job or a run to its webhook."""
    id: str
    job_id: str | None = None
    run_id: str | None = None
    type: str
    seq: int
    url: str
    status: Literal['pending', 'delivered', 'failed'] | str
    failing: bool
    """The last attempt failed, and another one follows at `next_at`."""
    attempts: int
    attempts_left: int
    """The number of attempts that remain; 0 if the delivery has ended."""
    next_at: str | None = None
    http_status: int | None = None
    error: str | None = None
    created_at: str
    delivered_at: str | None = None
