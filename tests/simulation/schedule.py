"""One schedule: jobs, workers and faults by a seed, then the audit."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import delete, event
from structlog.testing import capture_logs

from redraft.operations.services import Services
from redraft.operations.steps.sweeper import sweep
from redraft.runtime import build_runtime
from redraft.settings import Settings
from redraft.storage.engine.tables import metadata
from tests.chaos.storms.load import draw_job
from tests.simulation import faults
from tests.simulation.client import Client
from tests.simulation.faults import Faults
from tests.simulation.invariants import audit_schedule
from tests.simulation.models import ModelServer
from tests.simulation.observer import Observer
from tests.simulation.parts import Broker, virtual_strftime
from tests.simulation.site import Site, Variant
from tests.simulation.worker import Worker
from tests.simulation.world import Stuck, World
from tests.support.databases.sqlite import create_sqlite
from tests.support.receiver import SECRET

_SETTINGS: dict[str, Any] = {
    "model": "openai:writer",
    "evaluator_model": "openai:judge",
    "openai_api_key": SecretStr("sk-test"),
    "openai_base_url": "http://127.0.0.1:9/v1",
    "broker_url": "redis://127.0.0.1:9/0",
    "webhook_secret": SecretStr(SECRET),
    "call_timeout_s": 60.0,
    "sweep_s": 15.0,
}
_WEBHOOK = "https://receiver.example/hook"
# Longer than any call, lease or pause
_QUIET_S = 300.0


@dataclass(slots=True)
class Outcome:
    """What a schedule did, and what is wrong."""

    seed: int
    trace: list[str]
    problems: list[str]
    seconds: float = 0.0
    """Of virtual time."""
    counts: Counter[str] = field(default_factory=Counter[str])


class Laboratory:
    """Runs schedules one after the other on one SQLite file, with one set of services."""

    def __init__(self, folder: Path, variant: Variant | None = None) -> None:
        self._file = folder / "simulation.db"
        self._variant = variant or Variant()
        self._world = World(0)
        settings = Settings(_env_file=None, data_dir=folder, database_url=create_sqlite(self._file), **_SETTINGS)  # pyright: ignore[reportCallIssue]
        self._services: Services = build_runtime(settings)
        engine = self._services.database.engine
        event.listen(engine, "connect", self._prepare)
        if self._variant.rewrite:
            event.listen(engine, "before_cursor_execute", _rewriting(self._variant.rewrite), retval=True)

    def _prepare(self, connection: Any, _record: Any) -> None:
        connection.create_function("strftime", -1, virtual_strftime(lambda: self._world))
        # The file lives as long as the simulation
        connection.execute("PRAGMA synchronous=OFF")

    def close(self) -> None:
        self._services.close()

    def simulate(self, seed: int) -> Outcome:
        """Run the schedule of this seed."""
        # The product draws its jitter from the global generator
        before = random.getstate()
        random.seed(seed)
        try:
            with capture_logs() as logs:
                return self._simulate(seed, logs)
        finally:
            random.setstate(before)

    def _simulate(self, seed: int, logs: list[Any]) -> Outcome:
        self._world = world = World(seed)
        self._clear()
        observer = Observer(world, str(self._file))
        at = faults.draw(world.random)
        broker = Broker(world, observer, is_calm=not at and world.random.random() < 0.5)
        site = Site(world, self._services, Faults(world, at), broker, ModelServer(world, seed), observer, self._variant)
        scene = Scene(site)
        try:
            scene.play(seed)
        except Stuck as error:
            world.problems.append(str(error))
        try:
            problems = [*world.problems, *audit_schedule(site, [each.seen for each in scene.clients])]
        finally:
            scene.end()
            observer.close()
        problems += [f"an unforeseen exception: {log}" for log in logs if log["log_level"] in {"error", "critical"}]
        outcome = Outcome(seed, world.trace, problems, world.now)
        outcome.counts["points"] = site.faults.points
        outcome.counts["requests"] = len(site.server.log)
        outcome.counts["jobs"] = len(scene.clients)
        return outcome

    def _clear(self) -> None:
        with self._services.database.write() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(delete(table))


class Scene:
    """Who takes part in a schedule."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._world = site.world
        self.workers: list[Worker] = []
        self.clients: list[Client] = []

    def play(self, seed: int) -> None:
        rng = self._world.random
        for _ in range(rng.choice([1, 2, 2, 3])):
            self._start_worker()
        for number in range(1, rng.choice([1, 1, 2, 3]) + 1):
            plan = draw_job(seed, rng.randint(1, 60), webhook_url=_WEBHOOK, canceled=0.3)
            self.clients.append(Client(self._site, plan, number, starts_after=rng.uniform(0.0, 3.0)))
        self._world.run(until=lambda: all(client.is_done for client in self.clients))
        self._site.faults.at.clear()
        # A suspended worker may come back late, and must change nothing then
        self._world.run(until=lambda: not any(worker.is_working for worker in self.workers))
        self._clear_up()

    def _start_worker(self) -> None:
        worker = Worker(self._site, f"worker {len(self.workers) + 1}").start()
        self.workers.append(worker)
        self._world.call_later(1.0, lambda: self._keep(worker))

    def _keep(self, worker: Worker) -> None:
        """Start another worker in place of one that is gone."""
        if worker.process.is_dead:
            self._start_worker()
        else:
            self._world.call_later(self._world.random.uniform(1.0, 10.0), lambda: self._keep(worker))

    def _clear_up(self) -> None:
        """The last sweep closes what is left of lost workers."""
        for worker in self.workers:
            worker.process.kill()
        self._world.now += _QUIET_S
        last = Worker(self._site, "sweeper")
        self.workers.append(last)
        is_done = False

        def work() -> None:
            nonlocal is_done
            sweep(last._services)
            is_done = True

        last._spawn(work)
        self._world.run(until=lambda: is_done)

    def end(self) -> None:
        """Leave no greenlet behind."""
        self._world.end()


def _rewriting(rewrite: Callable[[str], str]) -> Callable[..., tuple[str, Any]]:
    def listener(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
        return rewrite(statement), parameters

    return listener
