"""What both steps of a job share: claim, look into the memo, reserve, call, finish, ring.

A step is two units of work with a call between them. The claim takes a lease with a fresh token; the finish
moves the job only while that token is still the holder's. Whoever comes late changes no state, but the reply
it paid for is kept in the ledger.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from redraft.domain.failures import job_error
from redraft.domain.loop import Attempt, Rules
from redraft.domain.requests import AnyRequest, EvaluateAnswer, GenerateAnswer
from redraft.domain.states import JobKind, Step, StopReason
from redraft.domain.waits import retry_wait_s
from redraft.errors import ProviderError, Unavailable
from redraft.jobs import StepMessage
from redraft.operations.calling import Outcome, PlannedCall, Slot, make_call, remembered
from redraft.operations.endings import Event, ending, event
from redraft.operations.leases import LeaseHolder
from redraft.operations.services import Services
from redraft.storage import calls, events, history, jobs, moves
from redraft.storage.columns import DbNow
from redraft.storage.history import IterationRecord
from redraft.storage.jobs import JobRecord

log = structlog.get_logger()

T = TypeVar("T")

_NEXT_STEP: dict[str, Any] = {
    "step_attempt": 0,
    "step_claims": 0,
    "available_at": DbNow(),
    "rung_at": DbNow(),
}


@dataclass(frozen=True, slots=True)
class StepInHand:
    """A claimed step: the job, what it has written so far, and what this step already got."""

    services: Services
    holder: LeaseHolder
    job: JobRecord
    request: AnyRequest
    records: tuple[IterationRecord, ...]
    memo: Mapping[tuple[int, int], Mapping[str, Any]]
    deadline: float
    """On the monotonic clock of this process."""

    @property
    def attempts(self) -> list[Attempt]:
        return [record.as_attempt() for record in self.records]

    @property
    def attempt_no(self) -> int:
        return self.job.step_attempt + 1

    def remaining_s(self) -> float:
        return self.deadline - time.monotonic()

    def call_timeout_s(self) -> float:
        return max(0.001, min(self.services.settings.call_timeout_s, self.remaining_s()))


def parse_request(job: JobRecord) -> AnyRequest:
    """The normalised request as it was stored."""
    kind = GenerateAnswer if job.kind == JobKind.GENERATE_ANSWER else EvaluateAnswer
    return kind.model_validate(job.request)


def rules_of(job: JobRecord, request: AnyRequest) -> Rules:
    if isinstance(request, EvaluateAnswer):
        return Rules(iteration_limit=1)
    return Rules(
        iteration_limit=job.iteration_limit,
        first_iteration=job.first_iteration,
        plateau_patience=request.stop.plateau_patience,
        plateau_delta=request.stop.plateau_delta,
        strategy=request.revision.strategy,
        start_from=request.revision.start_from,
    )


def claim_step(
    services: Services,
    holder: LeaseHolder,
    message: StepMessage,
    plan: Callable[[StepInHand], Sequence[PlannedCall]],
) -> tuple[StepInHand, Sequence[PlannedCall]] | None:
    """Moves 1 to 3 in one unit of work: claim, memo, reserve the calls that `plan` asks for.

    Returns:
        The step and its calls; None when it is not ours to do: a stale or duplicate message, or a deadline.
    """
    if holder.is_closing:
        return None
    started_at = time.monotonic()
    ready: tuple[StepInHand, Sequence[PlannedCall]] | None = None
    with services.database.write() as connection:
        claim = moves.claim(
            connection,
            message.job_id,
            message.step,
            message.step_no,
            owner=holder.owner,
            lease_s=holder.lease_s,
        )
        if claim is None:
            return None
        job = claim.job
        if job.step_claims > 1 or job.continuations > 0:
            lost = calls.close_lost(connection, job.id, job.lease_token)
            moves.add_usage(connection, job.id, calls.lost_usage(lost))
        _announce_start(connection, claim)
        step = _load(services, holder, connection, claim, started_at)
        if claim.remaining_s > 0:
            try:
                planned = list(plan(step))
            except ProviderError as error:
                _end(connection, step, StopReason.ERROR, _planning_error(step, error))
            else:
                calls.open_calls(connection, [call.row for call in planned])
                ready = step, planned
        else:
            _end(connection, step, StopReason.DEADLINE_EXCEEDED, _deadline_error(step))
    if ready is None or claim.starts_job or claim.starts_iteration:
        services.queue.wake(job.id)
    return ready


def _load(
    services: Services, holder: LeaseHolder, connection: Connection, claim: moves.Claim, started_at: float
) -> StepInHand:
    job = claim.job
    has_history = job.iteration > 0
    may_have_memo = job.step_claims > 1 or job.continuations > 0
    return StepInHand(
        services=services,
        holder=holder,
        job=job,
        request=parse_request(job),
        records=tuple(history.of_job(connection, job.id)) if has_history else (),
        memo=calls.memo(connection, job.id, step_iteration(job), job.step) if may_have_memo else {},
        deadline=started_at + claim.remaining_s,
    )


def step_iteration(job: JobRecord) -> int:
    """The iteration that the job's current step works on."""
    return job.iteration + 1 if job.step == Step.GENERATE else job.iteration


