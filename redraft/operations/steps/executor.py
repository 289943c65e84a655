"""Executes the steps of a job in six stages: claim, recorded replies, reserve, call, finish, notify.

One unit of work claims the step, with a lease and a fresh token, and reserves its calls. Then the calls are made,
with no transaction open. A second unit of work stores their outcomes, advances the job if the token is still
current, and claims the next step. A worker whose lease has expired cannot change the job. Its replies are still
recorded in the ledger.

Calls to a limited or failing model need a permit of the rate limiter before they are reserved, outside of any unit of
work. A step that gets no permit is rescheduled unchanged.
"""

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
from redraft.messages import StepMessage
from redraft.operations.calls.budgets import BudgetExhausted, has_budget, spent_of
from redraft.operations.calls.ledger import unclear_ends
from redraft.operations.calls.model_calls import PlannedCall, loose_schemas, parameters_left_out
from redraft.operations.calls.step_work import CallsParked, Pace, Work
from redraft.operations.fault_points import FaultPoint, reached
from redraft.operations.request_views import models_of, overlaps, parse_request, step_iteration
from redraft.operations.results.completion import announce, complete
from redraft.operations.results.job_results import Event, ending
from redraft.operations.services import Services
from redraft.operations.steps import audit, evaluate, generate, rate_limits, speculation
from redraft.operations.steps.context import (
    LeaseLost,
    StepContext,
    StepResult,
    Watch,
    close_unsent,
    follow,
    message_after,
    notify,
    unwatched,
)
from redraft.operations.steps.finished_steps import finish, park
from redraft.operations.steps.leases import LeaseHolder
from redraft.operations.steps.rate_limits import Deferred, PreparedStep
from redraft.operations.steps.step_events import started, worker_lost
from redraft.operations.steps.unexpected_errors import crashing_as, reschedule_busy
from redraft.providers.shared.protocol import without_cache_marks
from redraft.rate_limiter import LimiterSession
from redraft.sandbox.fair_queue import Busy
from redraft.storage.engine.statements import adding_together
from redraft.storage.jobs import calls, events, history, step_claims, transitions
from redraft.storage.jobs.calls import SlotKey

log = structlog.get_logger()

_PLANS = MappingProxyType({Step.GENERATE: generate.plan, Step.EVALUATE: speculation.plan, Step.AUDIT: audit.plan})
_WORK = MappingProxyType({Step.GENERATE: generate.work, Step.EVALUATE: speculation.work, Step.AUDIT: audit.work})

_PREPARATIONS: Mapping[str, Callable[[StepContext], None]] = MappingProxyType(
    {Step.GENERATE: generate.prepare, Step.EVALUATE: speculation.prepare, Step.AUDIT: audit.prepare}
)


def run(
    services: Services,
    holder: LeaseHolder,
    message: StepMessage,
    *,
    goes_on: Callable[[], bool],
    watch: Watch = unwatched,
) -> Work[None]:
    """Execute a step if it is due and free, then the next steps of its job while `goes_on` returns true.

    Raises:
        StepCrashed: any unforeseen exception.
        Unavailable: the database does not answer.
    """
    if holder.is_closing:
        return
    claimed_at = services.clock.monotonic()
    with crashing_as(message, None):
        prepared = _claim_new(services, holder, message) or _claim(services, holder, message)
    if prepared is None:
        return
    token = prepared.step.job.lease_token
    with holder.holding(message.job_id, token, claimed_at) as renew, services.limiter.session() as session:
        try:
            if evaluate.may_wait(prepared.step):
                yield Pace.SLOW
            with crashing_as(message, token):
                ready = _plan_outside(prepared.step) if prepared.needs_planning else prepared
                if ready is not None and ready.needs_permits:
                    ready = rate_limits.ask(ready, session)
            while ready is not None:
                prepared = ready
                with watch(prepared.message) as stored:
                    ready = yield from _do(prepared, session, goes_on, renew, stored)
        except Busy:
            reschedule_busy(prepared.step)


def _do(
    prepared: PreparedStep,
    session: LimiterSession,
    goes_on: Callable[[], bool],
    renew: Callable[[int, float], None],
    stored: Callable[[StepResult], object],
) -> Work[PreparedStep | None]:
    step = prepared.step
    with crashing_as(prepared.message, step.job.lease_token):
        try:
            result = yield from _work(prepared)
        except CallsParked:
            park(step, [*prepared.for_batch, *step.parked])
            stored(StepResult((), values=None))
            return None
        if result is None:
            return None
        reached(FaultPoint.CALLED, step.job.id)
        rate_limits.record(session, result.outcomes)
        following = _reserve_next(step, result, session) if goes_on() else None
    if isinstance(following, Deferred):
        result = replace(result, values={**(result.values or {}), **following.values})
    reserved = following if isinstance(following, PreparedStep) else None
    # Released before the result is stored, so that waiting steps do not wait for this transaction
    if not reserved:
        session.release_all()
    # The calls are paid now, so a crash must not lead to another paid attempt
    with crashing_as(prepared.message, step.job.lease_token, is_paid=True):
        finished_at = finish(step, result, reserved)
    if finished_at is None:
        return None
    stored(result)
    _announce_next(step, result, following)
    if reserved:
        renew(reserved.step.job.lease_token, finished_at)
    return reserved


