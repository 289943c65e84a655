"""Benchmark D: the duration of a bulk run. Each read of the run checks that its counts add up."""

import itertools
import json
import sys
from io import BytesIO
from tempfile import TemporaryDirectory

from benchmarks.contenders import await_listeners, measure, processes
from benchmarks.loads import CRITERIA, Load, Outcome, task_of
from benchmarks.parts import settings_for
from redraft.domain.bulk.run_requests import CreateRun
from redraft.operations.bulk import datasets, runs
from redraft.runtime import build_runtime
from redraft.storage.bulk.runs import is_running
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer

# A client that reads the counts of a run ten times a second would take a twentieth of the CPU time of the calls
_POLLS_PER_READ = 10


def run_bulk(url: str, load: Load, workers: int, postgres: PostgresServer, valkey: ValkeyServer) -> Outcome:
    """Execute a bulk run, and return the figures of the time from its creation to its end."""
    name = postgres.create_database()
    with TemporaryDirectory() as folder:
        # A quarter of the slots is reserved for single jobs
        places = -(-load.in_flight * 4 // 3) // workers + 1
        settings = settings_for(folder, url, valkey, postgres.url_of(name), worker_concurrency=places)
        services = build_runtime(settings)
        lines = "".join(json.dumps({"custom_id": str(n), "instruct": task_of(n)}) + "\n" for n in range(load.jobs))
        dataset, _ = datasets.import_dataset(services, BytesIO(lines.encode()), "load.jsonl")
        body = CreateRun(dataset_id=dataset.id, defaults={"eval_crit": CRITERIA}, max_in_flight=load.in_flight)
        created: list[str] = []
        polls = itertools.count()

        def is_done() -> bool:
            with services.database.read() as connection:
                is_active = is_running(connection, created[0])
            if is_active and next(polls) % _POLLS_PER_READ:
                return False
            run = runs.get_run(services, created[0])
            counts = run.counts.model_dump(exclude={"total", "accepted"})
            if sum(counts.values()) != load.jobs:
                raise RuntimeError(f"The counts do not add up to {load.jobs}: {counts}.")
            return run.status != "running"

        def create(number: int) -> None:
            if number == 0:
                created.append(runs.create_run(services, body)[0].id)

        with processes([[sys.executable, "-m", "worker"]] * workers, environment_of(settings)) as pids:
            await_listeners(valkey.url, workers)
            outcome = measure(create, is_done, pids, load, (postgres, valkey))
        services.close()
    postgres.drop_database(name)
    return outcome
