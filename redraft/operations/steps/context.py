"""Shared by all steps: the context of a claimed step, its calls, and its possible results."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

import structlog
from sqlalchemy import Connection

from redraft.domain.calls.backoff import retry_wait_s
from redraft.domain.calls.conversation import Chat
from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.requests import AnyRequest, GenerateAnswer
from redraft.domain.jobs.states import Step, StopReason
from redraft.domain.loop.attempts import Attempt
from redraft.domain.loop.rules import Rules
from redraft.errors import ProviderError, Unavailable
from redraft.messages import StepMessage
from redraft.operations.calls.budgets import Spent, plan_within, spent_of, with_planned
from redraft.operations.calls.call_outcomes import make_call
from redraft.operations.calls.ledger import RECORD_REPLY_S, close_calls, record_outcomes, stored, sum_usage
from redraft.operations.calls.model_calls import Ask, Outcome, PlannedCall, Slot, plan_call, recorded_outcome, unsent
from redraft.operations.calls.step_work import CallsParked, Work
from redraft.operations.fault_points import FaultPoint, reached
from redraft.operations.request_views import rules_of, step_iteration
from redraft.operations.results.job_results import Event, attempts_of, ending, event
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from redraft.providers.shared.protocol import ADAPTATIONS_MAX
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs import calls, transitions
from redraft.storage.jobs.calls import SlotKey
from redraft.storage.jobs.history import IterationRecord
from redraft.storage.jobs.jobs import JobRecord

log = structlog.get_logger()

_NEXT_STEP: dict[str, Any] = {"step_attempt": 0, "step_claims": 0, "lost_leases": 0, "rung_at": DbNow()}

CLAIMED: dict[str, Any] = {"step_claims": 1}
"""The column that gets another value if the worker of the previous step also claims the next step."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """A claimed step: its job, the iterations so far, and the replies that earlier lease holders recorded."""

    services: Services
    holder: LeaseHolder
    job: JobRecord
    request: AnyRequest
    records: tuple[IterationRecord, ...]
    recorded: Mapping[SlotKey, Mapping[str, Any]]
    deadline: float
    """The time of the deadline by `services.clock`."""
    spent: Spent | None = None
    """The spending of the job; None if it has no budget."""
    width: int | None = None
    """The maximum number of concurrent calls; None if there is no limit."""
    found: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """The results of functions that are computed once per step, by name."""
    sent: set[str] = field(default_factory=set[str], compare=False)
    """The ids of calls that were sent. The other calls were only reserved, and cost nothing."""
    parked: list[PlannedCall] = field(default_factory=list[PlannedCall], compare=False)
    """The planned retries for the next batch."""
    turn: Lock = field(default_factory=Lock, compare=False)
    """Locked while a retry is planned. Otherwise the retries of several candidates could together exceed the budget."""

    @property
    def is_batch(self) -> bool:
        """Whether the calls are delivered by batches."""
        return self.job.delivery == "batch"

    @property
    def attempts(self) -> list[Attempt]:
        return attempts_of(self.request, self.records)

    @property
    def rules(self) -> Rules:
        return rules_of(self.job, self.request, self.services.profiles)

    @property
    def attempt_no(self) -> int:
        return self.job.step_attempt + 1

    def remaining_s(self) -> float:
        return self.deadline - self.services.clock.monotonic()

    def call_timeout_s(self) -> float:
        return max(0.001, min(self.services.settings.call_timeout_s, self.remaining_s()))


class LeaseLost(Unavailable):
    """Another worker has the lease of the step, or its job has ended. No further call may be sent."""

    def __init__(self) -> None:
        super().__init__("The lease was lost: another worker has the step, or the job has ended.", code="lease_lost")


def _write_nothing(_connection: Connection) -> None:
    pass


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step: the job's new columns, and the rows and events that are stored with them.

    `values` is None if the lease was lost. Then only the ledger is changed.
    """

    outcomes: Sequence[Outcome]
    values: Mapping[str, Any] | None
    events: Sequence[Event] = ()
    write: Callable[[Connection], None] = _write_nothing
    next_step: Step | None = None
    records: tuple[IterationRecord, ...] = ()
    """All iterations, as the next step reads them. Empty if there is no next step."""


