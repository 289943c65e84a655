"""A step before the gate: its calls are let in and reserved, or its row waits."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redraft.errors import ProviderError
from redraft.jobs import StepMessage
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
    """A step in hand with its calls, which are reserved, or still have to be asked for at the gate."""

    step: StepContext
    planned: Sequence[PlannedCall]
    needs_permits: bool = False
    needs_planning: bool = False
    """Its calls are not known yet: what they depend on takes too long for the claim's unit of work."""

    @property
    def message(self) -> StepMessage:
        return context.message_of(self.step.job)

    @property
    def wanted(self) -> Mapping[str, Sequence[str]]:
        """The calls of this step by the model that they go to; empty when it makes none."""
        by_model: dict[str, list[str]] = {}
        for call in self.planned:
            by_model.setdefault(str(call.chat.model), []).append(call.row["id"])
        if by_model or not self.step.recorded:
            return by_model
        # A second asking may follow a first one that is in the ledger already
        job = self.step.job
        return {model: [f"{job.id}|{job.lease_token}"] for model in models_of(job, self.step.request)}


@dataclass(frozen=True, slots=True)
class Deferred:
    """The gate let a step's calls not in: how its row waits, and for which model."""

    model: str
    permit: Permit

    @property
    def values(self) -> dict[str, Any]:
        """Jittered, so that those who were turned away together do not come back together.

        Who waits for a slot is due at once, for the ring that comes when one is free; the sweeper's ring, for one
        that got lost, comes the later the more wait.
        """
        wait_s = round(self.permit.wait_s * random.uniform(1.0, 1.5), 3)  # noqa: S311 - spreads load, guards nothing
        if self.permit.is_queued:
            return {"available_at": DbNow(), "rung_at": DbNow(wait_s)}
        return {"available_at": DbNow(wait_s), "rung_at": None}


def prepare(step: StepContext, planned: Sequence[PlannedCall]) -> PreparedStep:
    """A planned step; whether it has to ask is known without asking."""
    prepared = PreparedStep(step, planned)
    return replace(prepared, needs_permits=any(step.services.limiter.must_acquire(model) for model in prepared.wanted))


def enter(prepared: PreparedStep, session: LimiterSession) -> PreparedStep | Deferred:
    """Ask for the calls of a step, outside of any unit of work."""
    model, permit = session.acquire(prepared.message, prepared.wanted)
    if not permit.width:
        return Deferred(model, permit)
    return PreparedStep(replace(prepared.step, width=permit.width), prepared.planned)


def ask(prepared: PreparedStep, session: LimiterSession) -> PreparedStep | None:
    """Ask for a claimed step's calls, and reserve them; None when it was turned away, or is not ours any more."""
    admitted = enter(prepared, session)
    job, database = prepared.step.job, prepared.step.services.database
    if isinstance(admitted, Deferred):
        with database.write() as connection:
            is_ours = transitions.advance(connection, job.id, job.lease_token, admitted.values) is not None
        if is_ours:
            wait(prepared.step.services, prepared.message, admitted)
        return None
    with database.write() as connection:
        if not transitions.holds(connection, job.id, job.lease_token):
            return None
        calls.open_calls(connection, [call.row for call in admitted.planned])
    return admitted


def wait(services: Services, message: StepMessage, deferred: Deferred) -> None:
    """After the commit: who is called before the row is free would not be heard."""
    if deferred.permit.is_queued:
        services.limiter.queue_for_slot(message, deferred.model)


def record(session: LimiterSession, outcomes: Sequence[Outcome]) -> None:
    """What the providers have answered; replies out of the ledger or the cache say nothing of them."""
    made: dict[str, dict[str, ProviderError | None]] = {}
    for outcome in outcomes:
        if outcome.call_id and not outcome.is_cached:
            made.setdefault(outcome.model, {})[outcome.call_id] = outcome.error
    for model, errors in made.items():
        session.record(model, errors)