def _announce_start(connection: Connection, claim: moves.Claim) -> None:
    job = claim.job
    new: list[Event] = []
    if claim.starts_job:
        new.append(event("job.started", "A worker has taken up the job."))
    if claim.starts_iteration:
        number = job.iteration + 1
        new.append(
            event(
                "iteration.started",
                f"Iteration {number} of at most {job.iteration_limit} begins.",
                iteration=number,
            )
        )
    events.add(connection, job.id, job.event_seq - len(new) + 1, new)


def reserve_more(step: StepInHand, planned: PlannedCall) -> bool:
    """Move 3 for a call that became necessary within the step; False when it must not be made any more."""
    if not step.holder.may_call(step.job.id, step.job.lease_token):
        return False
    with step.services.database.write() as connection:
        if not moves.holds(connection, step.job.id, step.job.lease_token):
            return False
        calls.open_calls(connection, [planned.row])
    return True


def side_by_side(step: StepInHand, work: Sequence[Callable[[], T]]) -> list[T]:
    """Work on several candidates at once; one candidate needs no further thread."""
    if len(work) <= 1:
        return [task() for task in work]
    with ThreadPoolExecutor(max_workers=len(work), thread_name_prefix=step.job.id[-8:]) as pool:
        return [future.result() for future in [pool.submit(task) for task in work]]


def first_outcome(step: StepInHand, slot: Slot, planned: Mapping[Slot, PlannedCall]) -> Outcome:
    """Moves 2 and 4: what the memo holds for a slot, or the reserved call's outcome."""
    row = step.memo.get((slot.candidate, slot.seq))
    if slot in planned:
        return make_call(step.services, planned[slot], timeout_s=step.call_timeout_s())
    if row is None:
        raise LookupError(f"Slot {slot} was neither remembered nor reserved.")
    return remembered(slot, row)


def finish(
    step: StepInHand,
    outcomes: Sequence[Outcome],
    values: Mapping[str, Any],
    new_events: Sequence[Event],
    write: Callable[[Connection], None] = lambda _connection: None,
) -> bool:
    """Move 5 in one unit of work: store the replies, and move the job on if the lease is still ours.

    Args:
        step: the step in hand.
        outcomes: what the calls of this step brought.
        values: the job's next columns.
        new_events: what to tell.
        write: further rows that belong to the move.

    Returns:
        False when somebody else holds the job by now: nothing but the ledger has changed.
    """
    usage = _sum_usage(outcomes)

    def work(connection: Connection) -> bool:
        place = (connection, step.job.id, step.job.lease_token)
        first_seq = moves.advance(*place, values, usage=usage, new_events=len(new_events))
        if first_seq is None:
            _keep(connection, step, outcomes)
            return False
        if "dup" in {closed.status for closed in _close_calls(connection, outcomes)}:
            raise _CameSecond
        events.add(connection, step.job.id, first_seq, new_events)
        write(connection)
        return True

    try:
        is_ours = step.services.database.persist(work, for_s=step.holder.lease_s)
    except _CameSecond:
        _start_over(step, outcomes)
        return False
    step.services.queue.wake(step.job.id)
    if not is_ours:
        log.info("late_result_kept_in_ledger", job_id=step.job.id, step=step.job.step)
    return is_ours


class _CameSecond(Exception):  # noqa: N818 - a state, and never seen outside of this module
    """Another holder's reply is in the ledger already: it is the one to go on with."""


def _start_over(step: StepInHand, outcomes: Sequence[Outcome]) -> None:
    """Give the step back as it was; whoever takes it finds the replies that came first."""
    again = {"available_at": DbNow(), "rung_at": DbNow()}

    def work(connection: Connection) -> None:
        moves.advance(connection, step.job.id, step.job.lease_token, again)
        _keep(connection, step, outcomes)

    step.services.database.persist(work, for_s=step.holder.lease_s)
    ring(step.services, StepMessage(Step(step.job.step), step.job.id, step.job.step_no))


def keep_replies(step: StepInHand, outcomes: Sequence[Outcome]) -> None:
    """The step is not ours any more: what it paid for is kept in the ledger, and nothing else changes."""

    def work(connection: Connection) -> None:
        _keep(connection, step, outcomes)

    step.services.database.persist(work, for_s=step.holder.lease_s)


def _keep(connection: Connection, step: StepInHand, outcomes: Sequence[Outcome]) -> None:
    closed = _close_calls(connection, outcomes)
    if closed:
        usage = _sum_usage(outcomes)
        moves.add_usage(connection, step.job.id, usage)
        moves.add_usage(connection, step.job.id, calls.lost_usage(-sum(each.was_lost for each in closed)))


def _close_calls(connection: Connection, outcomes: Sequence[Outcome]) -> list[calls.Closed]:
    found = [calls.close(connection, o.call_id, o.closing) for o in outcomes if o.call_id and o.closing]
    return [closed for closed in found if closed]


