"""The resources of jobs, calls, events and webhook deliveries, for API, command line and pages alike."""

from dataclasses import fields
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field

from redraft.domain.bodies.fields import As
from redraft.domain.evaluation.calibration import Verdict
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.jobs.states import JobKind, JobStatus, StopReason
from redraft.domain.jobs.webhooks import message_type
from redraft.operations.jobs.iterations import CitationFound, Iteration, Role
from redraft.operations.resource_base import Moment, Resource, StepError, Urls, UsageTotals, cost_usd, latency_ms
from redraft.storage.admin.ratings import RatingRecord
from redraft.storage.jobs.events import EventRecord
from redraft.storage.jobs.job_lists import JobRow
from redraft.storage.jobs.jobs import JobRecord
from redraft.storage.jobs.webhooks import DeliveryRecord


class JobResult(Resource):
    """The best answer of a job, with its score and its sources."""

    final_answer: str
    parsed: Any = Field(description="The answer as JSON if there is an answer_schema; otherwise null.")
    success: bool | None = Field(description="Whether the answer was accepted; null if the evaluation was skipped.")
    total_iterations: int
    final_score: float | None
    best_iteration: int
    citations: list[CitationFound]
    sources_used: list[int] = Field(description="Indices of the cited sources, from 0 on.")
    sources_provided: int
    grounding_score: float | None
    unsupported_claims: list[str]
    confidence: float | None
    cited_text: str | None = Field(description="The prose of a structured answer; all positions refer to it.")
    input_tokens: int = Field(description="Of the whole job, like the next two fields.")
    output_tokens: int
    latency_ms: int | None


