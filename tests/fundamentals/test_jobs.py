"""One job over HTTP, beside a worker: submit, loop, evaluate, cancel, continue; then many in bulk. Read this first."""

import csv
import io
import json
from typing import Any

import pytest

from tests.journeys.desks import TASK, Desk
from tests.journeys.offices import Office
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.event_stream import EventStream
from tests.support.waiting import wait_until


@pytest.fixture
def desk(office: Office) -> Desk:
    return office.desk


@pytest.fixture
def model_server(office: Office) -> ModelServer:
    return office.model_server


def verdict(score: float, *suggestions: str) -> dict[str, Any]:
    """What an evaluator replies."""
    return {
        "evaluation_reasoning": "Because.",
        "improvement_suggestions": list(suggestions),
        "meets_criteria": score > 0.8,
        "score": score,
    }


def test_a_submitted_job_is_found_under_its_address_and_gets_its_answer(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=["Paris, on the Seine."], evaluate=[0.9])
    response = desk.client.post("/v1/generate-answer", json=TASK)
    assert response.status_code in {201, 202}, "201: it has ended already"
    assert response.headers["location"].endswith(f"/v1/jobs/{response.json()['id']}")
    job = desk.finished(response.json()["id"])
    assert (job["status"], job["result"]["final_answer"]) == ("succeeded", "Paris, on the Seine.")


def test_a_low_score_sends_feedback_into_the_next_generation(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(
        generate=["FIRST-DRAFT", "SECOND-DRAFT"],
        evaluate=[verdict(0.4, "FIX-THE-DATE"), verdict(0.9)],
    )
    job = desk.run()

    assert (job["status"], job["stop_reason"]) == ("succeeded", "accepted")
    assert job["result"]["final_answer"] == "SECOND-DRAFT"
    assert job["result"]["success"] is True
    assert (job["result"]["total_iterations"], job["result"]["best_iteration"]) == (2, 2)
    assert job["result"]["final_score"] == 0.9
    assert job["usage"]["calls"] == 4

    first, second = model_server.requests("generate")
    assert "FIRST-DRAFT" not in first.prompt
    for part in ("FIRST-DRAFT", "FIX-THE-DATE", TASK["instruct"], TASK["eval_crit"]):
        assert part in second.prompt


def test_at_the_limit_the_best_answer_is_returned_not_the_last(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=["one", "two", "three"], evaluate=[0.4, 0.7, 0.6])
    job = desk.run(iter_max=3)
    assert (job["status"], job["stop_reason"]) == ("succeeded", "iteration_limit")
    result = job["result"]
    assert (result["final_answer"], result["final_score"], result["success"]) == ("two", 0.7, False)
    assert (result["best_iteration"], result["total_iterations"]) == (2, 3)


def test_a_given_answer_is_judged_once(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(evaluate=[0.63])
    response = desk.client.post(
        "/v1/evaluate-answer", json={**TASK, "answer": "Paris, on the Seine."}, headers={"Prefer": "wait=20"}
    )
    assert response.status_code == 201
    job = response.json()
    assert (job["kind"], job["status"], job["stop_reason"]) == ("evaluate_answer", "succeeded", "iteration_limit")
    assert (job["result"]["final_answer"], job["result"]["final_score"]) == ("Paris, on the Seine.", 0.63)
    assert len(model_server.requests()) == 1


def test_canceling_aborts_the_call_in_flight(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=[Reply(text="late", latency_s=600.0)], evaluate=[0.9])
    job = desk.submit()
    wait_until(lambda: model_server.requests("generate"), what="the call")
    assert desk.client.post(f"/v1/jobs/{job['id']}/cancel").status_code == 202
    assert desk.client.post(f"/v1/jobs/{job['id']}/cancel").status_code == 200

    def ledger_is_closed() -> bool:
        return [call["error"]["code"] for call in desk.calls(job["id"]) if call["error"]] == ["canceled"]

    wait_until(ledger_is_closed)
    job = desk.finished(job["id"])
    assert (job["status"], job["stop_reason"], job["result"]) == ("canceled", "canceled", None)
    assert (job["usage"]["calls"], job["usage"]["cost_usd"]) == (1, None)
    assert model_server.requests("evaluate") == []


def test_a_job_can_be_continued_with_a_persons_guidance(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=["one", "two", "three"], evaluate=[0.4, 0.5, 0.95])
    job = desk.run(iter_max=2)
    assert job["stop_reason"] == "iteration_limit"
    answer = desk.client.post(f"/v1/jobs/{job['id']}/continue", json={"iter_max": 2, "guidance": "MENTION-THE-RIVER"})
    assert answer.status_code == 202
    job = desk.finished(job["id"])
    assert (job["stop_reason"], job["continuations"], job["result"]["total_iterations"]) == ("accepted", 1, 3)
    assert "MENTION-THE-RIVER" in model_server.requests("generate")[2].prompt
    assert "two" in model_server.requests("generate")[2].prompt
    assert len(model_server.requests()) == 6


def test_a_file_becomes_a_report(desk: Desk, model_server: ModelServer):
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