def _sum_usage(outcomes: Sequence[Outcome]) -> dict[str, int]:
    total: dict[str, int] = {}
    for outcome in outcomes:
        for name, amount in (outcome.usage or {}).items():
            total[name] = total.get(name, 0) + amount
    return total


def go_on(step: StepInHand, next_step: Step, **values: Any) -> dict[str, Any]:
    """The job's columns when its next step is due now."""
    return {**_NEXT_STEP, "step": next_step.value, "step_no": step.job.step_no + 1, **values}


def ring(services: Services, message: StepMessage) -> None:
    """Move 6: after the commit, best effort. What was not heard is rung again by the sweeper."""
    if services.queue.ring(message):
        return
    try:
        with services.database.write() as connection:
            moves.mark_unrung(connection, message.job_id)
    except Unavailable as error:
        log.warning("unrung_step_waits_for_its_pause", job_id=message.job_id, reason=error.message)


def ring_next(step: StepInHand, next_step: Step) -> None:
    ring(step.services, StepMessage(next_step, step.job.id, step.job.step_no + 1))


def try_later(step: StepInHand, outcomes: Sequence[Outcome], error: ProviderError) -> bool:
    """Put the step off after a passing failure, if attempts and time are left; no thread waits meanwhile."""
    settings = step.services.settings
    wait_s = retry_wait_s(
        step.attempt_no,
        first_s=settings.retry_wait_s,
        max_s=settings.retry_wait_max_s,
        asked_s=error.retry_after_s,
    )
    if step.attempt_no >= settings.step_attempts_max or wait_s >= step.remaining_s():
        return False
    told = event(
        "step.retrying",
        f"{error.message} Attempt {step.attempt_no} of {settings.step_attempts_max}; trying again in {wait_s:.1f} s.",
        step=step.job.step,
        iteration=step_iteration(step.job),
        code=error.code,
        attempt=step.attempt_no,
        wait_s=round(wait_s, 3),
        seconds=_longest(outcomes),
    )
    values = {"step_attempt": step.attempt_no, "available_at": DbNow(round(wait_s, 3)), "rung_at": None}
    finish(step, outcomes, values, [told])
    return True


def give_up(
    step: StepInHand,
    outcomes: Sequence[Outcome],
    error: ProviderError,
    model: str,
    write: Callable[[Connection], None] = lambda _connection: None,
) -> None:
    """End the job with what it has: a step failed for good."""
    late = error.retryable and step.remaining_s() <= 0
    reason = StopReason.DEADLINE_EXCEEDED if late else StopReason.ERROR
    facts = job_error(
        "deadline_exceeded" if late else error.code,
        f"The deadline passed while {model} was asked: {error.message}" if late else error.message,
        model=model,
        iteration=step_iteration(step.job),
        attempts=step.attempt_no,
    )
    end = ending(reason, step.records, error=facts)
    finish(step, outcomes, end.values, [end.event], write)


def put_off_crashed(services: Services, message: StepMessage, detail: str) -> None:
    """A step crashed for a reason nobody foresaw: try it again later, then end the job rather than loop for ever."""
    settings = services.settings
    with services.database.write() as connection:
        job = jobs.get(connection, message.job_id)
        if job is None or (job.step, job.step_no) != (message.step, message.step_no):
            return
        attempt = job.step_attempt + 1
        new: list[Event] = []
        if attempt < settings.step_attempts_max:
            wait_s = retry_wait_s(attempt, first_s=settings.retry_wait_s, max_s=settings.retry_wait_max_s)
            values = {"step_attempt": attempt, "available_at": DbNow(round(wait_s, 3)), "rung_at": None}
        else:
            words = f"The step {job.step} crashed {attempt} times, last with: {detail}"
            facts = job_error("worker_lost", words, iteration=step_iteration(job), attempts=attempt)
            end = ending(StopReason.ERROR, history.of_job(connection, job.id), error=facts)
            values, new = dict(end.values), [end.event]
        first_seq = moves.change(connection, job.id, values, when=moves.is_live(), new_events=len(new))
        if first_seq is not None:
            events.add(connection, job.id, first_seq, new)
    services.queue.wake(message.job_id)


def _end(connection: Connection, step: StepInHand, reason: StopReason, error: Mapping[str, Any]) -> None:
    end = ending(reason, step.records, error=error)
    first_seq = moves.advance(connection, step.job.id, step.job.lease_token, end.values, new_events=1)
    if first_seq is not None:
        events.add(connection, step.job.id, first_seq, [end.event])


def _planning_error(step: StepInHand, error: ProviderError) -> dict[str, Any]:
    model = step.job.model if step.job.step == Step.GENERATE else step.job.evaluator_model
    return job_error(error.code, error.message, model=model, iteration=step_iteration(step.job), attempts=0)


def _deadline_error(step: StepInHand) -> dict[str, Any]:
    limit = step.request.limits.deadline_s
    return job_error(
        "deadline_exceeded",
        f"The job's deadline of {limit:g} s passed before its next step began.",
        iteration=step_iteration(step.job),
    )


def _longest(outcomes: Sequence[Outcome]) -> float:
    return round(max((outcome.seconds for outcome in outcomes), default=0.0), 3)
