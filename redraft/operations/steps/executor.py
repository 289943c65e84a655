"""The six moves of a step: claim, memo, reserve, call, finish, ring. A worker goes on with its job while it can.

A step is claimed with a lease and a fresh token, and its calls are reserved, in one unit of work; the calls are
made; what they brought is stored in a second one, which moves the job only while that token is still the
holder's. The second unit of work also claims the next step. Whoever comes late changes no state, but the reply
it paid for is kept in the ledger.

Calls to a model that is limited, or that fails, are asked for at the gate before they are reserved, outside of any
unit of work; a step that is turned away goes back to its row as it was, to be taken up again later.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import structlog
from sqlalchemy import Connection

from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.states import Step, StopReason
from redraft.errors import ProviderError
from redraft.jobs import StepMessage
from redraft.operations.calls.budgets import BudgetExhausted, spent_of
from redraft.operations.calls.ledger import KEEP_REPLY_S, closings, keep, unclear_ends, unstored_usage
from redraft.operations.calls.model_calls import Outcome, PlannedCall, loose_schemas
from redraft.operations.request_views import models_of, parse_request, step_iteration
from redraft.operations.results.completion import close_up
from redraft.operations.results.job_results import Event, ending, event
from redraft.operations.services import Services
from redraft.operations.steps import audit, evaluate, generate, rate_limits
from redraft.operations.steps.context import (
    CLAIMED,
    LeaseLost,
    Move,
    StepInHand,
    close_unsent,
    follow,
    message_after,
    message_of,
    notify,
)
from redraft.operations.steps.crashes import come_back_later, crashing_as
from redraft.operations.steps.fault_points import Boundary, reached
from redraft.operations.steps.leases import LeaseHolder, clock
from redraft.operations.steps.rate_limits import InHand, TurnedAway
from redraft.operations.steps.step_events import worker_lost
from redraft.rate_limiter import LimiterSession
from redraft.sandbox.turns import Busy
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.statements import adding_together, collecting_rows
from redraft.storage.jobs import calls, events, history, transitions
from redraft.storage.jobs.calls import SlotKey
from redraft.storage.jobs.jobs import JobRecord

log = structlog.get_logger()

_PLANS = MappingProxyType({Step.GENERATE: generate.plan, Step.EVALUATE: evaluate.plan, Step.AUDIT: audit.plan})
_WORK = MappingProxyType({Step.GENERATE: generate.work, Step.EVALUATE: evaluate.work, Step.AUDIT: audit.work})

_LOOKS: Mapping[str, Callable[[StepInHand], None]] = MappingProxyType(
    {Step.GENERATE: generate.look, Step.EVALUATE: evaluate.look, Step.AUDIT: audit.look}
)


def run(services: Services, holder: LeaseHolder, message: StepMessage, *, goes_on: Callable[[], bool]) -> None:
    """Do a step, if it is due and nobody else has it, and the job's next ones as long as `goes_on` says so.

    Raises:
        StepCrashed: for whatever is not a database that is away.
    """
    claimed_at = clock()
    with crashing_as(message, None):
        hand = _claim(services, holder, message)
    if hand is None:
        return
    token = hand.step.job.lease_token
    with holder.holding(message.job_id, token, claimed_at) as renew, services.limiter.session() as session:
        try:
            with crashing_as(message, token):
                ready = _plan_apart(hand.step) if hand.must_plan else hand
                if ready is not None and ready.must_ask:
                    ready = rate_limits.ask(ready, session)
            while ready is not None:
                hand = ready
                ready = _do(hand, session, goes_on, renew)
        except Busy:
            come_back_later(hand.step)


def _do(
    hand: InHand, session: LimiterSession, goes_on: Callable[[], bool], renew: Callable[[int, float], None]
) -> InHand | None:
    step = hand.step
    with crashing_as(hand.message, step.job.lease_token):
        move = _work(hand)
        if move is None:
            return None
        reached(Boundary.CALLED, step.job.id)
        rate_limits.record(session, move.outcomes)
        following = _reserve_next(step, move, session) if goes_on() else None
    if isinstance(following, TurnedAway):
        move = replace(move, values={**(move.values or {}), **following.values})
    reserved = following if isinstance(following, InHand) else None
    if not reserved:
        session.release_all()
    with crashing_as(hand.message, step.job.lease_token, is_paid=True):
        finished_at = _finish(step, move, reserved)
    if finished_at is None:
        return None
    _tell_of_next(step, move, following)
    if reserved:
        renew(reserved.step.job.lease_token, finished_at)
    return reserved


def _with_warnings(step: StepInHand, move: Move) -> Move:
    """The job's warnings about the replies that its step used go along with the job's other columns."""
    found = [*unclear_ends(move.outcomes), *loose_schemas(move.outcomes)]
    new = [warning for warning in found if warning not in step.job.warnings]
    if move.values is None or not new:
        return move
    return replace(move, values={**move.values, "warnings": [*move.values.get("warnings", step.job.warnings), *new]})


def _work(hand: InHand) -> Move | None:
    """What the step's calls and its code come to; None when its calls must not be sent any more."""
    step = hand.step
    try:
        return _with_warnings(step, _WORK[Step(step.job.step)](step, hand.planned))
    except LeaseLost:
        log.warning("lease_lost_before_its_call", job_id=step.job.id, step=step.job.step)
        close_unsent(step, hand.planned)
        return None