Watched = AbstractContextManager[Callable[[StepResult], object]]
"""The context in which a step is executed. It yields a function that gets the result after it was stored."""

Watch = Callable[[StepMessage], Watched]


def unwatched(_message: StepMessage) -> Watched:
    """Return the context of a step that is not monitored."""
    return nullcontext(lambda _stored: None)


def retry(
    step: StepContext, after: Outcome, planner: Callable[[StepContext], PlannedCall]
) -> tuple[Outcome, PlannedCall] | None:
    """Plan and reserve a retry within the remaining budget; None if the lease was lost.

    Raises:
        BudgetExhausted: the retry could exceed the remaining budget.
        ProviderError: the retry cannot be planned.
        CallsParked: the retry goes into a batch.
    """
    with step.turn:
        if step.spent is not None:
            with step.services.database.read() as connection:
                spent = spent_of(connection, step.services, step.job, step.request.limits)
            step = replace(step, spent=with_planned(step.services, spent, step.parked))
        planned = planner(step)
        if step.is_batch:
            step.parked.append(planned)
            _record(step, after)
            raise CallsParked
        stored = reserve_more(step, after, planned)
    return None if stored is None else (stored, planned)


def not_to_reuse(outcome: Outcome) -> Outcome:
    """Keep an unusable reply out of the reply cache, so that an identical call is sent again."""
    return replace(outcome, row_update={**outcome.row_update, "is_reusable": False}) if outcome.row_update else outcome


def reserve_more(step: StepContext, after: Outcome, planned: PlannedCall) -> Outcome | None:
    """Reserve a further call within the step, and store the previous outcome in the same unit of work.

    Returns:
        The outcome `after` as it is stored in the ledger now; None if no further call may be made.
    """
    if not step.holder.may_call(step.job.id, step.job.lease_token):
        return None

    def work(connection: Connection) -> bool:
        if not transitions.holds_lease(connection, step.job.id, step.job.lease_token):
            return False
        if after.call_id and after.row_update:
            closed = close_calls(connection, [after])
            if not closed or closed[0].status == "dup":
                return False
            transitions.add_usage(connection, step.job.id, after.usage or {})
        calls.open_calls(connection, [planned.row])
        return True

    is_reserved = step.services.database.persist(work, for_s=RECORD_REPLY_S)
    return stored(after) if is_reserved else None


def plan(step: StepContext, slot: Slot, kind: str, ask: Ask, *, calls_at_once: int = 1) -> PlannedCall:
    """Plan a call of this step within the job's budget.

    Raises:
        BudgetExhausted: the call could cost more than the remaining budget.
    """

    def with_limit(tokens: int | None) -> PlannedCall:
        return _planned(step, slot, kind, ask.as_chat(tokens))

    asked = ask.max_output_tokens
    if step.spent is None:
        return with_limit(asked)
    return plan_within(step.services, step.spent, step.request.limits, with_limit, asked=asked, calls=calls_at_once)


def _planned(step: StepContext, slot: Slot, kind: str, chat: Chat) -> PlannedCall:
    facts: dict[str, Any] = {"token": step.job.lease_token, "attempt": step.attempt_no, "is_batch": step.is_batch}
    return plan_call(step.services, slot, kind, chat, **facts, is_cached=step.request.cache == "use")


def outcomes_of(
    step: StepContext,
    slot: Slot,
    planned: Mapping[Slot, PlannedCall],
    on_delta: Callable[[str], None] | None = None,
) -> Work[tuple[Outcome, ...]]:
    """Return the recorded outcome of a slot, or make its reserved call (stage 4). The last outcome counts.

    Raises:
        LeaseLost: the call may not be sent any more.
        LookupError: the slot was neither recorded nor reserved.
    """
    if slot in planned:
        return (yield from call(step, planned[slot], on_delta))
    row = step.recorded.get(slot.key)
    if row is None:
        raise LookupError(f"Slot {slot} was neither recorded nor reserved.")
    return (recorded_outcome(slot, row),)


