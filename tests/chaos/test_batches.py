"""Workers are killed while the calls of a run go through batches of two providers."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from redraft.domain.bulk.run_requests import CreateRun
from redraft.operations.bulk import datasets, runs
from redraft.operations.bulk.run_resources import Run
from tests.chaos.audit.provider_batches import audit_batches
from tests.chaos.conftest import SHORT, Scene
from tests.chaos.stage import Kind, Stage
from tests.model_server import BatchScript
from tests.support.waiting import let_pass, wait_until

ROWS = 6
KILLS = 10


class BatchStage(Stage):
    """A stage whose generator and evaluator have batches, at two providers."""

    def _settings(self, database_url: str) -> Any:
        self._changes["endpoints"] = self._endpoints
        return super()._settings(database_url)

    @property
    def _endpoints(self) -> dict[str, Any]:
        urls = {"openai": self.model_server.openai_url, "anthropic": self.model_server.anthropic_url}
        both = {"batches": True, "prices": {"*": {"input": 2.0, "output": 8.0}}}
        return {f"via-{name}": {"format": name, "base_url": url, **both} for name, url in urls.items()}


class BatchScene(Scene):
    """A user with a run."""

    def start(self, count: int = ROWS) -> Run:
        rows = [{"custom_id": f"r{n}", "instruct": f"[[case:r{n}]] Write a line."} for n in range(count)]
        data = BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
        found = datasets.import_dataset(self.stage.services, data, "rows.jsonl")[0]
        defaults = {
            "eval_crit": "It is a line.",
            "model": "via-openai:writer",
            "evaluator_model": "via-anthropic:judge",
        }
        body = {"dataset_id": found.id, "delivery": "batch", "defaults": {**defaults, "iter_max": 2}}
        return runs.create_run(self.stage.services, CreateRun.model_validate(body))[0]

    def end(self, run: Run, within_s: float = 60.0) -> Run:
        def has_ended() -> bool:
            return runs.get_run(self.stage.services, run.id).status != "running"

        wait_until(has_ended, within_s=within_s, every_s=0.1, what=f"the end of {run.id}")
        return runs.get_run(self.stage.services, run.id)

    def batch_problems(self) -> list[str]:
        return audit_batches(self.stage.services.database, self.provider.batches())


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def scene(request: pytest.FixtureRequest) -> Iterator[BatchScene]:
    kind: Kind = request.param
    with BatchStage(kind, **{**SHORT, "batch_poll_s": 0.1, "batch_resubmit_s": 3.0}) as stage:
        # Every second answer is revised
        stage.model_server.script(evaluate=[0.5, 0.9], batch=BatchScript(polls=1))
        yield BatchScene(stage)


def ensure_all_succeeded(run: Run, scene: BatchScene) -> None:
    assert (run.status, run.counts.succeeded) == ("succeeded", ROWS)
    # Generate, evaluate, revise, evaluate
    assert len(scene.provider.batches()) == 4
    assert scene.batch_problems() == []


@pytest.mark.parametrize(
    "point",
    [
        "sent=kill@1",
        pytest.param("parked=kill@3", marks=pytest.mark.long),
        pytest.param("submitting=kill@1", marks=pytest.mark.long),
        # The second batch is Anthropic's, which is found by its results only
        pytest.param("sent=kill@2", marks=pytest.mark.long),
        pytest.param("importing=kill@1", marks=pytest.mark.long),
    ],
)
def test_a_worker_that_is_killed_at_a_stage_of_a_batch_submits_and_imports_nothing_twice(scene: BatchScene, point: str):
    scene.stage.start_worker(point)
    run = scene.start()
    scene.wait_dead(0)
    scene.stage.start_worker()
    ensure_all_succeeded(scene.end(run), scene)
    # The audit finds a batch that is submitted twice
    scene.provider.add_batch(replace(scene.provider.batches()[0], id="batch_again"))
    assert len([problem for problem in scene.batch_problems() if "submitted 2 times" in problem]) == ROWS


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_workers_that_are_killed_at_ten_moments_submit_and_import_nothing_twice(scene: BatchScene, seed: int):
    scene.stage.model_server.script(evaluate=[0.5, 0.9], batch=BatchScript(polls=3))
    moments = random.Random(seed)
    for _ in range(2):
        scene.stage.start_worker()
    run = scene.start()
    for _ in range(KILLS):
        let_pass(moments.uniform(0.2, 3.0))
        worker = moments.choice(scene.stage.workers)
        worker.replace()
        worker.start_again()
    ensure_all_succeeded(scene.end(run), scene)
