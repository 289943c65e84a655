"""D: how long a run takes, with its counts added up at every look."""

import json
import sys
import time
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr

from benchmarks.contenders import await_listeners, processes
from benchmarks.loads import CRITERIA, Load, task_of
from redraft.domain.bulk.run_requests import CreateRun
from redraft.operations.bulk import datasets, runs
from redraft.runtime import build_runtime
from redraft.settings import Settings
from tests.support.databases.postgres import PostgresServer
from tests.support.processes import environment_of
from tests.support.valkey import ValkeyServer


def run_bulk(url: str, load: Load, workers: int, postgres: PostgresServer, valkey: ValkeyServer) -> float:
    """The seconds that a run takes."""
    name = postgres.create_database()
    with TemporaryDirectory() as folder:
        settings = Settings(
            _env_file=None,  # pyright: ignore[reportCallIssue]
            data_dir=Path(folder),
            database_url=postgres.url_of(name),
            broker_url=valkey.url,
            model="openai:writer",
            evaluator_model="openai:judge",
            openai_api_key=SecretStr("none"),
            openai_base_url=url,
            # A quarter of the threads is for people
            worker_concurrency=-(-load.in_flight * 4 // 3) // workers + 1,
            log_level="WARNING",
        )
        services = build_runtime(settings)
        lines = "".join(json.dumps({"custom_id": str(n), "instruct": task_of(n)}) + "\n" for n in range(load.jobs))
        dataset, _ = datasets.import_dataset(services, BytesIO(lines.encode()), "load.jsonl")
        commands = [[sys.executable, "-m", "worker"] for _ in range(workers)]
        with processes(commands, environment_of(settings)):
            await_listeners(valkey.url, workers)
            began = time.monotonic()
            body = CreateRun(dataset_id=dataset.id, defaults={"eval_crit": CRITERIA}, max_in_flight=load.in_flight)
            run, _ = runs.create_run(services, body)
            while (run := runs.get_run(services, run.id)).status == "running":
                counts = run.counts.model_dump(exclude={"total", "accepted"})
                if sum(counts.values()) != load.jobs:
                    raise RuntimeError(f"The counts do not add up to {load.jobs}: {counts}.")
                time.sleep(0.25)
            seconds = time.monotonic() - began
        services.close()
    postgres.drop_database(name)
    return seconds
