"""The resources of jobs, calls, events and webhook deliveries, for the API, the command line and the pages."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, PlainSerializer

from redraft.domain.bodies.fields import As
from redraft.domain.evaluation.calibration import Verdict
from redraft.domain.grounding.citations import Citation
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.jobs.states import JobKind, JobStatus, Outcome, StopReason, outcome_of
from redraft.domain.jobs.webhook_retries import ATTEMPTS_MAX, attempts_left
from redraft.domain.jobs.webhooks import message_type
from redraft.domain.numbers.time_intervals import Interval
from redraft.operations.jobs.iterations import Iteration, Role
from redraft.operations.resource_base import (
    ROOT_PATH,
    Moment,
    Resource,
    StepError,
    Urls,
    UsageTotals,
    cost_usd,
    latency_ms,
)
from redraft.storage.admin.ratings import RatingRecord
from redraft.storage.jobs.events import EventRecord
from redraft.storage.jobs.job_lists import JobRow
from redraft.storage.jobs.jobs import JobRecord
from redraft.storage.jobs.webhooks import DeliveryRecord


class JobResult(Resource):
    """The best answer of a job, with its score and its sources."""

    final_answer: str
    parsed: Any = Field(description="The answer as JSON if the request has an answer_schema; otherwise null.")
    success: bool | None = Field(
        description="Whether the answer was accepted; null if it is not evaluated: the evaluation was skipped, or is "
        "still to come (stop_reason answered)."
    )
    total_iterations: int
    final_score: float | None
    best_iteration: int
    citations: list[Citation]
    sources_used: list[int] = Field(description="Indices of the cited sources; the first source has index 0.")
    sources_provided: int
    grounding_score: float | None
    unsupported_claims: list[str]
    confidence: float | None
    cited_text: str | None = Field(
        description="The prose of a structured answer. All positions are offsets in this text. Null for other answers."
    )
    input_tokens: int = Field(description="Input tokens of the whole job.")
    output_tokens: int = Field(description="Output tokens of the whole job.")
    latency_ms: int | None = Field(description="Latency of the whole job.")


class EventData(Resource):
    """The fields of events. Each type of event may have further fields."""

    model_config = ConfigDict(extra="allow", frozen=True)

    message: str
    at: str = Field(json_schema_extra={"format": "date-time"})
    seconds: float | None = Field(
        default=None, description="The duration of the step, or of the job in its last event."
    )
    iteration: int | None = None
    candidate: int | None = None
    score: float | None = None
    passed: bool | None = None
    status: str | None = None
    stop_reason: str | None = None
    strategy: Literal["revise", "fresh", "encourage"] | None = None
    retry_count: int | None = None
    ts: str | None = None
    trace_id: str | None = None
    answer: str | None = Field(default=None, description="The whole answer, in iteration.generated.")
    evaluation_reasoning: str | None = None
    criteria: list[dict[str, Any]] | None = Field(
        default=None, description="The verdict on each criterion, in iteration.evaluated."
    )
    text: str | None = Field(default=None, description="The next piece of the answer, in answer.delta.")
    offset: int | None = None
    attempt: int | None = None
    withdrawn: bool | None = None
    result: dict[str, Any] | None = Field(
        default=None,
        description="In `done` and `evaluated`: the result, with the fields of `result` of the job; null if there is "
        "no answer. In a webhook, the result has no tokens and no latency. If `truncated` is true, long values are "
        "null.",
    )
    error: dict[str, Any] | None = Field(default=None, description="Why the job or the evaluation failed.")


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


class CallLine(Resource):
    """A call without its request and its response."""

    id: str
    type: str
    iteration: int
    candidate: int
    model: str
    attempt: int
    status: Literal["started", "succeeded", "failed"]
    cached: bool
    http_status: int | None
    finish_reason: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: str | None
    latency_ms: int | None
    error: Annotated[dict[str, Any] | None, As(StepError | None)]
    started_at: Moment
    finished_at: Moment | None

    @property
    def interval(self) -> Interval:
        """Start and end in seconds since the epoch. The end is start plus latency, as on the pages."""
        start = self.started_at.timestamp()
        if self.latency_ms is not None:
            return start, start + self.latency_ms / 1000
        end = self.finished_at or datetime.now(UTC)
        return start, max(start, end.timestamp())


class PlacedCall(CallLine):
    """A call with its position among the calls of its job."""

    step: str
    seq: int

    @property
    def slot(self) -> tuple[str, int, int, int]:
        """The position of the call. A repeated call has the position of the call that it repeats."""
        return self.step, self.iteration, self.candidate, self.seq


class Call(CallLine):
    provider: str
    delivery: Literal["live", "batch"] = "live"
    batch_id: str | None = Field(
        default=None, description="The batch of the run that delivers the call; null for a live call."
    )
    request: Any
    response: Any
    truncated: bool
    response_headers: dict[str, str] | None
    cached_input_tokens: int | None
    cache_write_tokens: int | None = Field(
        description="Input tokens that the provider wrote to its cache; a part of the input tokens."
    )
    reasoning_tokens: int | None


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
    failing: bool = Field(description="The last attempt failed, and another one follows at `next_at`.")
    attempts: int
    attempts_left: int = Field(description="The number of attempts that remain; 0 if the delivery has ended.")
    next_at: Moment | None
    http_status: int | None
    error: str | None
    created_at: Moment
    delivered_at: Moment | None


def _request_below_root(request: dict[str, Any]) -> dict[str, Any]:
    if not ROOT_PATH.get() or not request.get("attachments"):
        return request
    urls = [{**each, "url": f"{ROOT_PATH.get()}{each['url']}"} for each in request["attachments"]]
    return {**request, "attachments": urls}


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
    request: Annotated[dict[str, Any], PlainSerializer(_request_below_root, when_used="json"), As(AnyRequest)] = Field(
        description="The request with all defaults."
    )
    result: Annotated[dict[str, Any] | None, As(JobResult | None)]
    warnings: list[JobWarning]
    usage: UsageTotals
    error: Annotated[dict[str, Any] | None, As(StepError | None)]
    metadata: dict[str, str]
    version: int
    continuations: int
    run_id: str | None = Field(description="The run that the job is an item of.")
    trace_id: str | None = Field(description="The trace id of the header traceparent of the request.")
    urls: Urls
    iterations: list[Iteration] | None = None

    @property
    def outcome(self) -> Outcome:
        result = self.result or {}
        is_evaluated = result.get("final_score") is not None
        return outcome_of(self.status, is_accepted=bool(result.get("success")), is_evaluated=is_evaluated)

    @property
    def evaluators(self) -> list[str]:
        """The models that evaluate the answers. Empty if the rubric has only checks, because no model is called."""
        rubric = self.request.get("rubric")
        if rubric and all(each["kind"] == "check" for each in rubric):
            return []
        model = self.request.get("evaluator_model")
        return self.request.get("evaluation", {}).get("panel") or ([model] if model else [])


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
    has_step = record.finished_at is None or record.stop_reason == StopReason.ANSWERED
    base = f"/v1/jobs/{record.id}"
    parts = ("iterations", "calls", "events", "cancel", "continue")
    return Job.from_row(
        record,
        progress=Progress.from_row(
            record,
            iteration=iteration_now(record),
            iter_max=record.iteration_limit,
            step=record.step if has_step else None,
            score_threshold=record.request["score_threshold"],
        ),
        request=_with_urls(record.request, f"{base}/attachments"),
        result=record.result and {**record.result, **_spent(record)},
        warnings=[JobWarning(**warning) for warning in record.warnings],
        usage=UsageTotals.of(record, latency_ms(record.created_at, record.finished_at)),
        urls={"self": base, **{part: f"{base}/{part}" for part in parts}, "web": f"/jobs/{record.id}"},
        iterations=iterations,
    )


def _with_urls(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return a request with the path of each attachment."""
    attached = request.get("attachments")
    if not attached:
        return request
    return {**request, "attachments": [{**each, "url": f"{folder}/{each['digest']}"} for each in attached]}


