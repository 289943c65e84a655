"""Makes the trace of a job from its rows: a span for the job, its iterations and its calls, and an event per verdict.

The ids of spans are hashes of the ids of the rows, so each export of a trace, by any process, has the same ids. The
names follow OpenTelemetry's semantic conventions for generative AI. Redraft's own attributes begin with `redraft.`.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, cast

from redraft.domain.calls.model_names import parse_model
from redraft.domain.jobs.ids import read_traceparent
from redraft.redaction import redact
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import calls, events, history, jobs
from redraft.storage.jobs.events import EventRecord
from redraft.storage.jobs.history import EvaluationRecord, IterationRecord
from redraft.storage.jobs.jobs import JobRecord

_ENDS = ("done", "evaluated")
_NANO = 10**9
# Receivers refuse larger attributes, or cut them
_TEXT_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Span:
    """A span. `error` is the code of its error, or None."""

    name: str
    span_id: int
    parent_id: int | None
    start: datetime
    end: datetime
    attributes: dict[str, Any]
    error: str | None = None
    is_client: bool = False


class EvaluationEvent(NamedTuple):
    """An event `gen_ai.evaluation.result` in a span."""

    span_id: int
    at: datetime
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one part of a job. A part begins with the job or with a continuation, and goes to the next end."""

    trace_id: int
    spans: list[Span] = field(default_factory=list[Span])
    events: list[EvaluationEvent] = field(default_factory=list[EvaluationEvent])


class _Part(NamedTuple):
    """The rows of one part of a job."""

    job: JobRecord
    number: int
    start: datetime
    end: EventRecord
    iterations: list[IterationRecord]
    audits: list[tuple[str, EvaluationRecord]]
    calls: list[dict[str, Any]]


def read_trace(database: Database, job_id: str, continuation: int, *, with_content: bool) -> Trace | None:
    """Return the trace of a part of a job; None if the caller of the API does not sample it, or the job was deleted."""
    with database.read() as connection:
        job = jobs.get(connection, job_id)
        if job is None:
            return None
        parent = read_traceparent(job.traceparent)
        if parent is not None and not parent.is_sampled:
            return None
        records = history.iterations_of(connection, job)
        audits = history.evaluations_outside_loop(connection, [each.id for each in records])
        rows = calls.of_job(connection, job_id)
        found = events.of_types(connection, job_id, ("job.continued", *_ENDS))
    part = _part_of(job, continuation, found, records, audits, rows)
    if part is None:
        return None
    trace = Trace(int(parent.trace_id if parent else job.id.partition("_")[2], 16))
    of_caller = int(parent.span_id, 16) if parent else None
    _fill(trace, part, span_id_of(job.id, 0) if continuation else of_caller, with_content=with_content)
    return trace


def span_id_of(*parts: object) -> int:
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8]) or 1


def _part_of(
    job: JobRecord,
    number: int,
    found: Sequence[EventRecord],
    records: list[IterationRecord],
    audits: list[tuple[str, EvaluationRecord]],
    rows: list[dict[str, Any]],
) -> _Part | None:
    starts = [job.created_at, *(each.at for each in found if each.type == "job.continued")]
    start, following = starts[number], starts[number + 1 : number + 2]
    ends = [each for each in found if each.type in _ENDS and start <= each.at]
    ends = [each for each in ends if not following or each.at <= following[0]]
    if not ends:
        return None
    own = [row for row in rows if start <= row["started_at"] and not (following and row["started_at"] >= following[0])]
    # An iteration belongs to each part that wrote or evaluated its answer
    numbers = {row["iteration"] for row in own}
    iterations = [
        each for each in records if each.number in numbers or start <= each.created_at <= max(start, ends[-1].at)
    ]
    ids = {each.id for each in iterations}
    own_audits = [each for each in audits if each[0] in ids and each[1].job_id == job.id]
    return _Part(job, number, start, ends[-1], iterations, own_audits, own)


