"""The newest runs of a schedule with their figures, for the trend on its page."""

from collections.abc import Sequence
from dataclasses import dataclass

from redraft.operations.bulk.run_listing import RunLine, lines_of
from redraft.operations.schedules.run_schedules import Schedule, Tick, get_schedule
from redraft.operations.services import Services
from redraft.storage.bulk import runs, schedules

_RUNS = 30


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """A run of a schedule. `mean_score` is the mean score of its returned answers; None if no answer has a score."""

    tick: Tick
    line: RunLine
    mean_score: float | None


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule with its newest runs, newest first."""

    schedule: Schedule
    runs: Sequence[ScheduledRun]


def view_schedule(services: Services, schedule_id: str) -> ScheduleView:
    """View a schedule with its newest runs. Raises NotFound if there is no such schedule."""
    schedule = get_schedule(services, schedule_id)
    with services.database.read() as connection:
        ticks = schedules.list_ticks(connection, [schedule_id], _RUNS).get(schedule_id, [])
        records = [run for tick in ticks if tick.run_id and (run := runs.get(connection, tick.run_id))]
        lines = {line.id: line for line in lines_of(connection, records)}
        means = schedules.mean_scores(connection, list(lines))
    shown = [
        ScheduledRun(Tick.from_row(tick), lines[tick.run_id], means.get(tick.run_id))
        for tick in ticks
        if tick.run_id in lines
    ]
    return ScheduleView(schedule, shown)