class EventData(Resource):
    """The fields of every event; each type adds its own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    message: str
    at: str = Field(json_schema_extra={"format": "date-time"})
    seconds: float | None = Field(default=None, description="How long it took.")
    iteration: int | None = None
    candidate: int | None = None
    score: float | None = None
    passed: bool | None = None
    status: str | None = None
    stop_reason: str | None = None
    strategy: Literal["revise", "fresh", "encourage"] | None = None
    retry_count: int | None = None
    ts: str | None = None


class Progress(Resource):
    iteration: int
    iter_max: int
    step: str | None
    best_score: float | None
    best_iteration: int | None
    score_threshold: float


class JobWarning(Resource):
    code: str
    message: str


class Call(Resource):
    id: str
    type: str
    iteration: int
    candidate: int
    provider: str
    model: str
    attempt: int
    status: Literal["started", "succeeded", "failed"]
    cached: bool
    request: Any
    response: Any
    truncated: bool
    http_status: int | None
    response_headers: dict[str, str] | None
    finish_reason: str | None
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: str | None
    latency_ms: int | None
    error: Annotated[dict[str, Any] | None, As(StepError | None)]
    started_at: Moment
    finished_at: Moment | None


class Event(Resource):
    seq: int
    type: str
    data: Annotated[dict[str, Any], As(EventData)]


class WebhookDelivery(Resource):
    """The delivery of an event of a job or a run to its webhook."""

    id: str
    job_id: str | None
    run_id: str | None
    type: str
    seq: int
    url: str
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    next_at: Moment | None
    http_status: int | None
    error: str | None
    created_at: Moment
    delivered_at: Moment | None


class Job(Resource):
    id: str
    object: Literal["job"] = "job"
    kind: Annotated[str, As(JobKind)]
    status: Annotated[str, As(JobStatus)]
    stop_reason: Annotated[str | None, As(StopReason | None)]
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    progress: Progress
    request: Annotated[dict[str, Any], As(AnyRequest)] = Field(description="With all defaults filled in.")
    result: Annotated[dict[str, Any] | None, As(JobResult | None)]
    warnings: list[JobWarning]
    usage: UsageTotals
    error: Annotated[dict[str, Any] | None, As(StepError | None)]
    metadata: dict[str, str]
    version: int
    continuations: int
    run_id: str | None = Field(description="The run that the job is an item of.")
    urls: Urls
    iterations: list[Iteration] | None = None


class Rating(Resource):
    id: str
    job_id: str
    iteration: int
    candidate: int
    evaluation_id: str
    role: Role
    criterion: str | None
    verdict: Verdict
    score: float | None
    note: str
    rater: str
    created_at: Moment


def job_resource(record: JobRecord, iterations: list[Iteration] | None = None) -> Job:
    is_live = record.finished_at is None
    return Job(
        id=record.id,
        kind=record.kind,
        status=record.status,
        stop_reason=record.stop_reason,
        created_at=record.created_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        progress=Progress(
            iteration=iteration_now(record),
            iter_max=record.iteration_limit,
            step=record.step if is_live else None,
            best_score=record.best_score,
            best_iteration=record.best_iteration,
            score_threshold=record.request["score_threshold"],
        ),
        request=record.request,
        result=record.result and {**record.result, **_spent(record)},
        warnings=[JobWarning(**warning) for warning in record.warnings],
        usage=UsageTotals.of(record, latency_ms(record.created_at, record.finished_at)),
        error=record.error,
        metadata=record.metadata,
        version=record.version,
        continuations=record.continuations,
        run_id=record.run_id,
        urls=_urls(record.id),
        iterations=iterations,
    )


def iteration_now(record: JobRecord | JobRow) -> int:
    """The current iteration of a running job, or the last one with an answer."""
    is_generating = record.status == "running" and record.step == "generate"
    return record.iteration + 1 if is_generating else record.iteration


def _spent(record: JobRecord) -> dict[str, int | None]:
    """The usage of the whole job, as part of its result."""
    # Added when it is read: a late worker may still add a call to an ended job
    return {
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "latency_ms": latency_ms(record.created_at, record.finished_at),
    }


def _urls(job_id: str) -> dict[str, str]:
    base = f"/v1/jobs/{job_id}"
    parts = ("iterations", "calls", "events", "cancel", "continue")
    return {"self": base, **{part: f"{base}/{part}" for part in parts}, "web": f"/jobs/{job_id}"}


_CALL_STATUS: dict[str, Literal["started", "succeeded", "failed"]] = {
    "started": "started",
    "ok": "succeeded",
    "dup": "succeeded",
    "error": "failed",
    "unknown": "failed",
}
_OMITTED = frozenset({"job_id", "step", "seq", "lease_token", "reply_text", "cost_nano_usd", "status"})
_TEXT_LIMIT = 256 * 1024


def call_status(stored: str) -> Literal["started", "succeeded", "failed"]:
    """The public status of a call."""
    return _CALL_STATUS[stored]


def call_resource(row: dict[str, Any], *, full: bool = False) -> Call:
    """A row of the ledger; texts over 256 KB are cut unless `full` is set."""
    shown = {name: value for name, value in row.items() if name not in _OMITTED}
    cut = _Cut(None if full else _TEXT_LIMIT)
    shown["request"], shown["response"] = cut.of(row["request"]), cut.of(row["response"])
    return Call(
        **shown,
        status=call_status(row["status"]),
        cost_usd=cost_usd(row["cost_nano_usd"]),
        truncated=cut.has_cut,
    )


class _Cut:
    """Cuts the long texts in a JSON value, and records whether it cut any."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self.has_cut = False

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.of(each) for each in cast("list[Any]", value)]
        if isinstance(value, dict):
            return {name: self.of(each) for name, each in cast("dict[str, Any]", value).items()}
        return value

    def _text(self, text: str) -> str:
        if self._limit is None or len(text) <= self._limit:
            return text
        self.has_cut = True
        return text[: self._limit]


def delivery_resource(record: DeliveryRecord) -> WebhookDelivery:
    names = ("id", "job_id", "run_id", "seq", "url", "status", "attempts", "next_at", "created_at", "delivered_at")
    return WebhookDelivery(
        **{name: getattr(record, name) for name in names},
        type=message_type(record.type),
        http_status=record.last_status,
        error=record.last_error,
    )


def event_resource(record: EventRecord, ended: JobRecord | None = None) -> Event:
    """An event; with `ended`, the result in a `done` event gets the usage of the ended job."""
    data = record.data
    if ended is not None and record.type == "done" and data.get("result"):
        data = {**data, "result": {**data["result"], **_spent(ended)}}
    return Event(seq=record.seq, type=record.type, data=data)


def rating_resource(record: RatingRecord) -> Rating:
    names = [field.name for field in fields(record) if field.name != "criterion_id"]
    return Rating(criterion=record.criterion_id, **{name: getattr(record, name) for name in names})
