"""Builds the Celery app of a worker process, its services and its timers."""

from concurrent.futures import Future
from functools import partial

import structlog
from celery import Celery, signals
from celery.worker import state

from redraft.errors import RedraftError
from redraft.logs import configure_logs
from redraft.messages import StepMessage
from redraft.operations.admin.deliveries import Deliverer
from redraft.operations.admin.setting_errors import load_settings_or_exit
from redraft.operations.batches.delivery import BatchDelivery
from redraft.operations.bulk.scheduler import RunScheduler
from redraft.operations.calls.step_work import Work
from redraft.operations.schedules.due_runs import sweep_schedules
from redraft.operations.steps.engine import DATABASE_CONNECTIONS, Engine
from redraft.operations.steps.executor import run
from redraft.operations.steps.leases import LeaseHolder
from redraft.queue import canary_listener, celery_options
from redraft.runtime import build_runtime
from worker.consumer import STEPS, StepTask
from worker.monitoring import Monitor
from worker.step_exceptions import handle_failures
from worker.sweeper import Sweeper
from worker.timers_and_shutdown import Schedule, Timer
from worker.watchdog import CHECKS_PER_PERIOD, Watchdog

log = structlog.get_logger()

# At the end of the grace period, the process waits for the webhooks in flight for at most this time
_LAST_DELIVERIES_S = 3.0

settings = load_settings_or_exit()
celery_app = Celery("redraft", include=["worker.tasks"], task_cls=StepTask)

# Created at the import, before any thread needs them. They connect on first use
services = build_runtime(settings, database_connections=DATABASE_CONNECTIONS, plans_once=True)
engine = Engine()
monitor = Monitor()
lease_holder = LeaseHolder(settings, abort=engine.abort)
celery_app.conf.update(
    celery_options(settings, socket_timeout_s=5), task_queues=[*STEPS, canary_listener(lease_holder.owner)]
)


def begin_step(message: StepMessage) -> Future[None]:
    """Begin a step and the next steps of its job. The future is done when this worker leaves the job."""
    step = engine.start(message.job_id, _work_on(message))
    step.add_done_callback(_log_failure)
    return step


def _log_failure(step: Future[None]) -> None:
    error = step.exception()
    if error is not None:
        # The step could not be rescheduled either. Its lease expires, and the sweeper recovers it
        log.error("step_failed", exc_info=error)


def _work_on(message: StepMessage) -> Work[None]:
    with handle_failures(services, message.job_id):
        yield from run(services, lease_holder, message, goes_on=_goes_on, watch=monitor.watch)


def _goes_on() -> bool:
    return not lease_holder.is_closing


def _is_excused() -> bool:
    return lease_holder.is_closing or len(state.reserved_requests) >= settings.worker_concurrency


def _end_deaf() -> None:
    schedule.end_now(1)


deliverer = Deliverer(services)
run_scheduler = RunScheduler(services)
batch_delivery = BatchDelivery(services, lease_holder.owner)
sweeper = Sweeper(services, lease_holder, begin_step)
watchdog = Watchdog(
    services.queue,
    lease_holder.owner,
    deaf_after_s=settings.deaf_after_s,
    is_excused=_is_excused,
    on_deaf=_end_deaf,
)
schedule = Schedule(
    services,
    lease_holder,
    [
        Timer("sweeper", settings.sweep_s, sweeper.sweep),
        Timer("webhooks", 0.0, deliverer.run_once),
        Timer("runs", 0.0, run_scheduler.run_once),
        Timer("batches", settings.sweep_s, batch_delivery.run_once),
        Timer("schedules", settings.sweep_s, partial(sweep_schedules, services)),
        Timer("watchdog", settings.deaf_after_s / CHECKS_PER_PERIOD, watchdog.check),
    ],
    on_shutdown=sweeper.begin_shutdown,
)


@signals.setup_logging.connect
def _set_up_logging(**_: object) -> None:
    configure_logs(settings.log_level, settings.log_format)


def start() -> None:
    """Start the timers before the broker is connected, because due jobs do not need the broker.

    No signal handler of Celery calls this: Celery would ignore an exception, and the worker would have no timers.
    """
    schedule.start()
    if services.traces is not None:
        services.traces.start()
    try:
        services.providers.warm_up()
    except RedraftError as error:
        # Jobs with this model fail with the same reason, but jobs with other models can run
        log.warning("default_model_unusable", reason=error.message)


@signals.worker_shutting_down.connect
def _stop_claiming(**_: object) -> None:
    """Stop claiming steps. Celery calls this in a signal handler, so it must not wait for a lock."""
    deliverer.close()
    run_scheduler.close()
    batch_delivery.close()
    schedule.begin_shutdown()


@signals.worker_shutdown.connect
def _stop(**_: object) -> None:
    schedule.stop()
    sweeper.stop()
    engine.close()
    deliverer.finish(min(_LAST_DELIVERIES_S, settings.shutdown_grace_s))
    services.close()