def _with_warnings(step: StepContext, result: StepResult) -> StepResult:
    """Add warnings about the used replies to the new columns of the job."""
    found = [*unclear_ends(result.outcomes), *loose_schemas(result.outcomes), *parameters_left_out(result.outcomes)]
    new = [warning for warning in found if warning not in step.job.warnings]
    if result.values is None or not new:
        return result
    return replace(
        result, values={**result.values, "warnings": [*result.values.get("warnings", step.job.warnings), *new]}
    )


def _work(prepared: PreparedStep) -> Work[StepResult | None]:
    """Run the generator of the step. Returns None if the lease was lost before a call was sent.

    Raises CallsParked if the step has calls for a batch.
    """
    step = prepared.step
    if prepared.for_batch:
        raise CallsParked
    try:
        result = yield from _WORK[Step(step.job.step)](step, prepared.planned)
        return _with_warnings(step, result)
    except LeaseLost:
        log.warning("lease_lost_before_its_call", job_id=step.job.id, step=step.job.step)
        close_unsent(step, prepared.planned)
        return None


def _announce_next(step: StepContext, result: StepResult, following: PreparedStep | Deferred | None) -> None:
    message = message_after(step, result)
    if message is None or isinstance(following, PreparedStep):
        return
    if following is None:
        notify(step.services, message)
    else:
        rate_limits.wait(step.services, message, following)


def _claim_new(services: Services, holder: LeaseHolder, message: StepMessage) -> PreparedStep | None:
    """Plan the first step of a job, then claim it and reserve its calls with one statement.

    Returns:
        None if the step was not claimed. Then `_claim` finds out the reason, or claims the step.
    """
    group_commit = services.database.group_commit
    if group_commit is None or message.step is not Step.GENERATE:
        return None
    claim = step_claims.find_new(group_commit, message.job_id)
    if claim is None or claim.remaining_s <= 0:
        return None
    deadline = services.clock.monotonic() + claim.remaining_s
    job, request = claim.job, parse_request(claim.job)
    # These jobs need further rows or queries, which only `_claim` makes
    if job.delivery == "batch" or has_budget(request.limits) or request.webhook:
        return None
    step = StepContext(services, holder, job, request, records=(), recorded={}, deadline=deadline)
    if evaluate.takes_long(step):
        prepared = PreparedStep(step, (), needs_planning=True)
    else:
        try:
            prepared = rate_limits.prepare(step, generate.plan(step))
        except (ProviderError, BudgetExhausted):
            return None
    new = started(job, starts_job=True, starts_iteration=True)
    rows = [events.rows_of(job.id, job.event_seq - 1, new)]
    if prepared.planned and not prepared.needs_permits:
        rows.append(calls.rows_of([call.row for call in prepared.planned]))
    reached(FaultPoint.CLAIMING, job.id)
    if not step_claims.claim_new(group_commit, claim, rows, owner=holder.owner, lease_s=holder.lease_s):
        return None
    reached(FaultPoint.CLAIMED, job.id)
    announce(services, job, has_ended=False)
    return prepared


