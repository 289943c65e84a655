"""The resource of a bulk run, for the API, the command line and the pages."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Connection

from redraft.domain.bodies.fields import As
from redraft.domain.bulk.run_requests import RunWebhook
from redraft.domain.jobs.requests import JobFields
from redraft.operations.resource_base import Moment, Resource, Urls, UsageTotals, cost_usd, latency_ms
from redraft.storage.bulk import batches, run_items, run_listing, runs
from redraft.storage.bulk.batches import BatchRecord
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
    """The reason why items of a run cannot be started, or were canceled because they could not be started for long."""

    code: str
    detail: str
    pointer: str = Field(description="JSON pointer to a field of the row or of the run.")
    items: int = Field(description="The number of items that the error delays, or that were canceled because of it.")
    since: Moment


class RunBatch(Resource):
    """A batch of calls of a run to one model."""

    id: str
    model: str
    status: Literal["ready", "sent", "ended"]
    provider_batch_id: str | None
    provider_status: str | None = Field(description="The provider's own word for the state.")
    total: int
    done: int = Field(description="The calls that the provider has ended, as it reports them.")
    succeeded: int = Field(description="The calls whose replies are stored.")
    failed: int
    submitted_at: Moment | None
    expires_at: Moment | None = Field(description="The latest time at which the provider ends the batch.")
    ended_at: Moment | None
    error: str | None = Field(description="Why the provider refused the batch, or why the last request for it failed.")
    odd_line_count: int = Field(description="Lines of the results that belong to no call of the batch.")


class RunRound(Resource):
    """The batches of a run that were sent together. The next round follows when all of them have ended."""

    number: int
    total: int
    done: int
    succeeded: int
    failed: int
    started_at: Moment
    expires_at: Moment | None
    ended_at: Moment | None
    wall_s: float | None = Field(description="The time from the start of the round to its end, in seconds.")
    batches: list[RunBatch]


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
    delivery: Literal["live", "batch"] = "live"
    delivery_reason: str | None = Field(
        default=None, description="Why `delivery: auto` chose this delivery; otherwise null."
    )
    rounds: list[RunRound] = Field(default=[], description="The rounds of batches, the first one first.")
    saved_usd: str | None = Field(default=None, description="The live price of the batches less their cost.")
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
    rounds, saved = rounds_of(connection, run)
    base = f"/v1/runs/{run.id}"
    parts = ("items", "results", "report", "compare", "events", "cancel", "resume")
    return Run.from_row(
        run,
        error=stalled and RunError(**stalled[0], items=stalled[1]),
        counts=counts_of(run_items.count(connection, [run.id])[run.id], totals.accepted if totals else 0),
        usage=UsageTotals.of(runs.sums(connection, run.id), active_ms),
        max_cost_usd=cost_usd(run.max_cost_nano_usd),
        rounds=rounds,
        saved_usd=saved,
        urls={"self": base, **{part: f"{base}/{part}" for part in parts}},
    )


def rounds_of(connection: Connection, run: RunRecord) -> tuple[list[RunRound], str | None]:
    """The rounds of a run that is delivered by batches, and what its batches have saved in USD."""
    if run.delivery != "batch":
        return [], None
    records = batches.of_run(connection, run.id)
    by_round = groupby(records, key=lambda batch: batch.round or 0)
    saved = cost_usd(sum(batch.saved_nano_usd for batch in records))
    return [_round(number, list(found)) for number, found in by_round], saved


def _round(number: int, found: Sequence[BatchRecord]) -> RunRound:
    started_at = min(batch.ready_at or batch.created_at for batch in found)
    ends = [batch.ended_at for batch in found]
    ended_at = max((end for end in ends if end), default=None) if all(ends) else None
    return RunRound(
        number=number,
        total=sum(batch.total for batch in found),
        done=sum(max(batch.done, batch.succeeded + batch.failed) for batch in found),
        succeeded=sum(batch.succeeded for batch in found),
        failed=sum(batch.failed for batch in found),
        started_at=started_at,
        expires_at=max((batch.expires_at for batch in found if batch.expires_at), default=None),
        ended_at=ended_at,
        wall_s=round((ended_at - started_at).total_seconds(), 3) if ended_at else None,
        batches=[RunBatch.from_row(batch) for batch in found],
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
