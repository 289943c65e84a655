"""Waits until a job ends or the user presses Ctrl-C, prints the result, and returns an exit code."""

import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from redraft.cli import exit_codes, output
from redraft.cli.exit_codes import Exit
from redraft.cli.option_names import in_options
from redraft.cli.views.following import show_event
from redraft.cli.views.grounding_output import print_sources
from redraft.cli.views.job_pages import show_job
from redraft.cli.views.live import make_view
from redraft.domain.bulk.phrases import format_score
from redraft.domain.jobs.job_errors import describe
from redraft.domain.jobs.states import describe_stop_reason
from redraft.errors import RETRYABLE_CODES
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Job

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend

# Warnings that workers add. Warnings of the submission were printed when the job was submitted
_LATE_WARNINGS = frozenset(
    {"overfit_suspected", "audit_failed", "finish_reason_unknown", "schema_not_enforced", "parameter_not_sent"}
)
_ABORT_S, _POLL_S = 5.0, 0.05
_CONTINUABLE = RETRYABLE_CODES | {"budget_exhausted", "deadline_exceeded", "worker_lost"}


def job_data(job: Job) -> dict[str, Any]:
    """Return the job resource in the form of the API."""
    data = job.model_dump(mode="json")
    if data["iterations"] is None:
        del data["iterations"]
    return data


def print_result(job: Job, iterations: Sequence[Iteration], seconds: float, *, as_json: bool, as_page: bool) -> None:
    """Print the audit, a summary, and the result: the answer, the job as JSON, or the text of `redraft jobs show`."""
    _print_audit(iterations)
    for warning in job.warnings:
        if warning.code in _LATE_WARNINGS:
            output.say(f"Note: {in_options(warning.message)}", "yellow")
    output.say(_summary(job, seconds), "dim")
    if job.error:
        print_error(job.id, job.error)
    if as_json:
        output.write_json(job_data(job))
    elif as_page:
        show_job(job, iterations)
    elif job.result:
        _print_answer(job.result["final_answer"])
        print_sources(job)
    elif job.status == "canceled":
        output.say("There is no answer, because the job was canceled before the first answer was complete.", "yellow")


def _print_audit(iterations: Sequence[Iteration]) -> None:
    audits = [
        (each.number, found) for each in iterations for found in each.further_evaluations if found.role == "audit"
    ]
    for model in dict.fromkeys(found.evaluator_model for _, found in audits):
        scores = ", ".join(
            f"iteration {number} {'unscored' if found.score is None else format_score(found.score)}"
            for number, found in audits
            if found.evaluator_model == model
        )
        output.say(f"Audit by {model or 'checks'}: {scores}")


def _summary(job: Job, seconds: float) -> str:
    parts = [job.id]
    if job.result and job.result["final_score"] is not None:
        parts.append(f"score {format_score(job.result['final_score'])} of iteration {job.result['best_iteration']}")
    return " · ".join([*parts, output.usage_text(job.usage), output.span(seconds)])


def print_error(job_id: str, error: dict[str, Any]) -> None:
    """Print the error of a job, and what to do about it."""
    output.say(in_options(output.one_line(describe(error), 2000)), "red")
    if words := exit_codes.advice(error["code"]):
        output.say(words)
    if error["code"] in _CONTINUABLE:
        output.say(f"Continue the job with: redraft jobs continue {job_id}")


def _print_answer(answer: str) -> None:
    # The rule separates progress and answer, which is useful only if both are on one screen
    if output.stdout().is_terminal and (console := output.stderr()).is_terminal:
        console.rule(style="dim")
    output.write_data(answer)


