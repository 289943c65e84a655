"""Waits for a job until it ends or Ctrl-C comes."""

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from redraft.cli import output, sessions
from redraft.cli.exits import Exit
from redraft.cli.views.following import evaluated_in, follow
from redraft.cli.views.live import make_view
from redraft.cli.views.outcomes import Manner, exit_of_job, print_result
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.jobs.resources import Job
from redraft.operations.services import Services


@dataclass(frozen=True, slots=True)
class Wait:
    """How a command waits.

    Attributes:
        threshold: the score threshold, for messages.
        deadline_s: when to stop waiting for a worker that never comes; None = never.
        cancels: whether Ctrl-C or SIGTERM cancels the job, or only stops watching.
        as_json: print the job instead of its answer.
        must_be_accepted: whether a missed threshold has its own exit code.
        as_page: print the whole job instead of its answer.
        audit: the independent evaluator, which is called last.
    """

    threshold: float
    deadline_s: float | None = None
    cancels: bool = True
    as_json: bool = False
    must_be_accepted: bool = False
    as_page: bool = False
    audit: str | None = None


def wait_for(services: Services, begin: Callable[[], tuple[str, int]], wait: Wait) -> Exit:
    """Start a job, show it until it ends, and print its result.

    Args:
        services: the services.
        begin: starts the job; returns its id and the event after which to show.
        wait: how to wait.
    """
    started_at = time.monotonic()
    with make_view(wait.threshold, wait.audit) as view, sessions.worker_beside(services) as keep_alive:
        job_id, after = begin()
        is_interrupted = False
        try:
            with _interrupted_by_sigterm():
                for event in follow(services, job_id, after, keep_alive, wait.deadline_s, view.on_delta):
                    view.show(event, evaluated_in(services, job_id, event))
        except KeyboardInterrupt:
            is_interrupted = True
        view.close()
        if not is_interrupted:
            job = _print_result(services, job_id, wait, time.monotonic() - started_at)
            return exit_of_job(job, must_be_accepted=wait.must_be_accepted)
        if not wait.cancels:
            return _leave(job_id)
        _cancel(services, job_id)
    # The embedded worker has ended by now, so the usage includes its last calls
    _print_result(services, job_id, wait, time.monotonic() - started_at)
    return Exit.INTERRUPTED


@contextmanager
def _interrupted_by_sigterm() -> Generator[None]:
    """Treat SIGTERM like Ctrl-C: `timeout` sends it to a command that waits."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_result(services: Services, job_id: str, wait: Wait, seconds: float) -> Job:
    job = queries.get_job(services, job_id, with_iterations=True)
    print_result(job, queries.list_iterations(services, job_id), Manner(wait.as_json, wait.as_page), seconds)
    return job


def _cancel(services: Services, job_id: str) -> None:
    lifecycle.cancel(services, job_id)
    output.say(f"Canceled. Continue it with: redraft jobs continue {job_id}", "yellow")


def _leave(job_id: str) -> Exit:
    output.say(f"No longer watching; the job is not canceled. Again: redraft jobs watch {job_id}", "yellow")
    return Exit.INTERRUPTED


def show_ended(services: Services, job_id: str, wait: Wait) -> Exit:
    """Show a job that has ended as if it had just happened."""
    job = queries.get_job(services, job_id)
    with make_view(wait.threshold) as view:
        for event in follow(services, job_id, 0, lambda: None):
            view.show(event, evaluated_in(services, job_id, event))
    seconds = ((job.finished_at or job.created_at) - job.created_at).total_seconds()
    _print_result(services, job_id, wait, seconds)
    return exit_of_job(job, must_be_accepted=wait.must_be_accepted)
