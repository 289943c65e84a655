"""What Celery's monitoring learns of a step that one worker executes."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from celery import Celery

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.steps.context import StepResult
from redraft.operations.steps.unexpected_errors import StepCrashed
from tests.support.task_events import TaskEvents
from tests.support.valkey import ValkeyServer
from worker.monitoring import Monitor

MakeMonitor = Callable[..., Monitor]


@pytest.fixture(scope="module")
def seen(valkey: ValkeyServer) -> Iterator[TaskEvents]:
    with TaskEvents(valkey) as events:
        yield events


@pytest.fixture
def make_monitor(valkey: ValkeyServer) -> Iterator[MakeMonitor]:
    with Celery(broker=valkey.url, set_as_current=False) as app, app.connection_for_write() as connection:

        def make(*groups: str) -> Monitor:
            monitor = Monitor()
            consumer = SimpleNamespace(event_dispatcher=app.events.Dispatcher(connection, groups=groups))
            monitor.attach(SimpleNamespace(consumer=consumer))
            return monitor

        yield make


@pytest.fixture
def message() -> StepMessage:
    return StepMessage(Step.EVALUATE, new_id("job"), 4)


def test_a_step_whose_result_is_stored_has_succeeded(make_monitor: MakeMonitor, seen: TaskEvents, message: StepMessage):
    with make_monitor().watch(message) as stored:
        stored(StepResult((), {}))
    assert seen.kinds_of(f"{message.job_id}.4") == ["task-received", "task-started", "task-succeeded"]
    received, _, succeeded = seen.of(f"{message.job_id}.4")
    assert received["name"] == "redraft.evaluate"
    assert (received["root_id"], received["parent_id"]) == (f"{message.job_id}.1", f"{message.job_id}.3")
    assert succeeded["runtime"] >= 0


def test_a_step_that_stores_nothing_has_failed(make_monitor: MakeMonitor, seen: TaskEvents, message: StepMessage):
    with make_monitor().watch(message):
        pass
    with pytest.raises(StepCrashed), make_monitor().watch(message):
        raise StepCrashed(message, 1, is_paid=False) from LookupError("nothing there")
    assert seen.kinds_of(f"{message.job_id}.4", ends=2) == ["task-received", "task-started", "task-failed"] * 2
    errors = [event["exception"] for event in seen.of(f"{message.job_id}.4") if event["type"] == "task-failed"]
    assert errors == ["LeaseLost()", "LookupError('nothing there')"]


def test_without_task_events_nothing_is_sent(make_monitor: MakeMonitor, seen: TaskEvents, message: StepMessage):
    silent = StepMessage(Step.GENERATE, new_id("job"), 1)
    for monitor in (Monitor(), make_monitor("worker")):
        with monitor.watch(silent) as stored:
            stored(StepResult((), {}))
    # Events arrive in the order in which they are sent
    with make_monitor("worker", "task").watch(message):
        pass
    assert len(seen.kinds_of(f"{message.job_id}.4")) == 3
    assert not seen.of(f"{silent.job_id}.1")
