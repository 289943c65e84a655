"""Many at one database: workers on one SQLite file (case D09), pruning and upgrading beside the work."""

import threading
import time
from collections.abc import Callable
from typing import Self

import httpx2
import pytest
from sqlalchemy import func, select, update

from redraft.operations.admin import retention
from redraft.operations.services import Services
from redraft.storage.engine import schema
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import iterations, jobs
from tests.journeys.conftest import ON_POSTGRESQL, Desk
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.next_release import REVISION, upgrade_to_next_release
from tests.support.processes import WorkerProcess
from tests.support.waiting import patient, wait_until

StartWorker = Callable[..., WorkerProcess]

JOBS = 24
GET_MAX_S = 2.0
DAY_S = 86_400.0


class Poller:
    """A client that looks at every job, one every 50 ms, and remembers each answer."""

    def __init__(self, client: httpx2.Client, job_ids: list[str]) -> None:
        self._client = client
        self._job_ids = job_ids
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self.seconds: list[float] = []
        self.refusals: list[str] = []

    def _poll(self) -> None:
        number = 0
        while not self._is_over.wait(0.05):
            if not self._job_ids:
                continue
            began = time.monotonic()
            response = self._client.get(f"/v1/jobs/{self._job_ids[number % len(self._job_ids)]}")
            self.seconds.append(time.monotonic() - began)
            if response.status_code != 200:
                self.refusals.append(response.text)
            number += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_many_workers_on_one_sqlite_file_lock_nobody_out(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker, count: int
) -> None:
    # Three rounds each: no answer is good enough, and no two are the same
    model_server.script(generate=[f"answer {number}" for number in range(JOBS * 3 + 1)], evaluate=[0.2])
    workers = [start_worker(services) for _ in range(count)]
    workers[0].wait_ready(count)
    job_ids: list[str] = []
    with Poller(desk.client, job_ids) as poller:
        job_ids.extend(desk.submit(iter_max=3, stop={"plateau_patience": 0})["id"] for _ in range(JOBS))
        ended = [desk.finished(job_id) for job_id in job_ids]

    assert {job["status"] for job in ended} == {"succeeded"}
    with services.database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(iterations)) == JOBS * 3
    assert poller.refusals == []
    assert max(poller.seconds) < patient(GET_MAX_S)
    for worker in workers:
        worker.process.terminate()
    assert [worker.process.wait(timeout=patient(30)) for worker in workers] == [0] * count
    assert [log for log in (worker.log_text() for worker in workers) if "locked" in log or "Traceback" in log] == []


def age_all(services: Services, days: float) -> None:
    with services.database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.finished_at.is_not(None)).values(finished_at=DbNow(-days * DAY_S)))


@ON_POSTGRESQL
def test_pruning_disturbs_neither_workers_nor_requests(
    desk: Desk, services: Services, model_server: ModelServer, worker: WorkerProcess
) -> None:
    model_server.script(evaluate=[0.9])
    old = [desk.submit()["id"] for _ in range(16)]
    for job_id in old:
        desk.finished(job_id)
    age_all(services, 31)
    young: list[str] = []
    with Poller(desk.client, young) as poller:
        young += [desk.submit()["id"] for _ in range(8)]
        # Beside jobs that are being worked on, and while others come
        removed = retention.prune(services, retention.too_old(services, 30 * DAY_S))
        young += [desk.submit()["id"] for _ in range(8)]
        ended = [desk.finished(job_id) for job_id in young]

    assert removed == {"succeeded": 16}
    assert {job["status"] for job in ended} == {"succeeded"}
    assert [desk.client.get(f"/v1/jobs/{job_id}").status_code for job_id in old] == [404] * 16
    assert poller.refusals == []
    assert max(poller.seconds) < patient(GET_MAX_S)
    assert "Traceback" not in worker.log_text()


@ON_POSTGRESQL
def test_the_schema_is_upgraded_while_the_previous_version_works(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    """To a migration that is still to come, this program is the previous version."""
    model_server.script(generate=[Reply(text="one", latency_s=0.2)], evaluate=[0.3, 0.9])
    worker = start_worker(services).wait_ready()
    before = [desk.submit()["id"] for _ in range(10)]
    wait_until(lambda: model_server.requests("generate"), within_s=20)
    upgrade_to_next_release(services.database)
    assert schema.current(services.database) == REVISION
    after = [desk.submit()["id"] for _ in range(5)]
    later = start_worker(services).wait_ready(2)
    ended = [desk.finished(job_id) for job_id in [*before, *after]]

    assert {job["status"] for job in ended} == {"succeeded"}
    ready = desk.client.get("/readyz")
    assert ready.status_code == 200
    assert "newer than this program's" in ready.text
    assert "Traceback" not in worker.log_text() + later.log_text()
