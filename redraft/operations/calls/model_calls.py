"""Plans a model call, makes it, and returns its outcome for the ledger."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic_core import to_json

from redraft.domain.calls.conversation import Chat, LimitOrigin, Prompt, SamplingParameters
from redraft.domain.calls.model_names import parse_model
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.job_errors import TRUNCATED, job_error
from redraft.domain.jobs.states import Step
from redraft.domain.text.answer_stream import AnswerStream
from redraft.domain.text.cleaning import clean
from redraft.domain.text.thinking import answer_in
from redraft.errors import ProviderError
from redraft.operations.calls.attached_files import files_of
from redraft.operations.calls.step_work import ModelCall, Work
from redraft.operations.services import Services
from redraft.providers.shared.capabilities import loose_form, parameters_not_sent
from redraft.providers.shared.output_limits import limit_name_in
from redraft.providers.shared.protocol import ChatReply, UnusableReply, Usage, without_cache_marks
from redraft.providers.shared.replies import REASONING_ONLY
from redraft.providers.shared.schemas import schema_in, unwrapped, why_not_strict, wraps
from redraft.redaction import redact_known, redact_known_values
from redraft.storage.jobs import calls
from redraft.storage.jobs.calls import SlotKey

# The number of a speculative generation, after an ordinary generation and its repair. Its own repair has the next
SPECULATIVE_SEQ = 2
_CUT_CODES = frozenset({TRUNCATED, "context_too_long"})


@dataclass(frozen=True, slots=True)
class Slot:
    """The position of a call in its job. At most one reply per slot is used.

    A draft has no job, so its `job_id` is empty, and `iteration` and `candidate` are 0.
    """

    job_id: str
    step: Step | Literal["draft"]
    iteration: int
    candidate: int
    seq: int

    @property
    def is_speculative(self) -> bool:
        """Whether the call generates an answer before the evaluation of the answers before it."""
        return self.step == Step.GENERATE and self.seq >= SPECULATIVE_SEQ

    @property
    def key(self) -> SlotKey:
        """The position of the call among the calls of the same type of step."""
        return self.iteration, self.candidate, self.seq


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call before it is made. `row` is the row that reserves it in the ledger."""

    slot: Slot
    chat: Chat
    body: Mapping[str, Any]
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CutReply:
    """A reply that was cut off at its output limit. `limit` is in tokens; None if it is unknown."""

    text: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call: a text, or an error.

    Attributes:
        call_id: the id of the call; None if an earlier lease holder of the step made it.
        row_update: the values that close the row of the call in the ledger; None if the row is closed.
        came_second: whether the ledger already has another reply for the slot, which is used instead.
        cut: the text of a reply that was cut off; `error` has the reason.
        loose_schema: the form of the sent schema and the reason for it, if the provider does not enforce the schema.
        not_sent: the sampling parameters that were left out, because the model or its API does not accept them.
    """

    slot: Slot
    text: str | None
    finish_reason: str | None
    error: ProviderError | None
    call_id: str | None = None
    row_update: Mapping[str, Any] | None = None
    usage: Mapping[str, int] | None = None
    seconds: float = 0.0
    model: str = ""
    is_cached: bool = False
    came_second: bool = False
    cut: CutReply | None = None
    loose_schema: str | None = None
    not_sent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt and its model, before the output limit is known."""

    prompt: Prompt
    model: str
    parameters: SamplingParameters = field(default_factory=SamplingParameters)
    max_output_tokens: int | None = None
    stream: bool = False
    limit_origin: LimitOrigin | None = None

    def as_chat(self, max_output_tokens: int | None) -> Chat:
        origin = self.limit_origin or (LimitOrigin() if max_output_tokens else None)
        return Chat(
            model=parse_model(self.model),
            system=self.prompt.system,
            messages=self.prompt.messages,
            reply_schema=self.prompt.reply_schema,
            max_output_tokens=max_output_tokens,
            stream=self.stream,
            limit_origin=origin,
            **self.parameters,
        )


def plan_call(
    services: Services, slot: Slot, kind: str, chat: Chat, *, token: int, attempt: int, is_cached: bool = False
) -> PlannedCall:
    """Plan a call with its row for the ledger. With `is_cached`, it may use and fill the reply cache."""
    body = services.providers.get(chat.model).wire_body(chat)
    row = {
        "id": new_id("call"),
        "job_id": slot.job_id or None,
        "type": kind,
        "step": str(slot.step),
        "iteration": slot.iteration,
        "candidate": slot.candidate,
        "seq": slot.seq,
        "attempt": attempt,
        "lease_token": token,
        "provider": chat.model.provider,
        "model": str(chat.model),
        "status": "started",
        "request": body,
        "cache_key": _cache_key(chat, body, slot) if is_cached else None,
    }
    return PlannedCall(slot, chat, body, row)


