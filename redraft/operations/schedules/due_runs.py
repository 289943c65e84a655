"""Starts the due runs of schedules, and checks the gates of ended runs. Every worker does both on a timer."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

import structlog

from redraft.domain.bulk.comparison import compare
from redraft.domain.bulk.gates import check_gates
from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.bulk.schedule_requests import RunGates
from redraft.errors import Conflict, Invalid, NotFound, Unavailable
from redraft.operations.bulk import run_results, runs
from redraft.operations.bulk.run_completion import RunGate, report_failed_gates
from redraft.operations.jobs.submit import Idempotency
from redraft.operations.schedules.cron import parse_cron
from redraft.operations.schedules.run_schedules import Clock, now_utc
from redraft.operations.services import Services
from redraft.storage.bulk import schedules as stored
from redraft.storage.bulk.schedules import ScheduleRecord, TickRecord

log = structlog.get_logger()


def start_due_runs(services: Services, *, clock: Clock = now_utc) -> None:
    """Start one run of each schedule whose time has come. Raises Unavailable if the database cannot be reached.

    After an outage, only the run for the latest missed time is started.
    """
    now = clock()
    with services.database.read() as connection:
        due = stored.list_due(connection, now)
    for schedule in due:
        _start(services, schedule, now)


def _start(services: Services, schedule: ScheduleRecord, now: datetime) -> None:
    cron = parse_cron(schedule.cron, now)
    tick = cron.latest_until(now) or now
    run_id, error = None, None
    try:
        run_id = _run_of(services, schedule, tick)
    except (Invalid, NotFound, Conflict) as refused:
        error = {"code": refused.code, "detail": refused.message}
        log.warning("scheduled_run_not_started", schedule_id=schedule.id, reason=refused.message)
    except Unavailable:
        raise
    except Exception:
        # The failure of one schedule must not block the others
        error = {"code": "internal_error", "detail": "The run could not be started. The worker's log has the reason."}
        log.exception("scheduled_run_not_started", schedule_id=schedule.id)
    with services.database.write() as connection:
        current = stored.get(connection, schedule.id, is_locked=True)
        if current is None or current.next_at != schedule.next_at:
            return
        stored.add_tick(connection, {"schedule_id": schedule.id, "tick": tick, "run_id": run_id, "error": error})
        stored.set_next(connection, schedule.id, cron.next_after(now))


def _run_of(services: Services, schedule: ScheduleRecord, tick: datetime) -> str:
    """Return the run of a tick, which is one of the schedule's times.

    Workers that call this at the same time, or again after a crash, get the same run, because they use the same key.
    """
    with services.database.read() as connection:
        if stored.is_last_running(connection, schedule.id):
            raise Conflict("The previous run of the schedule has not ended.", code="run_not_ended")
    body = CreateRun.model_validate(schedule.request)
    key = Idempotency(f"schedule {schedule.id}", f"{tick:%Y-%m-%dT%H:%MZ}")
    return runs.create_run(services, body, key)[0].id


def sweep_schedules(services: Services) -> None:
    """Start the due runs, and check the ended runs. Raises Unavailable if the database cannot be reached."""
    start_due_runs(services)
    check_ended_runs(services)


def check_ended_runs(services: Services) -> None:
    """Check the gates of ended runs, each run once. Raises Unavailable if the database cannot be reached."""
    with services.database.read() as connection:
        unchecked = stored.list_unchecked(connection)
    for tick in unchecked:
        try:
            results = _check(services, tick)
        except Unavailable:
            raise
        except Exception:
            log.exception("gates_not_checked", schedule_id=tick.schedule_id, run_id=tick.run_id)
            continue
        with services.database.write() as connection:
            # Several workers may check the same run. Only the worker that stores the results first reports failed gates
            is_first = stored.store_gates(connection, tick, [result.model_dump() for result in results])
            if is_first and tick.run_id and not all(result.passed for result in results):
                report_failed_gates(connection, tick.run_id, results)


def _check(services: Services, tick: TickRecord) -> Sequence[RunGate]:
    """Return the results of the gates. The list is empty for a run that a person has canceled."""
    with services.database.read() as connection:
        schedule = stored.get(connection, tick.schedule_id)
        baseline_id = stored.run_before(connection, tick)
    if schedule is None or tick.run_id is None:
        return []
    if runs.get_run(services, tick.run_id).stop_reason == "canceled":
        return []
    gates = RunGates.model_validate(schedule.gates or {})
    items = run_results.outcomes(services, tick.run_id)
    comparison = compare(run_results.outcomes(services, baseline_id), items) if baseline_id else None
    # The first run has no earlier run to be compared with
    results = check_gates(
        items,
        comparison,
        min_pass_rate=gates.min_pass_rate,
        fail_on_regression=gates.fail_on_regression and comparison is not None,
    )
    return [RunGate(**asdict(result)) for result in results]