def iteration_now(record: JobRecord | JobRow) -> int:
    """The iteration that is being generated, or else the last iteration with an answer."""
    is_generating = record.status == "running" and record.step == "generate"
    return record.iteration + 1 if is_generating else record.iteration


def _spent(record: JobRecord) -> dict[str, int | None]:
    """The usage of the whole job for its result."""
    # It is not stored with the result, since a late worker may record a call of an ended job
    return {
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "latency_ms": latency_ms(record.created_at, record.finished_at),
    }


_CALL_STATUS = {"started": "started", "ok": "succeeded", "dup": "succeeded", "error": "failed", "unknown": "failed"}
# Longer texts make a page or a terminal unusable; the API returns complete texts with `full`
_TEXT_LIMIT = 256 * 1024


def placed_call(row: Mapping[str, Any]) -> PlacedCall:
    return PlacedCall.model_validate(_shown(row))


def call_resource(row: Mapping[str, Any], *, full: bool = False) -> Call:
    """The resource of a call. Texts over 256 K characters are cut unless `full` is set."""
    texts = {name: _cut(row[name], None if full else _TEXT_LIMIT) for name in ("request", "response")}
    is_cut = any(text != row[name] for name, text in texts.items())
    return Call.model_validate({**_shown(row), **texts, "truncated": is_cut})


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    delivery = "batch" if row.get("batch_id") else "live"
    status = _CALL_STATUS[row["status"]]
    return {**row, "delivery": delivery, "status": status, "cost_usd": cost_usd(row["cost_nano_usd"])}


def _cut(value: Any, limit: int | None) -> Any:
    """Return a JSON value with all texts cut to `limit` characters."""
    if isinstance(value, str):
        return value[:limit]
    if isinstance(value, list):
        return [_cut(each, limit) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _cut(each, limit) for name, each in cast("dict[str, Any]", value).items()}
    return value


def delivery_resource(record: DeliveryRecord) -> WebhookDelivery:
    left = attempts_left(record.attempts, record.attempts_before) if record.status == "pending" else 0
    return WebhookDelivery.from_row(
        record,
        type=message_type(record.type),
        # If all attempts are left, the last error is from before a redelivery
        failing=record.last_error is not None and 0 < left < ATTEMPTS_MAX,
        attempts_left=left,
        http_status=record.last_status,
        error=record.last_error,
    )


def event_resource(record: EventRecord, ended: JobRecord | None = None) -> Event:
    """Return the resource of an event. If `ended` is given, the result in the event gets the usage of that job."""
    data = record.data
    if ended is not None and record.type in {"done", "evaluated"} and data.get("result"):
        data = {**data, "result": {**data["result"], **_spent(ended)}}
    return Event.from_row(record, data=data)


def rating_resource(record: RatingRecord) -> Rating:
    return Rating.from_row(record, criterion=record.criterion_id)
