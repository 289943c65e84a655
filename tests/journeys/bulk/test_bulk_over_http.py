"""A run from a file to its report, as a program does it: nothing but HTTP, beside a worker process."""

import csv
import io
import json

from tests.journeys.conftest import ON_SQLITE, Desk
from tests.model_server import ModelServer
from tests.support.event_stream import EventStream
from tests.support.processes import WorkerProcess


@ON_SQLITE
def test_a_file_becomes_a_report(desk: Desk, worker: WorkerProcess, model_server: ModelServer):
    model_server.script(generate=["first", "second"], evaluate=[0.4, 0.9])
    client = desk.client
    data = "".join(json.dumps({"id": f"r{n}", "question": f"[[case:r{n}]]"}) + "\n" for n in range(30))
    dataset = client.post("/v1/datasets", content=data.encode(), params={"name": "rows.jsonl"}).json()
    body = {"dataset_id": dataset["id"], "defaults": {"eval_crit": "True."}}
    run = client.post("/v1/runs", json=body, headers={"Idempotency-Key": "once"}).json()
    with client.stream("GET", run["urls"]["events"], headers={"Accept": "text/event-stream"}) as response:
        told = list(EventStream(response).events())
    for event in told:
        counts = dict(event.data["counts"])
        assert counts.pop("accepted") <= counts["succeeded"]
        assert counts.pop("total") == sum(counts.values()) == 30
    assert [event.type for event in told[-2:]] == ["run.progress", "done"]
    assert told[-1].data["counts"]["accepted"] == 30
    assert told[-1].data["usage"]["calls"] == 30 * 4 == len(model_server.requests())
    export = client.get(run["urls"]["results"], params={"format": "csv"}).text
    assert [row["final_answer"] for row in csv.DictReader(io.StringIO(export))] == ["second"] * 30
    report = client.get(run["urls"]["report"]).json()
    assert report["pass_rate"]["value"] == 1.0
    assert client.post("/v1/runs", json=body, headers={"Idempotency-Key": "once"}).json()["id"] == run["id"]
