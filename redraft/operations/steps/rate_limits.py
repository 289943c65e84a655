"""Acquires permits for the calls of a step, or reschedules the step."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redraft.errors import ProviderError
from redraft.messages import StepMessage
from redraft.operations.calls.model_calls import Outcome, PlannedCall
from redraft.operations.request_views import models_of
from redraft.operations.services import Services
from redraft.operations.steps import context
from redraft.operations.steps.context import StepContext
from redraft.rate_limiter import LimiterSession, Permit
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs import calls, transitions


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step with its planned calls. The calls are reserved unless they still need permits."""

    step: StepContext
    planned: Sequence[PlannedCall]
    needs_permits: bool = False
    needs_planning: bool = False
    """Whether the calls are not planned yet, because planning takes too long for the unit of work of the claim."""
    for_batch: Sequence[PlannedCall] = ()
    """The calls that go into a batch. If there are any, the step is parked and makes no call."""

    @property
    def message(self) -> StepMessage:
        return context.message_of(self.step.job)

    @property
    def wanted(self) -> Mapping[str, Sequence[str]]:
        """The ids of the calls by model; empty if the step makes no call."""
        by_model: dict[str, list[str]] = {}
        for call in self.planned:
            by_model.setdefault(str(call.chat.model), []).append(call.row["id"])
        if by_model or not self.step.recorded:
            return by_model
        # The first reply is recorded, but a retry may need a permit
        job = self.step.job
        return {model: [f"{job.id}|{job.lease_token}"] for model in models_of(job, self.step.request)}


@dataclass(frozen=True, slots=True)
class Deferred:
    """A step that got no permits, with the model for which it waits, and the length of the wait."""

    model: str
    permit: Permit

    @property
    def values(self) -> dict[str, Any]:
        """The new columns of the waiting step, with jitter, so that steps are not due at the same moment.

        A step that waits for a slot is due at once, and is notified when a slot is free. If this message is lost, the
        sweeper notifies the step again. The pause before the second message grows with the number of waiting steps.
        """
        wait_s = round(self.permit.wait_s * random.uniform(1.0, 1.5), 3)  # noqa: S311 - spreads load, guards nothing
        if self.permit.is_queued:
            return {"available_at": DbNow(), "rung_at": DbNow(wait_s)}
        return {"available_at": DbNow(wait_s), "rung_at": None}


def prepare(step: StepContext, planned: Sequence[PlannedCall]) -> PreparedStep:
    """Return the planned step, and set `needs_permits`. Uses no database and no broker."""
    prepared = PreparedStep(step, planned)
    return replace(prepared, needs_permits=any(step.services.limiter.must_acquire(model) for model in prepared.wanted))


def enter(prepared: PreparedStep, session: LimiterSession) -> PreparedStep | Deferred:
    """Acquire permits for the calls of a step, outside of any unit of work.

    Speculative calls are dropped if not all calls can run at the same time.
    """
    model, permit = session.acquire(prepared.message, prepared.wanted)
    planned = [call for call in prepared.planned if not call.slot.is_speculative]
    if permit.width >= len(prepared.planned):
        planned = prepared.planned
    elif not permit.width and len(planned) < len(prepared.planned):
        return enter(replace(prepared, planned=planned), session)
    if not permit.width:
        return Deferred(model, permit)
    return PreparedStep(replace(prepared.step, width=permit.width), planned)


def ask(prepared: PreparedStep, session: LimiterSession) -> PreparedStep | None:
    """Acquire permits for a claimed step, and reserve its calls. None if it gets no permits, or lost the lease."""
    admitted = enter(prepared, session)
    job, database = prepared.step.job, prepared.step.services.database
    if isinstance(admitted, Deferred):
        with database.write() as connection:
            is_ours = transitions.advance(connection, job.id, job.lease_token, admitted.values) is not None
        if is_ours:
            wait(prepared.step.services, prepared.message, admitted)
        return None
    with database.write() as connection:
        if not transitions.holds_lease(connection, job.id, job.lease_token):
            return None
        calls.open_calls(connection, [call.row for call in admitted.planned])
    return admitted


def wait(services: Services, message: StepMessage, deferred: Deferred) -> None:
    """Queue a step for a slot. Call this after the commit: earlier, a notified worker would find the step claimed."""
    if deferred.permit.is_queued:
        services.limiter.queue_for_slot(message, deferred.model)


def record(session: LimiterSession, outcomes: Sequence[Outcome]) -> None:
    """Report outcomes to the limiter. Recorded and cached replies are left out: they say nothing about the provider."""
    made: dict[str, dict[str, ProviderError | None]] = {}
    for outcome in outcomes:
        if outcome.call_id and not outcome.is_cached:
            made.setdefault(outcome.model, {})[outcome.call_id] = outcome.error
    for model, errors in made.items():
        session.record(model, errors)