def exit_of_job(job: Job, *, must_be_accepted: bool) -> Exit:
    """Return the exit code of a job. With `must_be_accepted`, an answer that is not accepted is no success."""
    if job.status == "failed":
        return exit_codes.exit_of_code((job.error or {}).get("code", "error"))
    if job.status == "canceled":
        return Exit.INTERRUPTED
    if must_be_accepted and not (job.result and job.result["success"]):
        output.say(f"The answer was not accepted ({describe_stop_reason(job.stop_reason or '')}).", "yellow")
        return Exit.NOT_ACCEPTED
    return Exit.OK


@dataclass(frozen=True, slots=True)
class Wait:
    """How a command waits.

    Attributes:
        threshold: the score threshold, for messages.
        deadline_s: the time limit of the job in seconds. None means that the command waits without a limit.
        cancels: whether Ctrl-C or SIGTERM cancels the job. If false, they only end the command.
        as_json: print the job as JSON instead of its answer.
        must_be_accepted: exit with NOT_ACCEPTED if the answer is not accepted.
        as_page: print the text of `redraft jobs show` instead of the answer.
        audit: the independent evaluator, which is called after the loop.
    """

    threshold: float
    deadline_s: float | None = None
    cancels: bool = True
    as_json: bool = False
    must_be_accepted: bool = False
    as_page: bool = False
    audit: str | None = None


def wait_for(backend: "Backend", begin: Callable[[], tuple[str, int]], wait: Wait) -> Exit:
    """Start a job, show its events until it ends, and print its result.

    `begin` starts the job. It returns the id of the job, and the number of the last event that is not shown.
    """
    started_at = time.monotonic()
    with make_view(wait.threshold, wait.audit) as view, backend.worker_beside() as keep_alive:
        job_id, after = begin()
        is_interrupted = False
        try:
            with interrupted_by_sigterm():
                for event in backend.follow(job_id, after, keep_alive, wait.deadline_s, view.on_delta):
                    show_event(backend, job_id, event, view)
        except KeyboardInterrupt:
            is_interrupted = True
        # The live view overwrites its own lines, so it must be closed before other lines are printed
        view.close()
        if not is_interrupted:
            job = _print_result(backend, job_id, wait, time.monotonic() - started_at)
            return exit_of_job(job, must_be_accepted=wait.must_be_accepted)
        if not (wait.cancels and backend.cancels):
            output.say(f"The job continues. To watch it again: redraft jobs watch {job_id}", "yellow")
            return Exit.INTERRUPTED
        backend.cancel_job(job_id)
        output.say(f"Canceled. Continue it with: redraft jobs continue {job_id}", "yellow")
    _await_calls(backend, job_id)
    _print_result(backend, job_id, wait, time.monotonic() - started_at)
    return Exit.INTERRUPTED


def _await_calls(backend: "Backend", job_id: str) -> None:
    """Wait until the aborted calls of a canceled job count in its usage, or until a worker takes too long for this."""
    give_up_at = time.monotonic() + _ABORT_S
    while time.monotonic() < give_up_at and any(call.status == "started" for call in backend.list_calls(job_id)):
        time.sleep(_POLL_S)


@contextmanager
def interrupted_by_sigterm() -> Generator[None]:
    """Handle SIGTERM like Ctrl-C, because the program `timeout` sends it to a waiting command."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_result(backend: "Backend", job_id: str, wait: Wait, seconds: float) -> Job:
    job = backend.get_job(job_id, with_iterations=True)
    iterations = backend.iterations(job_id)
    print_result(job, iterations, seconds, as_json=wait.as_json, as_page=wait.as_page)
    return job


def show_ended(backend: "Backend", job_id: str, wait: Wait) -> Exit:
    """Show all events and the result of a job that has ended."""
    with make_view(wait.threshold) as view:
        for event in backend.follow(job_id, 0, lambda: None):
            show_event(backend, job_id, event, view)
    job = backend.get_job(job_id)
    seconds = ((job.finished_at or job.created_at) - job.created_at).total_seconds()
    return exit_of_job(_print_result(backend, job_id, wait, seconds), must_be_accepted=wait.must_be_accepted)