def record_one_of(
    step: StepContext, planned: Mapping[Slot, PlannedCall], made: tuple[Outcome, ...]
) -> tuple[Outcome, ...]:
    """Record an outcome at once if the step makes several calls, so that a crash repeats only calls in flight."""
    *before, last = made
    return made if len(planned) <= 1 else (*before, _record(step, last))


def _record(step: StepContext, outcome: Outcome) -> Outcome:
    """Close the call of an outcome at once, unless it is closed."""
    if not outcome.row_update:
        return outcome
    work = partial(record_outcomes, job_id=step.job.id, outcomes=[outcome])
    closed = step.services.database.persist(work, for_s=RECORD_REPLY_S)
    reached(FaultPoint.KEPT, step.job.id)
    return stored(outcome, closed)


def call(
    step: StepContext, planned: PlannedCall, on_delta: Callable[[str], None] | None = None
) -> Work[tuple[Outcome, ...]]:
    """Make a reserved call, and repeat it without each parameter that the provider refuses.

    Returns:
        The outcomes of all calls; the last one counts.

    Raises:
        LeaseLost: the call may not be sent any more.
    """
    made: list[Outcome] = []
    while True:
        _ensure_ours(step, planned)
        timeout_s = step.call_timeout_s()
        made.append((yield from make_call(step.services, planned, timeout_s=timeout_s, on_delta=on_delta)))
        error = made[-1].error
        if error is None or not error.is_adapted or len(made) > ADAPTATIONS_MAX:
            return tuple(made)
        planned = _planned(step, planned.slot, planned.row["type"], planned.chat)
        stored = reserve_more(step, made[-1], planned)
        if stored is None:
            # The refusal is no result of the step. The next lease holder sends the call without the parameter
            raise LeaseLost
        made[-1] = stored


def _ensure_ours(step: StepContext, planned: PlannedCall) -> None:
    """Check the lease in the database unless it was checked recently, because the process may have been suspended."""
    job = step.job
    if not step.holder.is_fresh(job.id, job.lease_token):
        ensure = partial(step.holder.ensure, job_id=job.id, token=job.lease_token)
        if not step.services.database.persist(ensure, for_s=RECORD_REPLY_S):
            close_unsent(step, [planned])
            raise LeaseLost
    step.sent.add(planned.row["id"])


def close_unsent(step: StepContext, planned: Sequence[PlannedCall]) -> None:
    """Close reserved calls that were never sent, at no cost."""
    outcomes = [unsent(call) for call in planned if call.row["id"] not in step.sent]
    step.services.database.persist(
        partial(record_outcomes, job_id=step.job.id, outcomes=outcomes), for_s=RECORD_REPLY_S
    )


def go_on(
    step: StepContext,
    outcomes: Sequence[Outcome],
    next_step: Step,
    *,
    records: tuple[IterationRecord, ...],
    events: Sequence[Event],
    write: Callable[[Connection], None],
    **values: Any,
) -> StepResult:
    """End the step with a next step that is due now."""
    columns = {**_NEXT_STEP, "step": next_step.value, "step_no": step.job.step_no + 1, **values}
    return StepResult(outcomes, columns, events, write, next_step, records)


def message_of(job: JobRecord) -> StepMessage:
    """The message that notifies workers of the job's current step."""
    return StepMessage(Step(job.step), job.id, job.step_no, job.run_id is not None)


def message_after(step: StepContext, result: StepResult) -> StepMessage | None:
    """Return the message that notifies workers of the next step. None if the job has ended."""
    if result.next_step is None:
        return None
    return StepMessage(result.next_step, step.job.id, step.job.step_no + 1, step.job.run_id is not None)


