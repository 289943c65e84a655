"""Celery's own monitoring: what `redraft worker -E` lets Flower and `celery events` see."""

from collections.abc import Callable

import pytest

from redraft.operations.services import Services
from tests.journeys.conftest import Desk
from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.task_events import TaskEvents
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

ONCE = ["task-received", "task-started", "task-succeeded"]


def test_each_step_is_seen_once_as_a_task_with_its_duration_and_a_failure_is_no_success(
    desk: Desk,
    services: Services,
    valkey: ValkeyServer,
    model_server: ModelServer,
    start_worker: Callable[..., WorkerProcess],
) -> None:
    def refuse(asked: Asked) -> Reply | None:
        return Reply(status=400, raw={"error": {"message": "no"}}) if "FAILS" in asked.prompt else None

    model_server.script(generate=[Reply(status=500), "one", "two", "three"], evaluate=[0.3, 0.4, 0.9])
    model_server.respond(refuse)
    start_worker(services, REDRAFT_TASK_EVENTS="true").wait_ready()
    with TaskEvents(valkey) as seen:
        job_id = desk.run(iter_max=3)["id"]
        tasks = [f"{job_id}.{number}" for number in range(1, 7)]
        assert seen.kinds_of(tasks[0], ends=2) == ["task-received", "task-started", "task-retried", *ONCE]
        assert [seen.kinds_of(task) for task in tasks[1:]] == [ONCE] * 5
        assert [seen.of(task)[0]["name"] for task in tasks] == ["redraft.generate", "redraft.evaluate"] * 3
        assert all(0 < seen.of(task)[-1]["runtime"] < 60 for task in tasks)
        failed = f"{desk.run(instruct='FAILS')['id']}.1"
        assert seen.kinds_of(failed) == ["task-received", "task-started", "task-failed"]
        assert "no" in seen.of(failed)[-1]["exception"]
        assert {event["uuid"] for event in seen.all} == {*tasks, failed}
