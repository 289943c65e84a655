"""Bulk runs with workers as processes: killed in the middle, and behind what people ask for."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from io import BytesIO

from redraft.domain.bulk.run_requests import CreateRun
from redraft.operations.bulk import datasets, run_results, runs
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from tests.journeys.conftest import ON_POSTGRESQL, Desk
from tests.model_server.requests import Asked
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess
from tests.support.waiting import wait_until

pytestmark = ON_POSTGRESQL
StartWorker = Callable[..., WorkerProcess]


def start_run(services: Services, count: int, *, max_in_flight: int) -> Run:
    rows = "".join(json.dumps({"custom_id": f"r{n}", "instruct": f"Q [[case:r{n}]]"}) + "\n" for n in range(count))
    dataset, _ = datasets.import_dataset(services, BytesIO(rows.encode()), "rows.jsonl")
    defaults = {"eval_crit": "True.", "iter_max": 2}
    body = CreateRun(dataset_id=dataset.id, defaults=defaults, max_in_flight=max_in_flight)
    return runs.create_run(services, body)[0]


def look(services: Services, run: Run) -> Run:
    found = runs.get_run(services, run.id)
    counts = found.counts.model_dump(exclude={"total", "accepted"})
    assert sum(counts.values()) == found.counts.total == run.counts.total
    return found


def finish(services: Services, run: Run) -> Run:
    wait_until(lambda: look(services, run).status != "running", within_s=60, what="the end of the run")
    return look(services, run)


def writes_better_the_second_time(asked: Asked) -> Reply:
    """By what is asked alone: a call that was lost and is made again gets the same reply."""
    if asked.role == "evaluate":
        return Reply(score=0.9 if "SECOND" in asked.prompt else 0.4)
    return Reply("SECOND" if "FIRST" in asked.prompt else "FIRST", latency_s=0.05)


def test_a_run_whose_worker_is_killed_goes_on_and_pays_nothing_twice(
    services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.respond(writes_better_the_second_time)
    first = start_worker(services).wait_ready()
    undisturbed = finish(services, start_run(services, 16, max_in_flight=4))
    model_server.log.clear()
    run = start_run(services, 16, max_in_flight=4)
    wait_until(lambda: look(services, run).counts.succeeded >= 5, within_s=60)
    first.kill()
    done = {
        line["custom_id"]
        for line in run_results.list_items(services, run.id, after=0, limit=100, statuses=["succeeded"])
    }
    asked = Counter(request.case for request in model_server.requests())
    start_worker(services)
    ended = finish(services, run)
    assert (ended.stop_reason, ended.counts.succeeded) == ("finished", 16)
    again = Counter(request.case for request in model_server.requests())
    assert {name: again[name] for name in done} == {name: asked[name] for name in done}
    assert max(again.values()) <= 4 + 1
    one, other = (run_tables(services, each.id).report for each in (undisturbed, run))
    assert one.counts == other.counts
    assert (one.pass_rate, one.final_score, one.uplift.gain) == (other.pass_rate, other.final_score, other.uplift.gain)


def seconds_until_started(desk: Desk) -> float:
    """How long a new job waits for a worker, by the database's clock."""
    job = desk.submit()
    wait_until(lambda: desk.job(job["id"])["started_at"], within_s=20)
    created, started = (datetime.fromisoformat(desk.job(job["id"])[name]) for name in ("created_at", "started_at"))
    return (started - created).total_seconds()


def test_a_person_does_not_wait_for_a_run(
    desk: Desk, services: Services, model_server: ModelServer, start_worker: StartWorker
) -> None:
    model_server.script(generate=[Reply("one", is_held=True)], evaluate=[0.9])
    start_worker(services).wait_ready()
    run = start_run(services, 500, max_in_flight=500)
    wait_until(lambda: look(services, run).counts.running >= 6, within_s=20)
    assert min(seconds_until_started(desk), seconds_until_started(desk)) < 1, "Even the luckier of two waited."
    counts = look(services, run).counts
    assert (counts.running, counts.succeeded) == (6, 0), "It began when an item of the run made room for it."
    runs.cancel_run(services, run.id)