def _cache_key(chat: Chat, body: Mapping[str, Any], slot: Slot) -> str:
    """Return the key of the reply cache. Other candidates and retries have other keys, so that their replies differ."""
    sent = without_cache_marks(body)
    return hashlib.sha256(to_json([str(chat.model), sent, slot.candidate, slot.seq])).hexdigest()


def make_call(
    services: Services, planned: PlannedCall, *, timeout_s: float, on_delta: Callable[[str], None] | None = None
) -> Work[Outcome]:
    """Call the provider once, unless the cache has the reply. A provider's failure is an outcome, not an exception."""
    started_at = time.monotonic()
    found = _reusable(services, planned)
    if found is not None:
        if on_delta:
            on_delta(found["reply_text"])
        return _reused(planned, found, time.monotonic() - started_at)
    is_wrapped = wraps(schema_in(planned.body))
    stream = AnswerStream(on_delta) if on_delta and not is_wrapped else None
    model, origin = planned.chat.model, planned.chat.limit_origin
    call = ModelCall(services.providers.get(model), planned.body, timeout_s, stream, origin)
    try:
        services.providers.prepare(model)
        call.files = files_of(services, planned.slot.job_id, planned.body)
        reply = yield call
        answered = _answered(planned, reply, stream, on_delta, is_wrapped=is_wrapped)
    except ProviderError as error:
        return _failed(services, planned, error, call.seconds)
    return _succeeded(services, planned, answered, call.seconds)


def _answered(
    planned: PlannedCall,
    reply: ChatReply,
    stream: AnswerStream | None,
    on_delta: Callable[[str], None] | None,
    *,
    is_wrapped: bool,
) -> ChatReply:
    """Return a generator's reply without its thinking. `verdict_parsing` removes the thinking of evaluators.

    Raises:
        UnusableReply: the reply has only thinking.
    """
    if planned.slot.step != Step.GENERATE:
        return reply
    answer = answer_in(reply.text)
    if not answer.strip():
        raise UnusableReply("empty_output", REASONING_ONLY, replace(reply, text=""))
    if is_wrapped:
        answer = unwrapped(answer)
    if stream is not None:
        stream.finish(reply.text)
    elif on_delta is not None:
        on_delta(answer)
    return replace(reply, text=answer)


def _reusable(services: Services, planned: PlannedCall) -> dict[str, Any] | None:
    if (key := planned.row["cache_key"]) is None:
        return None
    with services.database.read() as connection:
        return calls.find_reusable(connection, key)


def _reused(planned: PlannedCall, found: Mapping[str, Any], seconds: float) -> Outcome:
    text, finish_reason = found["reply_text"], found["finish_reason"]
    row_update = {
        "status": "ok",
        "cached": True,
        "response": found["response"],
        "reply_text": text,
        "finish_reason": finish_reason,
        "latency_ms": round(seconds * 1000),
        "cost_nano_usd": 0,
    }
    return Outcome(
        planned.slot,
        text,
        finish_reason,
        None,
        call_id=planned.row["id"],
        row_update=row_update,
        usage={"calls": 1},
        seconds=seconds,
        model=str(planned.chat.model),
        is_cached=True,
        loose_schema=_loose_schema(planned),
        not_sent=parameters_not_sent(planned.chat, planned.body),
    )


def _succeeded(services: Services, planned: PlannedCall, reply: ChatReply, seconds: float) -> Outcome:
    spent = _Spent(services, planned, reply.usage)
    text = clean(redact_known(reply.text))
    row_update = {
        "status": "ok",
        "response": redact_known_values(reply.response),
        "reply_text": text,
        "http_status": reply.http_status,
        "response_headers": redact_known_values(reply.headers),
        "finish_reason": storable_reason(reply.finish_reason),
        "latency_ms": round(seconds * 1000),
        **spent.columns,
    }
    return Outcome(
        planned.slot,
        text,
        reply.finish_reason,
        None,
        call_id=planned.row["id"],
        row_update=row_update,
        usage=spent.sums,
        seconds=seconds,
        model=str(planned.chat.model),
        loose_schema=_loose_schema(planned),
        not_sent=parameters_not_sent(planned.chat, planned.body),
    )