def follow(step: StepContext, result: StepResult) -> StepContext:
    """Return the context of the next step for the same worker. A claim would load an equal context."""
    plain = {name: value for name, value in (result.values or {}).items() if not isinstance(value, DbNow)}
    sums = {name: getattr(step.job, name) + amount for name, amount in sum_usage(result.outcomes).items()}
    # The start of another iteration is an event, too
    count = len(result.events) + (result.next_step is Step.GENERATE)
    counters = {"lease_token": step.job.lease_token + 1, "event_seq": step.job.event_seq + count}
    job = replace(step.job, **{**plain, **sums, **CLAIMED, **counters})
    return replace(step, job=job, records=result.records, recorded={}, found={}, sent=set(), width=None)


def notify(services: Services, message: StepMessage) -> None:
    """Try to notify the workers after the commit (stage 6). The sweeper repeats lost messages."""
    if services.queue.notify(message):
        reached(FaultPoint.NOTIFIED, message.job_id)
        return
    try:
        with services.database.write() as connection:
            transitions.mark_unnotified(connection, message.job_id)
    except Unavailable as error:
        log.warning("step_not_marked_as_unnotified", job_id=message.job_id, reason=error.message)


def reschedule(step: StepContext, outcomes: Sequence[Outcome], error: ProviderError) -> StepResult | None:
    """Reschedule the step after a transient failure, so that no thread waits. None if no attempt or time is left."""
    settings = step.services.settings
    first_s, max_s = settings.retry_wait_s, settings.retry_wait_max_s
    wait_s = retry_wait_s(step.attempt_no, first_s=first_s, max_s=max_s, asked_s=error.retry_after_s)
    if step.attempt_no >= settings.step_attempts_max or wait_s >= step.remaining_s():
        return None
    retrying = event(
        "step.retrying",
        f"{error.message} Attempt {step.attempt_no} of {settings.step_attempts_max}; trying again in {wait_s:.1f} s.",
        step=step.job.step,
        iteration=step_iteration(step.job),
        code=error.code,
        attempt=step.attempt_no,
        wait_s=round(wait_s, 3),
        seconds=round(max((outcome.seconds for outcome in outcomes), default=0.0), 3),
        withdrawn=isinstance(step.request, GenerateAnswer) and step.request.stream and step.job.step == Step.GENERATE,
    )
    values = {"step_attempt": step.attempt_no, "available_at": DbNow(round(wait_s, 3)), "rung_at": None}
    return StepResult(outcomes, values, [retrying])


def give_up(
    step: StepContext,
    outcomes: Sequence[Outcome],
    error: ProviderError,
    model: str,
    *,
    new_events: Sequence[Event] = (),
    write: Callable[[Connection], None] = _write_nothing,
    **columns: Any,
) -> StepResult:
    """End the job after a permanent failure, with the best answer so far and the results of this step."""
    late = error.retryable and step.remaining_s() <= 0
    detail = error.message + _beyond_deadline(error, step.remaining_s())
    reason = StopReason.DEADLINE_EXCEEDED if late else StopReason.ERROR
    facts = job_error(
        "deadline_exceeded" if late else error.code,
        f"The deadline passed while {model} was asked: {detail}" if late else detail,
        model=model,
        iteration=step_iteration(step.job),
        attempts=step.attempt_no,
    )
    end = ending(step.services.profiles, step.job, step.request, step.records, reason, facts)
    return StepResult(outcomes, {**end.values, **columns}, [*new_events, end.event], write)


def _beyond_deadline(error: ProviderError, remaining_s: float) -> str:
    """Return a sentence if the provider asked for a longer wait than the deadline allows, otherwise an empty text."""
    if not error.retryable or not 0 < remaining_s <= (error.retry_after_s or 0):
        return ""
    return f" That is longer than the {remaining_s:.0f} s that are left of limits.deadline_s; continue the job later."
