"""`python -m worker.single_step STEP JOB_ID STEP_NO`: executes one step in a child process of a worker."""

import signal
import sys

from redraft.domain.jobs.states import Step
from redraft.embedded.parent_death import end_with_parent
from redraft.logs import configure_logs
from redraft.messages import StepMessage
from redraft.operations.admin.setting_errors import load_settings_or_exit
from redraft.operations.steps.engine import Engine
from redraft.operations.steps.executor import run
from redraft.operations.steps.leases import LeaseHolder
from redraft.runtime import build_runtime
from worker.freeze_detection import end_when_frozen
from worker.step_exceptions import handle_failures
from worker.timers_and_shutdown import Schedule


def main(step: str, job_id: str, step_no: str) -> int:
    """Execute a step whose worker was lost several times, and notify other workers of the next step."""
    settings = load_settings_or_exit()
    configure_logs(settings.log_level, settings.log_format)
    services = build_runtime(settings)
    engine = Engine()
    holder = LeaseHolder(settings, is_alone=True, abort=engine.abort)
    schedule = Schedule(services, holder)
    end_when_frozen(settings.frozen_after_s, sys.argv, lambda: schedule.is_beating() and engine.is_responding())

    def end(*_: object) -> None:
        schedule.begin_shutdown()

    signal.signal(signal.SIGTERM, end)
    end_with_parent(settings.shutdown_grace_s)
    schedule.start()
    with handle_failures(services, job_id):
        message = StepMessage(Step(step), job_id, int(step_no))
        engine.run(job_id, run(services, holder, message, goes_on=lambda: False))
    schedule.stop()
    services.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