def _failed(services: Services, planned: PlannedCall, error: ProviderError, seconds: float) -> Outcome:
    unusable = error if isinstance(error, UnusableReply) else None
    spent = _Spent(services, planned, unusable.usage if unusable else Usage())
    cut = _cut_reply(planned.body, unusable)
    row_update = {
        "status": "error",
        "response": redact_known_values(error.response),
        "reply_text": cut.text if cut else None,
        "http_status": error.http_status,
        "response_headers": redact_known_values(error.headers),
        "finish_reason": storable_reason(unusable.finish_reason) if unusable else None,
        "latency_ms": round(seconds * 1000),
        "error": job_error(
            error.code,
            error.message,
            model=str(planned.chat.model),
            iteration=planned.slot.iteration or None,
            attempts=planned.row["attempt"],
        )
        # The next attempt of the step repeats the call without the refused part
        | ({"retryable": True} if error.is_adapted else {}),
        **spent.columns,
    }
    sums = spent.sums if unusable or may_have_cost(error.http_status) else {"calls": 1}
    return Outcome(
        planned.slot,
        None,
        None,
        error,
        call_id=planned.row["id"],
        row_update=row_update,
        usage=sums,
        seconds=seconds,
        model=str(planned.chat.model),
        cut=cut,
    )


def _cut_reply(body: Mapping[str, Any], reply: UnusableReply | None) -> CutReply | None:
    """Return the text of a reply that was cut off at its output limit or at the end of the model's context."""
    if reply is None or reply.code not in _CUT_CODES:
        return None
    limit = sent_limit(body) if reply.code == TRUNCATED else None
    return CutReply(clean(redact_known(reply.text)), limit or reply.usage.output_tokens)


def sent_limit(body: Mapping[str, Any]) -> int | None:
    """Return the output limit in a request body in tokens, or None."""
    return body.get(limit_name_in(body) or "")


def may_have_cost(http_status: int | None) -> bool:
    """Whether the provider may charge for a failed call. Errors and redirects are free."""
    return http_status is None or http_status < 300


class _Spent:
    """The cost of a reply, for the columns of its row and for the sums of its job."""

    def __init__(self, services: Services, planned: PlannedCall, usage: Usage) -> None:
        cost = services.providers.price(planned.chat.model, usage)
        self.columns = {
            **asdict(usage),
            "cost_nano_usd": cost,
        }
        self.sums = {
            "calls": 1,
            **{name: count or 0 for name, count in asdict(usage).items()},
            "cost_nano_usd": cost or 0,
            "unpriced_calls": int(cost is None),
        }


def loose_schemas(outcomes: Iterable[Outcome]) -> list[dict[str, str]]:
    """Return warnings about answers whose schema the provider did not enforce."""
    found = dict.fromkeys((o.model, o.loose_schema) for o in outcomes if o.text is not None and o.loose_schema)
    return [
        {
            "code": "schema_not_enforced",
            "message": f"{model} got the answer's schema {how}; code checks the answer.",
        }
        for model, how in found
    ]


def parameters_left_out(outcomes: Iterable[Outcome]) -> list[dict[str, str]]:
    """Return warnings about sampling parameters that a model does not accept."""
    found = dict.fromkeys((o.model, name) for o in outcomes if o.text is not None for name in o.not_sent)
    return [
        {"code": "parameter_not_sent", "message": f"{model} does not accept {name}, so it was called without it."}
        for model, name in found
    ]


def _loose_schema(planned: PlannedCall) -> str | None:
    schema = planned.chat.reply_schema
    how = loose_form(planned.chat, planned.body) if planned.slot.step == Step.GENERATE else None
    if schema is None or how is None:
        return None
    why = why_not_strict(schema.schema)
    return f"{how}, since {f'strict mode would narrow it: {why}' if why else 'its server takes no strict schema'}"


def storable_reason(finish_reason: str | None) -> str | None:
    """Cut a finish reason to the length of its column, because a server may send any text."""
    return clean(finish_reason)[:40] if finish_reason else None


def unsent(planned: PlannedCall) -> Outcome:
    """Return the outcome of a reserved call that was never sent. The failure is transient: the next worker sends it."""
    words = "This call was reserved and never sent: its worker had lost the job by then."
    error = {**job_error("worker_lost", words, model=str(planned.chat.model)), "retryable": True}
    nothing = dict.fromkeys((*asdict(Usage()), "cost_nano_usd"), 0)
    row_update = {"status": "error", "error": error, **nothing}
    return Outcome(planned.slot, None, None, None, call_id=planned.row["id"], row_update=row_update, usage={"calls": 1})


def recorded_outcome(slot: Slot, row: Mapping[str, Any]) -> Outcome:
    """Return the outcome that the ledger already has."""
    if row["status"] == "ok":
        return Outcome(slot, row["reply_text"], row["finish_reason"], None, model=row["model"])
    error = row["error"]
    limit = sent_limit(row["request"]) if error["code"] == TRUNCATED else None
    cut = None if row["reply_text"] is None else CutReply(row["reply_text"], limit or row["output_tokens"])
    return Outcome(slot, None, None, ProviderError(error["code"], error["detail"]), cut=cut)
