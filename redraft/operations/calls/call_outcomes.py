"""Makes a planned call, or reads its result in a batch, and returns its outcome for the ledger."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from redraft.domain.calls.conversation import Chat, LimitOrigin
from redraft.domain.calls.model_names import FREE_PROVIDER, parse_model
from redraft.domain.jobs.job_errors import TRUNCATED, job_error
from redraft.domain.jobs.states import Step
from redraft.domain.text.answer_stream import AnswerStream
from redraft.domain.text.cleaning import clean
from redraft.domain.text.thinking import answer_in
from redraft.errors import ProviderError
from redraft.operations.calls.attached_files import files_of
from redraft.operations.calls.model_calls import (
    CutReply,
    Outcome,
    PlannedCall,
    Slot,
    loose_schemas,
    may_have_cost,
    parameters_left_out,
    sent_limit,
    storable_reason,
)
from redraft.operations.calls.step_work import ModelCall, Work
from redraft.operations.services import Services
from redraft.providers.shared.capabilities import loose_form, parameters_not_sent
from redraft.providers.shared.protocol import ChatReply, NotExecuted, UnusableReply, Usage
from redraft.providers.shared.schemas import schema_in, unwrapped, why_not_strict, wraps
from redraft.redaction import redact_known, redact_known_values
from redraft.storage.jobs import calls

_NOTHING = Usage(0, 0, 0, 0, 0)
_CUT_CODES = frozenset({TRUNCATED, "context_too_long"})


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
    # A wrapped answer is part of a JSON text, so it is published only when the reply is whole
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


def batch_outcome(
    services: Services, row: Mapping[str, Any], read: Callable[[], ChatReply], *, is_last: bool
) -> Outcome:
    """Return the outcome of a call that a batch has delivered. It has no latency.

    Args:
        services: the services.
        row: the row of the call in the ledger.
        read: returns the reply, or raises the error of the call.
        is_last: whether a transient failure is the last one, after which the call is not made again.
    """
    slot = Slot(row["job_id"], Step(row["step"]), row["iteration"], row["candidate"], row["seq"])
    planned = PlannedCall(slot, Chat(parse_model(row["model"]), "", ()), row["request"], row, is_batch=True)
    try:
        reply = _answered(planned, read(), None, None, is_wrapped=wraps(schema_in(row["request"])))
    except ProviderError as error:
        outcome = _failed(services, planned, error, None)
        if not is_last or not outcome.row_update:
            return outcome
        # Stored as permanent, so that the next attempt of the step reads this failure instead of repeating the call
        final = {**outcome.row_update["error"], "retryable": False}
        return replace(outcome, row_update={**outcome.row_update, "error": final})
    return _succeeded(services, planned, reply, None)


def batch_warnings(planned: Iterable[PlannedCall]) -> list[dict[str, str]]:
    """Return warnings about calls of a batch that do not depend on their replies."""
    outcomes = [
        Outcome(call.slot, "", None, None, model=str(call.chat.model), **_differences(call)) for call in planned
    ]
    return [*loose_schemas(outcomes), *parameters_left_out(outcomes)]


def saved_by_batch(services: Services, outcome: Outcome) -> int:
    """Return the live price of a call in a batch minus its cost, in 1e-9 USD. 0 if a price is unknown."""
    row = outcome.row_update or {}
    usage = Usage(**{name: row.get(name) for name in asdict(Usage())})
    live, cost = services.providers.price(parse_model(outcome.model), usage), row.get("cost_nano_usd")
    return 0 if live is None or cost is None else live - cost


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
        words = "The reply has no text: reasoning only, or only tokens that end a turn."
        raise UnusableReply("empty_output", words, replace(reply, text=""))
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
        **_differences(planned),
    )


def _succeeded(services: Services, planned: PlannedCall, reply: ChatReply, seconds: float | None) -> Outcome:
    spent = _Spent(services, planned, reply.usage)
    text = clean(redact_known(reply.text))
    row_update = {
        "status": "ok",
        "response": redact_known_values(reply.response),
        "reply_text": text,
        "http_status": reply.http_status,
        "response_headers": redact_known_values(reply.headers),
        "finish_reason": storable_reason(reply.finish_reason),
        "latency_ms": _milliseconds(seconds),
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
        seconds=seconds or 0.0,
        model=str(planned.chat.model),
        **_differences(planned),
    )


def _failed(services: Services, planned: PlannedCall, error: ProviderError, seconds: float | None) -> Outcome:
    if error.code == TRUNCATED:
        error.reword(f"{error.message} {truncation_advice(planned.chat)}")
    unusable = error if isinstance(error, UnusableReply) else None
    # A call that was not executed has no usage. The usage of other failed calls is unknown
    unknown = _NOTHING if isinstance(error, NotExecuted) else Usage()
    spent = _Spent(services, planned, unusable.usage if unusable else unknown)
    cut = _cut_reply(planned.body, unusable)
    row_update = {
        "status": "error",
        "response": redact_known_values(error.response),
        "reply_text": cut.text if cut else None,
        "http_status": error.http_status,
        "response_headers": redact_known_values(error.headers),
        "finish_reason": storable_reason(unusable.finish_reason) if unusable else None,
        "latency_ms": _milliseconds(seconds),
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
    # A call that the provider refused has no cost, so it must not count as a call with an unknown cost
    sums = spent.sums if unusable or may_have_cost(error.http_status) else {"calls": 1}
    return Outcome(
        planned.slot,
        None,
        None,
        error,
        call_id=planned.row["id"],
        row_update=row_update,
        usage=sums,
        seconds=seconds or 0.0,
        model=str(planned.chat.model),
        cut=cut,
    )


def truncation_advice(chat: Chat) -> str:
    """Return advice to the user about a truncated reply."""
    setting = (chat.limit_origin or LimitOrigin()).setting
    # The default limit of a verdict of the local model is fixed, so no setting raises it
    is_fixed = setting.startswith("REDRAFT_") and chat.model.provider == FREE_PROVIDER
    return "Choose another model." if is_fixed else f"Raise {setting}."


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _cut_reply(body: Mapping[str, Any], reply: UnusableReply | None) -> CutReply | None:
    """Return the text of a reply that was cut off at its output limit or at the end of the model's context."""
    if reply is None or reply.code not in _CUT_CODES:
        return None
    limit = sent_limit(body) if reply.code == TRUNCATED else None
    return CutReply(clean(redact_known(reply.text)), limit or reply.usage.output_tokens)


class _Spent:
    """The cost of a reply, for the columns of its row and for the sums of its job."""

    def __init__(self, services: Services, planned: PlannedCall, usage: Usage) -> None:
        price = services.providers.price
        cost = 0 if usage == _NOTHING else price(planned.chat.model, usage, is_batch=planned.is_batch)
        counts = asdict(usage)
        self.columns = {**counts, "cost_nano_usd": cost}
        self.sums = {
            "calls": 1,
            **{name: count or 0 for name, count in counts.items()},
            "cost_nano_usd": cost or 0,
            "unpriced_calls": int(cost is None),
        }


def _differences(planned: PlannedCall) -> dict[str, Any]:
    """Return the fields of an outcome that say how the sent request differs from the wanted request."""
    return {
        "loose_schema": _loose_schema(planned),
        "not_sent": parameters_not_sent(planned.chat, planned.body),
    }


def _loose_schema(planned: PlannedCall) -> str | None:
    schema = planned.chat.reply_schema
    how = loose_form(planned.chat, planned.body) if planned.slot.step == Step.GENERATE else None
    if schema is None or how is None:
        return None
    why = why_not_strict(schema.schema)
    return f"{how}, since {f'strict mode would narrow it: {why}' if why else 'its server takes no strict schema'}"