def _claim(services: Services, holder: LeaseHolder, message: StepMessage) -> PreparedStep | None:
    """Stages 1 to 3 in one unit of work: claim the step, load its recorded replies, reserve its calls.

    Returns:
        None if there is nothing to do: the message is stale or a duplicate, or the deadline has passed.
    """
    with services.database.write() as connection:
        claim = step_claims.claim(
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
        # Measured after the claim, because a wait for the database must not shorten the deadline
        deadline = services.clock.monotonic() + claim.remaining_s
        job = claim.job
        # Before the first claim, the ledger has no calls of the step, so the first claim makes no queries for them
        is_again = job.step_claims > 1 or job.continuations > 0
        new: list[Event] = []
        if is_again:
            lost = calls.close_lost(connection, job.id, job.lease_token)
            transitions.add_usage(connection, job.id, lost)
            if lost:
                job = replace(job, event_seq=transitions.reserve_event_number(connection, job.id))
                claim, new = replace(claim, job=job), [worker_lost(job, lost["calls"])]
        new += started(job, starts_job=claim.starts_job, starts_iteration=claim.starts_iteration)
        with adding_together(connection):
            events.add(connection, job, job.event_seq - len(new) + 1, new)
            step = _load(services, holder, connection, claim, deadline, is_again=is_again)
            if claim.remaining_s <= 0:
                words = f"The job's deadline of {step.request.limits.deadline_s:g} s passed before its next step began."
                ready = _end(connection, step, StopReason.DEADLINE_EXCEEDED, "deadline_exceeded", words)
            elif evaluate.takes_long(step):
                ready = PreparedStep(step, (), needs_planning=True)
            else:
                ready = _reserve(connection, step)
        reached(FaultPoint.CLAIMING, job.id)
    reached(FaultPoint.CLAIMED, job.id)
    if ready is None or new:
        announce(services, job, has_ended=ready is None)
    return ready


def _reserve(connection: Connection, step: StepContext) -> PreparedStep | None:
    """Reserve the calls of the step unless they need permits; None if planning failed, which ends the job."""
    try:
        step, planned = _drop_recorded(connection, step, _PLANS[Step(step.job.step)](step))
    except ProviderError as error:
        model = models_of(step.job, step.request)[0]
        _end(connection, step, StopReason.ERROR, error.code, error.message, model=model, attempts=0)
        return None
    except BudgetExhausted as error:
        _end(connection, step, StopReason.BUDGET_EXHAUSTED, "budget_exhausted", str(error))
        return None
    if step.is_batch and (for_batch := [call for call in planned if not _is_reusable(connection, call)]):
        return PreparedStep(step, (), for_batch=for_batch)
    prepared = rate_limits.prepare(step, planned)
    if not prepared.needs_permits:
        calls.open_calls(connection, [call.row for call in planned])
    return prepared


def _is_reusable(connection: Connection, call: PlannedCall) -> bool:
    key = call.row["cache_key"]
    return key is not None and calls.find_reusable(connection, key) is not None


def _plan_outside(step: StepContext) -> PreparedStep | None:
    """Do the slow planning outside of a unit of work, then reserve the calls; None if the lease was lost."""
    with suppress(ProviderError):  # `_reserve` raises the same error, and ends the job
        _PREPARATIONS[Step(step.job.step)](step)
    with step.services.database.write() as connection:
        if not transitions.holds_lease(connection, step.job.id, step.job.lease_token):
            return None
        ready = _reserve(connection, step)
    if ready is None:
        announce(step.services, step.job, has_ended=True)
    return ready


def _load(
    services: Services,
    holder: LeaseHolder,
    connection: Connection,
    claim: step_claims.Claim,
    deadline: float,
    *,
    is_again: bool,
) -> StepContext:
    job = claim.job
    request = parse_request(job)
    recorded: dict[SlotKey, Mapping[str, Any]] = {}
    if is_again:
        iteration = None if job.step == Step.AUDIT else step_iteration(job)
        # A continuation may have changed the cause of a permanent failure
        with_failures = job.continuations == 0
        recorded = calls.recorded_replies(connection, job.id, job.step, iteration, with_failures=with_failures)
        if job.step == Step.EVALUATE and overlaps(request):
            following = job.iteration + 1
            recorded |= calls.recorded_replies(
                connection, job.id, Step.GENERATE, following, with_failures=with_failures
            )
    return StepContext(
        services=services,
        holder=holder,
        job=job,
        request=request,
        records=tuple(history.iterations_of(connection, job)) if job.iteration > 0 else (),
        recorded=recorded,
        deadline=deadline,
        spent=spent_of(connection, services, job, request.limits),
    )


def _drop_recorded(
    connection: Connection, step: StepContext, planned: Sequence[PlannedCall]
) -> tuple[StepContext, list[PlannedCall]]:
    """Drop the planned calls whose replies the ledger already has.

    After a continuation a recorded reply is used only if its request equals the planned one. The marks for the
    provider's cache do not count, because they depend on the iterations that may follow.
    """
    recorded = dict(step.recorded)
    missing: list[PlannedCall] = []
    for call in planned:
        row = recorded.get(call.slot.key)
        if row is not None and step.job.continuations > 0 and not _asks_the_same(row["request"], call.body):
            if row["status"] == "ok":
                calls.release_slot(connection, row["id"])
            del recorded[call.slot.key]
        if call.slot.key not in recorded:
            missing.append(call)
    return replace(step, recorded=recorded), missing


def _asks_the_same(recorded: Mapping[str, Any], planned: Mapping[str, Any]) -> bool:
    return without_cache_marks(recorded) == without_cache_marks(planned)


def _reserve_next(step: StepContext, result: StepResult, session: LimiterSession) -> PreparedStep | Deferred | None:
    """Prepare the next step without a further claim. None if the step must be claimed after a message.

    Jobs with a continuation or a budget always need a claim, because only a claim reads the ledger. So do jobs whose
    calls go into batches, because a claim costs little compared with a batch.
    """
    needs_claim = step.job.continuations > 0 or step.spent is not None or step.is_batch
    if result.next_step is None or needs_claim or step.remaining_s() <= 0:
        return None
    following = follow(step, result)
    try:
        prepared = rate_limits.prepare(following, _PLANS[result.next_step](following))
    # The claim of the next step meets the same error, and handles it
    except (ProviderError, BudgetExhausted, Busy):
        return None
    if prepared.needs_permits:
        return rate_limits.enter(prepared, session)
    session.release_all()
    return prepared


def _end(connection: Connection, step: StepContext, reason: StopReason, code: str, words: str, **facts: Any) -> None:
    error = job_error(code, words, iteration=step_iteration(step.job), **facts)
    end = ending(step.services.profiles, step.job, step.request, step.records, reason, error)
    first_seq = transitions.advance(connection, step.job.id, step.job.lease_token, end.values, new_events=1)
    if first_seq is not None:
        events.add(connection, step.job, first_seq, [end.event])
        complete(connection, step.job, end.values)
