"""Reports each step to Celery's monitoring as a task, even a step for which no message was sent."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from redraft.errors import ProviderError
from redraft.messages import StepMessage
from redraft.operations.steps.context import StepResult, Watched, unwatched


class Monitor:
    """Sends the task events of steps if `-E` or `celery control enable_events` has enabled them."""

    def __init__(self) -> None:
        self._consumer: Any = None

    def attach(self, worker: Any) -> None:
        """Use the event dispatcher of this worker's consumer. After each reconnect, this is a new dispatcher."""
        self._consumer = worker.consumer

    def watch(self, message: StepMessage) -> Watched:
        """Report the step that is executed in this context. Without monitoring, nothing is sent or computed.

        The context yields a function that must be called with the stored result. Without a call, the step is reported
        as failed: it has raised an exception or lost its lease, so nothing was stored.
        """
        dispatcher = getattr(self._consumer, "event_dispatcher", None)
        # A dispatcher without the group `task` sends only the heartbeats of the worker
        if dispatcher is None or not dispatcher.enabled or (dispatcher.groups and "task" not in dispatcher.groups):
            return unwatched(message)
        return self._report(message)

    @contextmanager
    def _report(self, message: StepMessage) -> Generator[Callable[[StepResult], object]]:
        stored, started_at = list[StepResult](), time.monotonic()
        step_id = _id_of(message.job_id, message.step_no)
        self._send("task-received", step_id, **_described(message))
        self._send("task-started", step_id)
        error = "LeaseLost()"
        try:
            yield stored.append
        except BaseException as raised:
            error = repr(raised.__cause__ or raised)
            raise
        finally:
            kind, error = _outcome_of(stored[0]) if stored else ("task-failed", error)
            facts = {"result": None} if kind == "task-succeeded" else {"exception": error, "traceback": ""}
            self._send(kind, step_id, runtime=time.monotonic() - started_at, **facts)

    def _send(self, kind: str, step_id: str, **facts: Any) -> None:
        dispatcher = self._consumer.event_dispatcher
        # None while the consumer reconnects. The event is then lost, as Celery's own events would be
        if dispatcher is not None:
            dispatcher.send(kind, uuid=step_id, **facts)


def _id_of(job_id: str, step_no: int) -> str:
    # Each worker computes the same id, so that all attempts of a step are shown as one task
    return f"{job_id}.{step_no}"


def _described(message: StepMessage) -> dict[str, Any]:
    return {
        "name": message.task,
        "args": "()",
        "kwargs": repr(message.payload),
        "root_id": _id_of(message.job_id, 1),
        "parent_id": _id_of(message.job_id, message.step_no - 1) if message.step_no > 1 else None,
        "retries": 0,
        "eta": None,
        "expires": None,
    }


def _outcome_of(stored: StepResult) -> tuple[str, str]:
    """Return the type of the last event of a step, and the error of the step."""
    error = _error_of(stored)
    if error is None:
        return "task-succeeded", ""
    is_repeated = bool((stored.values or {}).get("step_attempt"))
    return "task-retried" if is_repeated else "task-failed", f"{error.code}: {error.message}"


def _error_of(stored: StepResult) -> ProviderError | None:
    """Return the error of the last failed call if no call has a reply, or if the job ended with an error; else None."""
    failed = [outcome.error for outcome in stored.outcomes if outcome.error is not None]
    has_reply = any(outcome.text is not None or outcome.cut for outcome in stored.outcomes)
    return failed[-1] if failed and (not has_reply or (stored.values or {}).get("error")) else None