def _fill(trace: Trace, part: _Part, parent_id: int | None, *, with_content: bool) -> None:
    root = span_id_of(part.job.id, part.number)
    trace.spans.append(_job_span(part, root, parent_id, with_content=with_content))
    by_number: dict[int, list[IterationRecord]] = {}
    for record in part.iterations:
        by_number.setdefault(record.number, []).append(record)
    for number, candidates in by_number.items():
        own = [row for row in part.calls if row["iteration"] == number]
        trace.spans.append(_iteration_span(part, root, candidates, own))
    for row in part.calls:
        above = _iteration_id(part, row["iteration"]) if row["iteration"] in by_number else root
        trace.spans.append(_call_span(row, above, part.end.at, with_content=with_content))
    trace.events.extend(_evaluation_events(part, with_content=with_content))


def _iteration_id(part: _Part, number: int) -> int:
    return span_id_of(part.job.id, part.number, number)


def _job_span(part: _Part, span_id: int, parent_id: int | None, *, with_content: bool) -> Span:
    job, result = part.job, _mapping(part.end.data.get("result"))
    error = _mapping(part.end.data.get("error")).get("code")
    status = part.end.data.get("status")
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.agent.name": "redraft",
        "gen_ai.usage.input_tokens": sum(row["input_tokens"] or 0 for row in part.calls),
        "gen_ai.usage.output_tokens": sum(row["output_tokens"] or 0 for row in part.calls),
        "redraft.job.id": job.id,
        "redraft.job.kind": job.kind,
        "redraft.job.status": status,
        "redraft.job.stop_reason": part.end.data.get("stop_reason"),
        "redraft.job.continuation": part.number,
        "redraft.job.success": result.get("success"),
        "redraft.job.score": result.get("final_score"),
        "redraft.job.iterations": result.get("total_iterations"),
        "redraft.run.id": job.run_id,
        "error.type": error,
    }
    if with_content:
        attributes["gen_ai.input.messages"] = _messages([_message("user", job.request.get("instruct"))])
        attributes["gen_ai.output.messages"] = _messages([_message("assistant", result.get("final_answer"))])
    failed = error or "error" if status == "failed" else None
    return Span("invoke_workflow redraft", span_id, parent_id, part.start, part.end.at, attributes, failed)


def _iteration_span(
    part: _Part, root: int, candidates: Sequence[IterationRecord], rows: Sequence[Mapping[str, Any]]
) -> Span:
    number = candidates[0].number
    scored = [each.evaluation for each in candidates if each.evaluation and each.evaluation.score is not None]
    best = max(scored, key=lambda each: each.score or 0.0, default=None)
    attributes = {
        "redraft.iteration.number": number,
        "redraft.iteration.candidates": len(candidates),
        "redraft.iteration.score": best and best.score,
        "redraft.iteration.passed": best and best.passed,
    }
    starts = [row["started_at"] for row in rows] or [max(part.start, candidates[0].created_at)]
    ends = [_end_of(row, part.end.at) for row in rows] or starts
    return Span(f"iteration {number}", _iteration_id(part, number), root, min(starts), max(ends), attributes)


def _end_of(row: Mapping[str, Any], otherwise: datetime) -> datetime:
    return max(row["started_at"], row["finished_at"] or otherwise)


