"""Creates, reads, pauses, resumes and deletes schedules of runs."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Connection

from redraft.datasets.items import Merger
from redraft.domain.bodies.fields import As
from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.bulk.schedule_requests import CreateSchedule, RunGates
from redraft.domain.jobs.ids import new_id
from redraft.errors import existing
from redraft.operations.bulk import datasets
from redraft.operations.bulk.run_completion import RunGate
from redraft.operations.bulk.runs import ensure_startable
from redraft.operations.cursors import next_cursor, read_cursor
from redraft.operations.jobs.webhooks import check_webhook
from redraft.operations.resource_base import Moment, Resource, Urls
from redraft.operations.schedules.cron import parse_cron
from redraft.operations.services import Services
from redraft.storage.bulk import datasets as stored_datasets
from redraft.storage.bulk import schedules as stored
from redraft.storage.bulk.schedules import ScheduleRecord, TickRecord

_TICKS = 10

Clock = Callable[[], datetime]


class TickError(Resource):
    """The reason why no run was started."""

    code: str
    detail: str


class Tick(Resource):
    """A time at which a schedule started a run."""

    tick: Moment
    run_id: str | None = Field(description="null if no run was started, or the run was deleted.")
    error: TickError | None
    gates: list[RunGate] | None = Field(description="null until the run has ended, or without gates.")


class Schedule(Resource):
    """A schedule, which starts a run of a dataset at regular times."""

    id: str
    object: Literal["schedule"] = "schedule"
    name: str
    status: Literal["active", "paused"]
    cron: str = Field(description="In UTC.")
    dataset_id: str
    run: Annotated[dict[str, Any], As(CreateRun)]
    gates: RunGates
    created_at: Moment
    next_at: Moment | None = Field(description="The time of the next run; null while the schedule is paused.")
    ticks: list[Tick] = Field(description="The newest ticks, newest first.")
    urls: Urls


def now_utc() -> datetime:
    return datetime.now(UTC)


def create_schedule(services: Services, body: CreateSchedule, *, clock: Clock = now_utc) -> Schedule:
    """Store a schedule. Its first run starts at the next time of its cron words.

    Raises Invalid for bad cron words (`invalid_cron`) or a run that could not start, and NotFound if there is no
    such dataset.
    """
    now = clock()
    cron = parse_cron(body.cron, now)
    check_webhook(services, body.run.webhook)
    with services.database.read() as connection:
        dataset = datasets.find(connection, body.run.dataset_id)
    # Checked now, so that the user learns of a mistake before the time of the first run
    ensure_startable(services, dataset.id, Merger(body.run.defaults, body.run.overrides), body.run)
    gates = body.gates.model_dump()
    schedule_id = new_id("schedule")
    row = {
        "id": schedule_id,
        "name": (body.run.name or "").strip() or dataset.name,
        "cron": " ".join(body.cron.split()),
        "dataset_id": dataset.id,
        "request": body.run.model_dump(mode="json", exclude_unset=True),
        "gates": gates if body.gates != RunGates() else None,
        "next_at": cron.next_after(now),
    }
    with services.database.write() as connection:
        stored_datasets.lock(connection, dataset.id, is_shared=True)
        # Checked again under the lock, since the dataset may have been deleted after the first check
        datasets.find(connection, dataset.id)
        stored.add(connection, row)
    return get_schedule(services, schedule_id)


def list_schedules(services: Services, *, cursor: str | None, limit: int) -> tuple[list[Schedule], str | None]:
    """A page of schedules, newest first, and the cursor of the next page. Raises Invalid for a bad cursor."""
    after = read_cursor(cursor)
    with services.database.read() as connection:
        records = stored.list_page(connection, after, limit)
        ticks = stored.list_ticks(connection, [record.id for record in records], 1)
    return [_resource(each, ticks.get(each.id, [])) for each in records[:limit]], next_cursor(records, limit)


def get_schedule(services: Services, schedule_id: str) -> Schedule:
    """A schedule with its newest ticks. Raises NotFound if there is no such schedule."""
    with services.database.read() as connection:
        record = find(connection, schedule_id)
        ticks = stored.list_ticks(connection, [schedule_id], _TICKS)
    return _resource(record, ticks.get(schedule_id, []))


def find(connection: Connection, schedule_id: str, *, is_locked: bool = False) -> ScheduleRecord:
    """The record of a schedule. Raises NotFound if there is no such schedule."""
    return existing(stored.get(connection, schedule_id, is_locked=is_locked), "schedule", schedule_id)


def pause_schedule(services: Services, schedule_id: str) -> Schedule:
    """Start no further runs. Raises NotFound if there is no such schedule."""
    with services.database.write() as connection:
        find(connection, schedule_id, is_locked=True)
        stored.set_next(connection, schedule_id, None)
    return get_schedule(services, schedule_id)


def resume_schedule(services: Services, schedule_id: str, *, clock: Clock = now_utc) -> Schedule:
    """Start runs again, but not those that the pause has skipped. Raises NotFound if there is no such schedule."""
    now = clock()
    with services.database.write() as connection:
        record = find(connection, schedule_id, is_locked=True)
        if record.next_at is None:
            stored.set_next(connection, schedule_id, parse_cron(record.cron, now).next_after(now))
    return get_schedule(services, schedule_id)


def delete_schedule(services: Services, schedule_id: str) -> None:
    """Delete a schedule. Its runs are kept. Raises NotFound if there is no such schedule."""
    with services.database.write() as connection:
        find(connection, schedule_id, is_locked=True)
        stored.remove(connection, schedule_id)


def _resource(record: ScheduleRecord, ticks: list[TickRecord]) -> Schedule:
    base, web = f"/v1/schedules/{record.id}", f"/runs/schedules/{record.id}"
    return Schedule.from_row(
        record,
        status="paused" if record.next_at is None else "active",
        run=record.request,
        gates=RunGates.model_validate(record.gates or {}),
        ticks=[Tick.from_row(tick) for tick in ticks],
        urls={"self": base, "pause": f"{base}/pause", "resume": f"{base}/resume", "web": web},
    )
