"""Plans model calls, and describes their outcomes. `call_outcomes.py` makes the calls."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic_core import to_json

from redraft.domain.calls.conversation import Chat, LimitOrigin, Prompt, SamplingParameters
from redraft.domain.calls.model_names import parse_model
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.job_errors import TRUNCATED, job_error
from redraft.domain.jobs.states import Step
from redraft.domain.text.cleaning import clean
from redraft.errors import ProviderError
from redraft.operations.services import Services
from redraft.providers.shared.output_limits import limit_name_in
from redraft.providers.shared.protocol import Usage, without_cache_marks
from redraft.storage.jobs.calls import SlotKey

# The number of a speculative generation. An ordinary generation and its repair have the numbers 0 and 1, and the repair
# of the speculative generation has the number 3
SPECULATIVE_SEQ = 2


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
    is_batch: bool = False
    """Whether the call is or becomes part of a batch."""


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


def plan_call(  # noqa: PLR0913 - the facts of a row
    services: Services,
    slot: Slot,
    kind: str,
    chat: Chat,
    *,
    token: int,
    attempt: int,
    is_cached: bool = False,
    is_batch: bool = False,
) -> PlannedCall:
    """Plan a call with its row for the ledger. With `is_cached`, it may use and fill the reply cache."""
    # A batch delivers only whole replies
    if is_batch:
        chat = replace(chat, stream=False)
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
    return PlannedCall(slot, chat, body, row, is_batch)


def _cache_key(chat: Chat, body: Mapping[str, Any], slot: Slot) -> str:
    """Return the key of the reply cache. Other candidates and retries have other keys, so that their replies differ."""
    # The marks for the provider's cache do not change the reply
    sent = without_cache_marks(body)
    return hashlib.sha256(to_json([str(chat.model), sent, slot.candidate, slot.seq])).hexdigest()


def sent_limit(body: Mapping[str, Any]) -> int | None:
    """Return the output limit in a request body in tokens, or None."""
    return body.get(limit_name_in(body) or "")


def may_have_cost(http_status: int | None) -> bool:
    """Whether the provider may charge for a failed call. Errors and redirects are free."""
    return http_status is None or http_status < 300


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
