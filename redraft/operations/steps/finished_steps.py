"""Stores the result of a step: its replies, its rows and events, and the job's next step with a lease for it.

A step whose calls go into a batch has no result yet. It is parked instead.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from redraft.domain.jobs.requests import RescoreAnswers
from redraft.domain.jobs.states import Step
from redraft.operations.calls.budgets import worst_of
from redraft.operations.calls.call_outcomes import batch_warnings
from redraft.operations.calls.ledger import RECORD_REPLY_S, close_changes, record_outcomes, unstored_usage
from redraft.operations.calls.model_calls import Outcome, PlannedCall
from redraft.operations.fault_points import FaultPoint, reached
from redraft.operations.results.completion import announce, is_end, is_observed, item_changes, observe
from redraft.operations.steps.context import CLAIMED, StepContext, StepResult, message_of, notify
from redraft.operations.steps.rate_limits import PreparedStep
from redraft.operations.steps.step_events import started
from redraft.storage.bulk import batches
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.driver import Statement
from redraft.storage.engine.statements import Rows, collecting_rows
from redraft.storage.engine.unit_of_work import notify_after_commit
from redraft.storage.jobs import calls, events, parked_steps, transitions

log = structlog.get_logger()


def finish(step: StepContext, result: StepResult, following: PreparedStep | None) -> float | None:
    """Store the replies, advance the job if the lease is still ours, and claim the next step (stage 5 of the executor).

    Returns:
        The time of the last request for the lease of the next step, by the clock of the services. None if the lease
        was lost: then only the ledger was changed.
    """
    asked_at = 0.0

    def store(connection: Connection) -> bool:
        nonlocal asked_at
        asked_at = step.services.clock.monotonic()
        return _store(step, result, following, connection)

    database = step.services.database
    try:
        is_ours = False
        if database.group_commit and _is_plain(step, result):
            asked_at = step.services.clock.monotonic()
            reached(FaultPoint.STORING, step.job.id)
            row = database.group_commit.execute(step.job.id, partial(_statement, step, result, following))
            is_ours = row is not None and row[0] is not None
        # If the statement was not stored, `_store` finds out why in a transaction of its own
        is_ours = is_ours or database.persist(store, for_s=RECORD_REPLY_S)
    except _CameSecond:
        _start_over(step, result.outcomes)
        return None
    reached(FaultPoint.STORED, step.job.id)
    announce(step.services, step.job, has_ended=bool(is_ours and result.values and is_end(result.values)))
    if not is_ours:
        log.info("late_result_kept_in_ledger", job_id=step.job.id, step=step.job.step)
    return asked_at if is_ours else None


def _store(step: StepContext, result: StepResult, following: PreparedStep | None, connection: Connection) -> bool:
    if result.values is None:
        record_outcomes(connection, step.job.id, result.outcomes)
        return False
    advance, rows = _changes_of(step, result, following, connection)
    changes = [*close_changes(result.outcomes), *item_changes(step.job, result.values)]
    closed = transitions.advance_with(connection, step.job, advance, changes, rows)
    if closed is None:
        record_outcomes(connection, step.job.id, result.outcomes)
        return False
    # The exception rolls back this transaction. Otherwise the job would continue with a text that is not the recorded
    # reply of its slot
    if any(outcome.came_second for outcome in result.outcomes) or "dup" in closed:
        raise _CameSecond
    observe(connection, step.job, result.values)
    reached(FaultPoint.STORING, step.job.id)
    return True


def _is_plain(step: StepContext, result: StepResult) -> bool:
    """Whether one statement can store the step: it made one call, and changes no other job and no observation."""
    if result.values is None or is_observed(step.job, result.values):
        return False
    opened = [outcome for outcome in result.outcomes if outcome.call_id and outcome.row_update]
    return len(opened) == len(result.outcomes) == 1 and not isinstance(step.request, RescoreAnswers)


def _statement(
    step: StepContext, result: StepResult, following: PreparedStep | None, connection: Connection
) -> Statement:
    advance, rows = _changes_of(step, result, following, connection)
    (outcome,) = result.outcomes
    changes = [*close_changes(result.outcomes), *item_changes(step.job, result.values or {})]
    return transitions.single_advance(connection, step.job, advance, str(outcome.call_id), changes, rows)


def _changes_of(
    step: StepContext, result: StepResult, following: PreparedStep | None, connection: Connection
) -> tuple[transitions.Advance, Sequence[Rows]]:
    """Return the change of the job's row, and the rows to store with it."""
    new = list(result.events)
    if following:
        new += started(following.step.job, starts_job=False, starts_iteration=result.next_step is Step.GENERATE)
    with collecting_rows(connection) as rows:
        events.add(connection, step.job, step.job.event_seq + 1, new)
        result.write(connection)
        if following:
            calls.open_calls(connection, [call.row for call in following.planned])
    advance = transitions.Advance(
        _columns(result, following),
        usage=unstored_usage(result.outcomes),
        new_events=len(new),
        keep_lease_s=step.holder.lease_s if following else None,
    )
    return advance, rows


def _columns(result: StepResult, following: PreparedStep | None) -> Mapping[str, Any]:
    values = result.values or {}
    if following:
        # `available_at` is not changed, which saves a change of its index. A claimed step is due anyway
        return {**values, **CLAIMED}
    return {"available_at": DbNow(), **values} if result.next_step else values


class _CameSecond(Exception):  # noqa: N818 - a state, and never seen outside of this module
    """The ledger already has another reply for this slot. The job must continue with that reply."""


def _start_over(step: StepContext, outcomes: Sequence[Outcome]) -> None:
    """Release the step unchanged, so that the next claim uses the replies that were recorded first."""
    again = {"available_at": DbNow(), "rung_at": DbNow()}

    def work(connection: Connection) -> None:
        transitions.advance(connection, step.job.id, step.job.lease_token, again)
        record_outcomes(connection, step.job.id, outcomes)

    step.services.database.persist(work, for_s=RECORD_REPLY_S)
    notify(step.services, message_of(step.job))


def park(step: StepContext, planned: Sequence[PlannedCall]) -> None:
    """Add calls to the collecting batches of the run, and release the step until their results are stored."""
    step.services.database.persist(partial(_park, step, planned), for_s=RECORD_REPLY_S)
    reached(FaultPoint.PARKED, step.job.id)


def _park(step: StepContext, planned: Sequence[PlannedCall], connection: Connection) -> None:
    job, run_id = step.job, step.job.run_id
    # The condition on the lease also prevents a repeated unit of work from adding the calls twice
    if run_id is None or not transitions.holds_lease(connection, job.id, job.lease_token):
        return
    by_model = {model: batches.collecting_id(connection, run_id, model) for model in _models_of(planned)}
    rows = [{**call.row, "batch_id": by_model[str(call.chat.model)]} for call in planned]
    calls.open_calls(connection, rows)
    if step.spent is not None and step.spent.run_leaves is not None:
        for row in rows:
            batches.reserve(connection, row["batch_id"], worst_of(step.services, [row]))
    values = parked_steps.parked(step.remaining_s())
    if new := [warning for warning in batch_warnings(planned) if warning not in job.warnings]:
        values["warnings"] = [*job.warnings, *new]
    transitions.advance(connection, job.id, job.lease_token, values)
    # The scheduler sends the round when no step of the run can be executed any more
    notify_after_commit(connection, "runs")


def _models_of(planned: Sequence[PlannedCall]) -> list[str]:
    # Always in the same order, because two units of work that lock batches in different orders deadlock
    return sorted({str(call.chat.model) for call in planned})