def _tell_of_next(step: StepInHand, move: Move, following: InHand | TurnedAway | None) -> None:
    message = message_after(step, move)
    if message is None or isinstance(following, InHand):
        return
    if following is None:
        notify(step.services, message)
    else:
        rate_limits.wait(step.services, message, following)


def _claim(services: Services, holder: LeaseHolder, message: StepMessage) -> InHand | None:
    """Moves 1 to 3 in one unit of work: claim, memo, reserve the calls that the step asks for.

    Returns:
        None when there is nothing to do: a stale or duplicate message, a closing worker, or a passed deadline.
    """
    if holder.is_closing:
        return None
    with services.database.write() as connection:
        claim = transitions.claim(
            connection,
            message.job_id,
            message.step,
            message.step_no,
            owner=holder.owner,
            lease_s=holder.lease_s,
            losses_max=holder.losses_max,
        )
        if claim is None:
            return None
        # Not the time before the claim: the deadline would pass as much earlier as the claim has waited
        deadline = time.monotonic() + claim.remaining_s
        job = claim.job
        is_again = job.step_claims > 1 or job.continuations > 0
        new: list[Event] = []
        if is_again:
            lost = calls.close_lost(connection, job.id, job.lease_token)
            transitions.add_usage(connection, job.id, lost)
            if lost:
                job = replace(job, event_seq=transitions.number_event(connection, job.id))
                claim, new = replace(claim, job=job), [worker_lost(job, lost["calls"])]
        new += _started(job, starts_job=claim.starts_job, starts_iteration=claim.starts_iteration)
        with adding_together(connection):
            events.add(connection, job, job.event_seq - len(new) + 1, new)
            step = _load(services, holder, connection, claim, deadline, is_again=is_again)
            if claim.remaining_s <= 0:
                ready = _end(connection, step, StopReason.DEADLINE_EXCEEDED, _deadline_error(step))
            elif evaluate.takes_long(step):
                ready = InHand(step, (), must_plan=True)
            else:
                ready = _reserve(connection, step)
        reached(Boundary.CLAIMING, job.id)
    reached(Boundary.CLAIMED, job.id)
    if ready is None or new:
        services.queue.wake(job.id)
    return ready


def _reserve(connection: Connection, step: StepInHand) -> InHand | None:
    """The step with its calls, reserved unless the gate has to be asked; None when it can make none: the job ends."""
    try:
        step, planned = _drop_remembered(connection, step, _PLANS[Step(step.job.step)](step))
    except ProviderError as error:
        _end(connection, step, StopReason.ERROR, _planning_error(step, error))
        return None
    except BudgetExhausted as error:
        _end(connection, step, StopReason.BUDGET_EXHAUSTED, _budget_error(step, error))
        return None
    hand = rate_limits.at_gate(step, planned)
    if not hand.must_ask:
        calls.open_calls(connection, [call.row for call in planned])
    return hand


def _plan_apart(step: StepInHand) -> InHand | None:
    """Look at the answers without a unit of work, then reserve as a claim does; None when the step is not ours."""
    with suppress(ProviderError):  # it comes again with the plan, which can end the job by it
        _LOOKS[Step(step.job.step)](step)
    with step.services.database.write() as connection:
        if not transitions.holds(connection, step.job.id, step.job.lease_token):
            return None
        ready = _reserve(connection, step)
    if ready is None:
        step.services.queue.wake(step.job.id)
    return ready


def _load(
    services: Services,
    holder: LeaseHolder,
    connection: Connection,
    claim: transitions.Claim,
    deadline: float,
    *,
    is_again: bool,
) -> StepInHand:
    job = claim.job
    request = parse_request(job)
    return StepInHand(
        services=services,
        holder=holder,
        job=job,
        request=request,
        records=tuple(history.of(connection, job)) if job.iteration > 0 else (),
        memo=_memo(connection, job) if is_again else {},
        deadline=deadline,
        spent=spent_of(connection, services, job, request.limits),
    )


def _memo(connection: Connection, job: JobRecord) -> Mapping[SlotKey, Mapping[str, Any]]:
    iteration = None if job.step == Step.AUDIT else step_iteration(job)
    return calls.memo(connection, job.id, job.step, iteration, with_failures=job.continuations == 0)


def _drop_remembered(
    connection: Connection, step: StepInHand, planned: Sequence[PlannedCall]
) -> tuple[StepInHand, list[PlannedCall]]:
    """Only what is not in the ledger yet is called for.

    A reply that came after a job was canceled serves its continuation only if that asks the same thing.
    """
    memo = dict(step.memo)
    missing: list[PlannedCall] = []
    for call in planned:
        row = memo.get(call.slot.key)
        if row is not None and step.job.continuations > 0 and row["request"] != call.row["request"]:
            if row["status"] == "ok":
                calls.set_aside(connection, row["id"])
            del memo[call.slot.key]
        if call.slot.key not in memo:
            missing.append(call)
    return replace(step, memo=memo), missing


