"""A stage per test, with as many processes as the test starts; what is left of each is audited."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from sqlalchemy import func, select

from redraft.domain.jobs.requests import GenerateAnswer
from redraft.errors import Unavailable
from redraft.operations.jobs.lifecycle import cancel
from redraft.operations.jobs.submit import submit
from redraft.storage.engine.tables import calls, jobs
from tests.chaos.audit.auditor import audit
from tests.chaos.driver import Submitted
from tests.chaos.members import is_stopped
from tests.chaos.stage import Kind, Stage
from tests.chaos.storms.load import JobPlan
from tests.operations.driving import Driver
from tests.support.waiting import wait_until

SHORT: dict[str, Any] = {"lease_s": 3.0, "heartbeat_s": 0.5, "sweep_s": 0.2, "call_timeout_s": 5.0}


class Scene:
    """A stage with one user, who submits without HTTP unless a test is about HTTP."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.driver = Driver(stage.services)
        self.submitted: list[Submitted] = []

    @property
    def provider(self) -> Any:
        return self.stage.model_server

    def body(self, **fields: Any) -> dict[str, Any]:
        """The next request; the provider's log tells it from others by the case in its task."""
        case = f"case-{len(self.submitted) + 1}"
        body = {"instruct": f"[[case:{case}]] Write a line.", "eval_crit": "It is a line.", **fields}
        plan = JobPlan(case, "/v1/generate-answer", body, is_impatient=False, cancel_after_s=None)
        self.submitted.append(Submitted(plan))
        return body

    def refused_body(self) -> dict[str, Any]:
        """A request that is not to be accepted."""
        body = self.body()
        self.submitted.pop()
        return body

    def accepted(self, job_id: str) -> str:
        """The last request was accepted as this job."""
        self.submitted[-1].job_ids.append(job_id)
        return job_id

    def submit(self, **fields: Any) -> str:
        request = GenerateAnswer.model_validate(self.body(**fields))
        return self.accepted(submit(self.stage.services, request).job.id)

    def submit_many(self, count: int, **fields: Any) -> list[str]:
        return [self.submit(**fields) for _ in range(count)]

    def post(self, body: dict[str, Any], *, timeout_s: float = 10.0, key: str | None = None) -> httpx2.Response:
        headers = {"Idempotency-Key": key} if key else {}
        url = f"{self.stage.url}/v1/generate-answer"
        return httpx2.post(url, json=body, headers=headers, timeout=timeout_s)

    def cancel(self, job_id: str) -> None:
        assert cancel(self.stage.services, job_id)[1]

    def finish(self, within_s: float = 30.0) -> None:
        """Wait until all jobs have ended and no call of theirs is open."""
        wait_until(self._is_silent, within_s=within_s, every_s=0.05, what="the end of all jobs")

    def _is_silent(self) -> bool:
        try:
            with self.stage.services.database.read() as connection:
                live = connection.scalar(select(func.count()).where(jobs.c.finished_at.is_(None)))
                opened = connection.scalar(select(func.count()).where(calls.c.status == "started"))
        except Unavailable:
            return False
        return not live and not opened

    def count_calls(self, *statuses: str) -> int:
        with self.stage.services.database.read() as connection:
            query = select(func.count()).where(calls.c.status.in_(statuses or ("ok", "dup", "unknown", "error")))
            return connection.scalar(query) or 0

    def problems(self) -> list[str]:
        return audit(self.stage.services.database, self.submitted, self.provider.requests())

    def wait_stopped(self, number: int = 0) -> None:
        """Wait until a worker has stopped itself at its fail point."""
        pid = self.stage.workers[number].process.pid
        wait_until(lambda: is_stopped(pid), within_s=20, what="the worker's stop")

    def wait_dead(self, number: int = 0) -> None:
        wait_until(lambda: not self.stage.workers[number].is_alive, within_s=20, what="the worker's end")


@pytest.fixture
def make_scene() -> Iterator[Callable[..., Scene]]:
    """Scenes on the database that is asked for; processes are the test's to start."""
    with ExitStack() as stages:

        def make(kind: Kind, **changes: Any) -> Scene:
            return Scene(stages.enter_context(Stage(kind, **{**SHORT, **changes})))

        yield make


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def scene(request: pytest.FixtureRequest, make_scene: Callable[..., Scene]) -> Scene:
    return make_scene(request.param)


@pytest.fixture
def on_postgresql(make_scene: Callable[..., Scene]) -> Scene:
    return make_scene("postgresql")


@pytest.fixture
def on_sqlite(make_scene: Callable[..., Scene]) -> Scene:
    return make_scene("sqlite")


def statuses(scene: Scene, job_ids: Sequence[str]) -> list[str]:
    return sorted(status for job_id in job_ids for status in scene.driver.call_statuses(job_id))
