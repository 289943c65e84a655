"""What `redraft import` writes is accepted over HTTP as it is."""

import json
from pathlib import Path

import httpx2
import pytest

from redraft.importing.outcomes import files_of
from redraft.operations.services import Services
from tests.api.bulk.test_runs_api import started, work_off
from tests.importing.importing import SAMPLE, openai
from tests.model_server import ModelServer
from tests.operations.driving import Driver


@pytest.fixture
def driver(services: Services) -> Driver:
    return Driver(services)


def test_a_run_of_an_imported_eval(client: httpx2.Client, driver: Driver, model_server: ModelServer, tmp_path: Path):
    model_server.script(generate=["Bern"])
    grader = {"type": "string_check", "name": "Same", "operation": "eq", "input": SAMPLE, "reference": "{{item.label}}"}
    content = [{"item": {"q": "CH", "label": "Bern"}}, {"item": {"q": "FR", "label": "Paris"}}]
    source = {
        "type": "responses",
        "source": {"type": "file_content", "content": content},
        "input_messages": {"type": "template", "template": [{"role": "user", "content": "The capital of {{item.q}}?"}]},
        "model": "writer",
        "sampling_params": {"temperature": 0.3, "max_completions_tokens": 20},
    }
    imported = openai(
        tmp_path, {"name": "Capitals", "testing_criteria": [grader]}, {"name": "one", "data_source": source}
    )
    files = {name: "".join(rows) for name, rows in files_of(imported)}
    defaults = json.loads(files["capitals-one.settings.json"])
    run = started(client, files["capitals-one.jsonl"].encode(), defaults=defaults)
    done = work_off(client, driver, run)
    assert (done["counts"]["succeeded"], done["counts"]["accepted"]) == (2, 1)
    rows = [json.loads(line) for line in client.get(f"{run['urls']['self']}/results").text.splitlines()]
    assert {row["custom_id"]: row["success"] for row in rows} == {"item-1": True, "item-2": False}
    (first, _) = model_server.requests("generate")
    assert first.body["temperature"] == 0.3
    assert "The capital of" in str(first.body)
    assert "Paris" not in str([each.body for each in model_server.requests("generate")])
