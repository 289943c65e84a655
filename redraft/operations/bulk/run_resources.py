"""The resource of a bulk run, for the API, the command line and the pages."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Connection

from redraft.domain.bodies.fields import As
from redraft.domain.bulk.run_requests import RunWebhook
from redraft.domain.jobs.requests import JobFields
from redraft.operations.resource_base import Moment, Resource, Urls, UsageTotals, cost_usd, latency_ms
from redraft.storage.bulk import run_items, run_listing, runs
from redraft.storage.bulk.runs import RunRecord

_STATUSES = ("queued", "running", "succeeded", "failed", "canceled", "invalid")


class RunCounts(Resource):
    """The number of items by status. `total` is the sum of all statuses at any time."""

    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int
    invalid: int
    accepted: int = Field(description="Succeeded items whose answer was accepted.")


class RunError(Resource):
    """The reason why items of a run cannot be started, or were given up."""

    code: str
    detail: str
    pointer: str = Field(description="JSON pointer to a field of the row or of the run.")
    items: int = Field(description="The number of items that the error delays, or that were given up.")
    since: Moment


class Run(Resource):
    """A run: a job for each row of a dataset."""

    id: str
    object: Literal["run"] = "run"
    name: str
    dataset_id: str
    status: Literal["running", "succeeded", "canceled"]
    stop_reason: Literal["finished", "budget_exhausted", "canceled", "error"] | None
    error: RunError | None = Field(
        default=None,
        description="The reason why items are not started. Workers retry them for REDRAFT_RUN_GIVE_UP_S seconds.",
    )
    created_at: Moment
    finished_at: Moment | None
    counts: RunCounts
    usage: UsageTotals
    repeat: int
    max_in_flight: int
    max_cost_usd: str | None
    webhook: RunWebhook | None
    defaults: Annotated[dict[str, Any], As(JobFields)]
    overrides: Annotated[dict[str, Any], As(JobFields)]
    version: int
    urls: Urls


def run_resource(connection: Connection, run: RunRecord) -> Run:
    """The current state of a run."""
    stalled = run_items.first_postponement(connection, run.id)
    totals = run_listing.totals(connection, [run.id]).get(run.id)
    whole_ms = latency_ms(run.created_at, run.finished_at)
    # The time between an end and a resume does not count
    active_ms = None if whole_ms is None else max(0, whole_ms - (run.idle_ms or 0))
    base = f"/v1/runs/{run.id}"
    parts = ("items", "results", "report", "compare", "events", "cancel", "resume")
    return Run.from_row(
        run,
        error=stalled and RunError(**stalled[0], items=stalled[1]),
        counts=counts_of(run_items.count(connection, [run.id])[run.id], totals.accepted if totals else 0),
        usage=UsageTotals.of(runs.sums(connection, run.id), active_ms),
        max_cost_usd=cost_usd(run.max_cost_nano_usd),
        urls={"self": base, **{part: f"{base}/{part}" for part in parts}},
    )


def counts_of(by_status: Mapping[str, int], accepted: int) -> RunCounts:
    counted = {name: by_status.get(name, 0) for name in _STATUSES}
    return RunCounts(total=sum(counted.values()), **counted, accepted=accepted)


def say_progress(run: Run) -> str:
    """The progress of a run in a sentence, with the stop reason if it has ended."""
    counts = run.counts
    ended = counts.total - counts.queued - counts.running
    reported = f"{ended} of {counts.total} items have ended, {counts.accepted} of them accepted"
    if run.status == "running":
        return f"{reported}; {counts.running} are running."
    return f"{reported}; the run has ended: {run.stop_reason}."
