"""Stores, reads and changes schedules of runs, and the times (ticks) at which they started runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from redraft.storage.engine import query_parts
from redraft.storage.engine.bulk_tables import run_schedules, runs, schedule_ticks
from redraft.storage.engine.tables import jobs


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    id: str
    name: str
    cron: str
    dataset_id: str
    request: dict[str, Any]
    gates: dict[str, Any] | None
    next_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TickRecord:
    schedule_id: str
    tick: datetime
    run_id: str | None
    error: dict[str, Any] | None
    gates: list[dict[str, Any]] | None


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    connection.execute(insert(run_schedules).values(**values))


def get(connection: Connection, schedule_id: str, *, is_locked: bool = False) -> ScheduleRecord | None:
    """Return a schedule. If `is_locked`, lock it until the unit of work ends."""
    query = select(run_schedules).where(run_schedules.c.id == schedule_id)
    row = query_parts.fetch_one(connection, query.with_for_update() if is_locked else query)
    return None if row is None else ScheduleRecord(**row)


def list_page(connection: Connection, after: query_parts.ListPosition | None, limit: int) -> list[ScheduleRecord]:
    query = query_parts.list_newest(run_schedules, after, limit)
    return [ScheduleRecord(**row) for row in query_parts.fetch_all(connection, query)]


def list_due(connection: Connection, now: datetime) -> list[ScheduleRecord]:
    query = select(run_schedules).where(run_schedules.c.next_at <= now).order_by(run_schedules.c.next_at)
    return [ScheduleRecord(**row) for row in query_parts.fetch_all(connection, query)]


def set_next(connection: Connection, schedule_id: str, next_at: datetime | None) -> None:
    connection.execute(update(run_schedules).where(run_schedules.c.id == schedule_id).values(next_at=next_at))


def remove(connection: Connection, schedule_id: str) -> None:
    connection.execute(delete(run_schedules).where(run_schedules.c.id == schedule_id))


def one_of_dataset(connection: Connection, dataset_id: str) -> str | None:
    return connection.scalar(select(run_schedules.c.id).where(run_schedules.c.dataset_id == dataset_id).limit(1))


def add_tick(connection: Connection, values: Mapping[str, Any]) -> bool:
    """Store a tick. Return False and store nothing if the schedule already has this tick."""
    return query_parts.insert_if_absent(connection, schedule_ticks, values, ("schedule_id", "tick"))


def list_ticks(connection: Connection, schedule_ids: Sequence[str], limit: int) -> dict[str, list[TickRecord]]:
    """Return the newest ticks of each schedule, newest first."""
    newest = func.row_number().over(partition_by=schedule_ticks.c.schedule_id, order_by=schedule_ticks.c.tick.desc())
    ranked = select(schedule_ticks, newest.label("rank")).where(schedule_ticks.c.schedule_id.in_(schedule_ids))
    ticks = ranked.subquery()
    query = select(*(ticks.c[name] for name in schedule_ticks.c.keys())).where(ticks.c.rank <= limit)  # noqa: SIM118
    found: defaultdict[str, list[TickRecord]] = defaultdict(list)
    for row in query_parts.fetch_all(connection, query.order_by(ticks.c.tick.desc())):
        found[row["schedule_id"]].append(TickRecord(**row))
    return found


def is_last_running(connection: Connection, schedule_id: str) -> bool:
    """Whether a run of the schedule has not ended."""
    is_of_schedule = and_(schedule_ticks.c.schedule_id == schedule_id, schedule_ticks.c.run_id == runs.c.id)
    return query_parts.exists(connection, is_of_schedule, runs.c.status == "running")


def list_unchecked(connection: Connection) -> list[TickRecord]:
    """Return the ticks whose runs have ended, and whose gates are not checked yet."""
    query = (
        select(schedule_ticks)
        .join(run_schedules, run_schedules.c.id == schedule_ticks.c.schedule_id)
        .join(runs, runs.c.id == schedule_ticks.c.run_id)
        .where(run_schedules.c.gates.is_not(None), schedule_ticks.c.gates.is_(None), runs.c.status != "running")
        .order_by(schedule_ticks.c.tick)
    )
    return [TickRecord(**row) for row in query_parts.fetch_all(connection, query)]


def run_before(connection: Connection, tick: TickRecord) -> str | None:
    """Return the latest earlier run of the schedule that finished all its items."""
    query = (
        select(runs.c.id)
        .join(schedule_ticks, schedule_ticks.c.run_id == runs.c.id)
        .where(schedule_ticks.c.schedule_id == tick.schedule_id, schedule_ticks.c.tick < tick.tick)
        .where(runs.c.stop_reason == "finished")
        .order_by(schedule_ticks.c.tick.desc())
        .limit(1)
    )
    return connection.scalar(query)


def store_gates(connection: Connection, tick: TickRecord, results: Sequence[Mapping[str, Any]]) -> bool:
    """Store the results of the gates. Return False if another worker has stored them."""
    is_tick = and_(schedule_ticks.c.schedule_id == tick.schedule_id, schedule_ticks.c.tick == tick.tick)
    statement = update(schedule_ticks).where(is_tick, schedule_ticks.c.gates.is_(None)).values(gates=list(results))
    return connection.execute(statement).rowcount == 1


def mean_scores(connection: Connection, run_ids: Sequence[str]) -> dict[str, float]:
    """Return the mean score of the returned answers of each run."""
    query = select(jobs.c.run_id, func.avg(jobs.c.best_score)).where(
        jobs.c.run_id.in_(run_ids), jobs.c.best_score.is_not(None)
    )
    return dict(connection.execute(query.group_by(jobs.c.run_id)).all())
