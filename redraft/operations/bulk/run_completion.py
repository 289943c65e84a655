"""Ends a run, and stores the webhook delivery in the same unit of work."""

from typing import Literal

from sqlalchemy import Connection

from redraft.operations.bulk.run_resources import RunCounts, RunError, run_resource, say_progress
from redraft.operations.resource_base import Moment, Resource, UsageTotals
from redraft.storage.bulk import runs
from redraft.storage.jobs import webhooks


class RunFinished(Resource):
    """The payload of the event `run.finished`. It has no questions or answers.

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


def end_run(connection: Connection, run_id: str, status: str, stop_reason: str) -> None:
    """End a run whose row this unit of work has locked, and store the delivery for its webhook."""
    # One unit of work: a crash must not leave an ended run without its delivery
    record = runs.finish(connection, run_id, status, stop_reason)
    if record.webhook is None:
        return
    run = run_resource(connection, record)
    fields = run.model_dump(include={"id", "name", "status", "stop_reason", "error", "counts", "usage", "version"})
    event = RunFinished.model_validate({**fields, "message": say_progress(run), "at": record.finished_at})
    webhooks.add_of_run(
        connection, run_id, record.webhook, record.version, "run.finished", event.model_dump(mode="json")
    )