def _call_span(row: Mapping[str, Any], parent_id: int, otherwise: datetime, *, with_content: bool) -> Span:
    request, response = _mapping(row["request"]), _mapping(row["response"])
    model = parse_model(row["model"]).name
    has_failed = row["status"] in {"error", "unknown", "started"}
    error = _mapping(row["error"]).get("code") or "worker_lost" if has_failed else None
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": row["provider"],
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": request.get("max_completion_tokens") or request.get("max_tokens"),
        "gen_ai.request.temperature": request.get("temperature"),
        "gen_ai.request.top_p": request.get("top_p"),
        "gen_ai.request.seed": request.get("seed"),
        "gen_ai.response.id": response.get("id"),
        "gen_ai.response.model": response.get("model"),
        "gen_ai.response.finish_reasons": [row["finish_reason"]] if row["finish_reason"] else None,
        "gen_ai.usage.input_tokens": row["input_tokens"],
        "gen_ai.usage.output_tokens": row["output_tokens"],
        "gen_ai.usage.cache_read.input_tokens": row["cached_input_tokens"],
        "gen_ai.usage.cache_creation.input_tokens": row["cache_write_tokens"],
        "gen_ai.usage.reasoning.output_tokens": row["reasoning_tokens"],
        "http.response.status_code": row["http_status"],
        "error.type": error,
        "redraft.call.id": row["id"],
        "redraft.call.type": row["type"],
        "redraft.call.candidate": row["candidate"],
        "redraft.call.attempt": row["attempt"],
        "redraft.call.cached": row["cached"],
        "redraft.call.cost_usd": None if row["cost_nano_usd"] is None else row["cost_nano_usd"] / _NANO,
    }
    if with_content:
        system = request.get("system")
        sent = cast("list[Any]", request.get("messages") or [])
        attributes["gen_ai.system_instructions"] = _messages(_parts(system)) if system else None
        attributes["gen_ai.input.messages"] = _messages([_message(each["role"], each.get("content")) for each in sent])
        attributes["gen_ai.output.messages"] = _messages([_message("assistant", row["reply_text"])])
    end = _end_of(row, otherwise)
    return Span(f"chat {model}", span_id_of(row["id"]), parent_id, row["started_at"], end, attributes, error, True)


def _evaluation_events(part: _Part, *, with_content: bool) -> Iterator[EvaluationEvent]:
    by_id = {each.id: each for each in part.iterations}
    verdicts = [(each, each.evaluation) for each in part.iterations if each.evaluation]
    verdicts += [(by_id[iteration_id], evaluation) for iteration_id, evaluation in part.audits]
    for record, evaluation in verdicts:
        rows = [row for row in part.calls if row["iteration"] == record.number]
        written = [row for row in rows if row["type"] == "generate" and row["candidate"] == record.candidate]
        answered = next((row for row in reversed(written) if row["status"] == "ok"), None)
        # The event belongs to the call whose answer it is about
        span_id = span_id_of(answered["id"]) if answered else _iteration_id(part, record.number)
        at = max((_end_of(row, part.end.at) for row in rows), default=part.end.at)
        common = {
            "gen_ai.response.id": _mapping(answered["response"]).get("id") if answered else None,
            "redraft.job.id": part.job.id,
            "redraft.iteration.number": record.number,
            "redraft.call.candidate": record.candidate,
            "redraft.evaluation.id": evaluation.id,
            "redraft.evaluation.role": evaluation.role or "loop",
            "redraft.evaluation.evaluator_model": evaluation.evaluator_model,
        }
        for attributes in _results(evaluation, with_content=with_content):
            yield EvaluationEvent(span_id, at, {**attributes, **common})


def _results(evaluation: EvaluationRecord, *, with_content: bool) -> Iterator[dict[str, Any]]:
    """Yield the attributes of the verdict, and of the result for each criterion."""
    explanation = evaluation.reasoning if with_content else None
    error = _mapping(evaluation.error).get("code") if evaluation.status == "error" else None
    score, passed = evaluation.score, None if error else evaluation.passed
    yield {**_result(evaluation.profile, score, passed, explanation), "error.type": error}
    for each in evaluation.criteria or ():
        name = f"{evaluation.profile}.{each['id']}"
        yield _result(name, each["score"], each["passed"], each["gap"] if with_content else None)


def _result(name: str, score: float | None, passed: bool | None, explanation: str | None) -> dict[str, Any]:  # noqa: FBT001
    return {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": score,
        "gen_ai.evaluation.score.label": None if passed is None else ("pass" if passed else "fail"),
        "gen_ai.evaluation.explanation": _shown(explanation) if explanation else None,
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "parts": _parts(content)}


def _parts(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a message. An image or a document becomes a part with only its type."""
    if isinstance(content, list):
        members = [_mapping(each) for each in cast("list[Any]", content)]
        return [
            {"type": "text", "content": _shown(each["text"])} if "text" in each else {"type": str(each.get("type"))}
            for each in members
        ]
    return [{"type": "text", "content": _shown(content)}] if isinstance(content, str) else []


def _shown(text: str) -> str:
    return redact(text[:_TEXT_MAX])


def _messages(messages: list[dict[str, Any]]) -> str:
    return json.dumps(messages, ensure_ascii=False)
