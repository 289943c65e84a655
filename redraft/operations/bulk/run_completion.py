"""Ends runs and rounds of batches, and stores their webhook deliveries in the same unit of work. Sends next rounds."""

from collections.abc import Sequence
from typing import Literal

import structlog
from pydantic import Field
from sqlalchemy import Connection

from redraft.domain.bulk.gates import Gate
from redraft.domain.bulk.phrases import count
from redraft.domain.jobs.webhooks import RunEventType
from redraft.operations.bulk.run_resources import RunCounts, RunError, RunRound, run_resource, say_progress
from redraft.operations.resource_base import Moment, Resource, UsageTotals
from redraft.operations.services import Services
from redraft.storage.bulk import batches, run_items, runs
from redraft.storage.bulk.runs import RunRecord
from redraft.storage.jobs import parked_steps, webhooks

log = structlog.get_logger()


class RunGate(Resource):
    """The result of a gate."""

    gate: Gate
    passed: bool
    words: str


class RunFinished(Resource):
    """The payload of the events `run.finished` and `run.gate_failed`. It has no questions or answers.

    Items of a canceled run may still be running, since their jobs are canceled right after the run.
    """

    message: str
    at: Moment
    id: str
    name: str
    status: Literal["succeeded", "canceled"]
    stop_reason: Literal["finished", "budget_exhausted", "canceled", "error"]
    error: RunError | None
    counts: RunCounts
    usage: UsageTotals
    version: int
    gates: list[RunGate] | None = Field(default=None, description="The results of the gates, of `run.gate_failed`.")


class RoundFinished(Resource):
    """The payload of the event `run.round_finished`: the results of all batches of the round are stored."""

    message: str
    at: Moment
    id: str
    name: str
    round: RunRound
    counts: RunCounts
    usage: UsageTotals
    version: int


def end_run(connection: Connection, run_id: str, status: str, stop_reason: str) -> None:
    """End a run whose row this unit of work has locked, and store the delivery for its webhook."""
    # One unit of work: a crash must not leave an ended run without its delivery
    record = runs.finish(connection, run_id, status, stop_reason)
    _store_delivery(connection, record, "run.finished")


def report_failed_gates(connection: Connection, run_id: str, gates: Sequence[RunGate]) -> None:
    """Store the delivery of `run.gate_failed` for the webhook of an ended run."""
    # The deliveries of a run are numbered by its version
    runs.change(connection, run_id)
    if record := runs.get(connection, run_id):
        _store_delivery(connection, record, "run.gate_failed", gates)


def _store_delivery(
    connection: Connection, record: RunRecord, event_type: RunEventType, gates: Sequence[RunGate] | None = None
) -> None:
    if record.webhook is None:
        return
    run = run_resource(connection, record)
    fields = run.model_dump(include={"id", "name", "status", "stop_reason", "error", "counts", "usage", "version"})
    failed = [gate.words for gate in gates or () if not gate.passed]
    message = " ".join(failed) or say_progress(run)
    event = RunFinished.model_validate({**fields, "message": message, "at": record.finished_at, "gates": gates})
    body = event.model_dump(mode="json")
    webhooks.add_of_run(connection, record.id, record.webhook, record.version, event_type, body)


def end_round(connection: Connection, run_id: str, number: int) -> None:
    """Store the delivery that tells a run's webhook that a round of batches has ended. The caller locks the run."""
    # Each delivery of a run has another version
    runs.change(connection, run_id)
    record = runs.get(connection, run_id)
    if record is None or record.webhook is None:
        return
    run = run_resource(connection, record)
    ended = next(each for each in run.rounds if each.number == number)
    fields = run.model_dump(include={"id", "name", "counts", "usage", "version"})
    message = f"Round {number}: {count(ended.succeeded, 'call')} succeeded, {ended.failed} failed. {say_progress(run)}"
    event = RoundFinished.model_validate({**fields, "round": ended, "message": message, "at": ended.ended_at})
    payload = event.model_dump(mode="json")
    webhooks.add_of_run(connection, run_id, record.webhook, record.version, "run.round_finished", payload)


def send_round(services: Services, run_id: str) -> None:
    """Make the collected calls of a run the next round, unless a step of the run can still be executed."""
    with services.database.read() as connection:
        run = runs.get(connection, run_id)
        if run is None or run.delivery != "batch" or not _is_round_complete(connection, run):
            return
    with services.database.write() as connection:
        run = runs.lock(connection, run_id)
        if run is not None and run.status == "running" and _is_round_complete(connection, run):
            ready = batches.make_ready(connection, run_id)
            log.info("round_ready", run_id=run_id, batches=ready)


def _is_round_complete(connection: Connection, run: RunRecord) -> bool:
    """Whether all calls of the next round are collected: no step can be executed now, and no batch is unfinished."""
    if parked_steps.has_working(connection, run.id) or batches.has_round_out(connection, run.id):
        return False
    if parked_steps.has_resumable(connection, run.id):
        return False
    # With a budget, more items may be affordable only when this round has results, so the round does not wait for them
    return run.max_cost_nano_usd is not None or not run_items.has_startable(connection, run.id)