def _started(job: JobRecord, *, starts_job: bool, starts_iteration: bool) -> list[Event]:
    new: list[Event] = []
    if starts_job:
        new.append(event("job.started", "A worker has taken up the job."))
    if starts_iteration:
        number = job.iteration + 1
        words = f"Iteration {number} of at most {job.iteration_limit} begins."
        new.append(event("iteration.started", words, iteration=number))
    return new


def _reserve_next(step: StepInHand, move: Move, session: LimiterSession) -> InHand | TurnedAway | None:
    """The step after this one with its calls, if these hands may do it; else it is rung for, and claimed.

    After a continuation a claim has to look for replies that came before it, and with a budget, at the ledger.
    """
    needs_claim = step.job.continuations > 0 or step.spent is not None
    if move.next_step is None or needs_claim or step.remaining_s() <= 0:
        return None
    following = follow(step, move)
    try:
        hand = rate_limits.at_gate(following, _PLANS[move.next_step](following))
    except (ProviderError, BudgetExhausted, Busy):
        return None
    if hand.must_ask:
        return rate_limits.enter(hand, session)
    session.release_all()
    return hand


def _finish(step: StepInHand, move: Move, following: InHand | None) -> float | None:
    """Move 5 in one unit of work: store the replies, move the job on if the lease is still ours, claim what follows.

    Returns:
        When the lease of what follows was asked for, which may be long after the first try; None when somebody else
        holds the job by now: nothing but the ledger has changed.
    """
    asked_at = 0.0

    def store(connection: Connection) -> bool:
        nonlocal asked_at
        asked_at = clock()
        return _store(step, move, following, connection)

    try:
        is_ours = step.services.database.persist(store, for_s=KEEP_REPLY_S)
    except _CameSecond:
        _start_over(step, move.outcomes)
        return None
    reached(Boundary.STORED, step.job.id)
    step.services.queue.wake(step.job.id)
    if not is_ours:
        log.info("late_result_kept_in_ledger", job_id=step.job.id, step=step.job.step)
    return asked_at if is_ours else None


def _store(step: StepInHand, move: Move, following: InHand | None, connection: Connection) -> bool:
    if move.values is None:
        keep(connection, step.job.id, move.outcomes)
        return False
    new = list(move.events)
    if following:
        new += _started(following.step.job, starts_job=False, starts_iteration=move.next_step is Step.GENERATE)
    with collecting_rows(connection) as rows:
        events.add(connection, step.job, step.job.event_seq + 1, new)
        move.write(connection)
        if following:
            calls.open_calls(connection, [call.row for call in following.planned])
    advance = transitions.Advance(
        {**move.values, **CLAIMED} if following else move.values,
        usage=unstored_usage(move.outcomes),
        new_events=len(new),
        keep_lease_s=step.holder.lease_s if following else None,
    )
    closed = transitions.advance_with(connection, step.job, advance, closings(move.outcomes), rows)
    if closed is None:
        keep(connection, step.job.id, move.outcomes)
        return False
    if any(outcome.came_second for outcome in move.outcomes) or "dup" in closed:
        raise _CameSecond
    close_up(connection, step.job, move.values)
    reached(Boundary.STORING, step.job.id)
    return True


class _CameSecond(Exception):  # noqa: N818 - a state, and never seen outside of this module
    """Another holder's reply is in the ledger already: it is the one to go on with."""


def _start_over(step: StepInHand, outcomes: Sequence[Outcome]) -> None:
    """Give the step back as it was; whoever takes it finds the replies that came first."""
    again = {"available_at": DbNow(), "rung_at": DbNow()}

    def work(connection: Connection) -> None:
        transitions.advance(connection, step.job.id, step.job.lease_token, again)
        keep(connection, step.job.id, outcomes)

    step.services.database.persist(work, for_s=KEEP_REPLY_S)
    notify(step.services, message_of(step.job))


def _end(connection: Connection, step: StepInHand, reason: StopReason, error: dict[str, object]) -> None:
    end = ending(step.services.profiles, step.job, step.request, step.records, reason, error)
    first_seq = transitions.advance(connection, step.job.id, step.job.lease_token, end.values, new_events=1)
    if first_seq is not None:
        events.add(connection, step.job, first_seq, [end.event])
        close_up(connection, step.job, end.values)


def _planning_error(step: StepInHand, error: ProviderError) -> dict[str, object]:
    model = models_of(step.job, step.request)[0]
    return job_error(error.code, error.message, model=model, iteration=step_iteration(step.job), attempts=0)


def _budget_error(step: StepInHand, error: BudgetExhausted) -> dict[str, object]:
    return job_error("budget_exhausted", str(error), iteration=step_iteration(step.job))


def _deadline_error(step: StepInHand) -> dict[str, object]:
    limit = step.request.limits.deadline_s
    return job_error(
        "deadline_exceeded",
        f"The job's deadline of {limit:g} s passed before its next step began.",
        iteration=step_iteration(step.job),
    )
