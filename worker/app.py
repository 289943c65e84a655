"""The Celery app: its settings, its services, and what a worker process does beside its tasks."""

from celery import Celery, signals

from redraft.logs import configure_logs
from redraft.operations.leases import LeaseHolder
from redraft.queue import celery_options
from redraft.runtime import build_runtime
from redraft.settings import Settings
from worker.doorbell import QUEUES, StepTask
from worker.schedule import Schedule

settings = Settings()
celery_app = Celery("redraft", include=["worker.tasks"], task_cls=StepTask)
celery_app.conf.update(celery_options(settings, socket_timeout_s=5), task_queues=QUEUES)


# One of each per process, made before any thread asks for them; nothing is connected yet.
services = build_runtime(settings)
lease_holder = LeaseHolder(settings)
schedule = Schedule(services, lease_holder)


@signals.setup_logging.connect
def _set_up_logging(**_: object) -> None:
    configure_logs(settings.log_level, settings.log_format)


@signals.worker_ready.connect
def _start(**_: object) -> None:
    services.providers.warm_up()
    schedule.start()


@signals.worker_shutting_down.connect
def _stop_claiming(**_: object) -> None:
    schedule.begin_shutdown()


@signals.worker_shutdown.connect
def _stop(**_: object) -> None:
    schedule.stop()
    services.close()
