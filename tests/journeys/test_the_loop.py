"""The main job through HTTP and a Celery worker, on both databases and over both wire formats."""

import json
from typing import Any

import pytest

from tests.journeys.desks import TASK, Desk
from tests.journeys.offices import Office
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.waiting import wait_until

OPENAI = {"model": "openai:writer", "evaluator_model": "openai:judge"}
ANTHROPIC = {"model": "anthropic:writer", "evaluator_model": "anthropic:judge"}


@pytest.fixture
def desk(office: Office) -> Desk:
    return office.desk


@pytest.fixture
def model_server(office: Office) -> ModelServer:
    return office.model_server


def _verdict(score: float, *suggestions: str) -> dict[str, Any]:
    return {
        "evaluation_reasoning": f"reasons-{'-'.join(suggestions)}",
        "improvement_suggestions": list(suggestions),
        "meets_criteria": score > 0.8,
        "score": score,
    }


@pytest.mark.parametrize("models", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_low_score_sends_feedback_into_the_next_generation(
    desk: Desk, model_server: ModelServer, models: dict[str, str]
) -> None:
    model_server.script(
        generate=["FIRST-DRAFT", "SECOND-DRAFT"],
        evaluate=[_verdict(0.4, "FIX-THE-DATE"), _verdict(0.9)],
    )
    job = desk.run(**models)

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


@pytest.mark.parametrize("models", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_the_evaluator_sees_the_answer_and_nothing_of_the_loop(
    desk: Desk, model_server: ModelServer, models: dict[str, str]
) -> None:
    model_server.script(generate=["ONE", "TWO"], evaluate=[_verdict(0.437, "SUGGESTED"), _verdict(0.913)])
    desk.run(**models, score_threshold=0.877)
    for draft, asked in zip(["ONE", "TWO"], model_server.requests("evaluate"), strict=True):
        said = json.dumps(asked.body)
        assert draft in asked.prompt
        for hidden in ("0.437", "0.913", "0.877", "SUGGESTED", "threshold", "teration"):
            assert hidden not in said


def test_at_the_limit_the_best_answer_is_returned_not_the_last(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=["one", "two", "three"], evaluate=[0.4, 0.7, 0.6])
    job = desk.run(iter_max=3)
    assert (job["status"], job["stop_reason"]) == ("succeeded", "iteration_limit")
    result = job["result"]
    assert (result["final_answer"], result["final_score"], result["success"]) == ("two", 0.7, False)
    assert (result["best_iteration"], result["total_iterations"]) == (2, 3)


def test_threshold_zero_accepts_at_once(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=["one"], evaluate=[0.0])
    job = desk.run(score_threshold=0)
    assert (job["stop_reason"], job["result"]["final_score"], job["usage"]["calls"]) == ("accepted", 0.0, 2)


def test_iter_max_one_makes_exactly_one_call_of_each_kind(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=["one"], evaluate=[0.1])
    job = desk.run(iter_max=1)
    assert job["stop_reason"] == "iteration_limit"
    assert [call["type"] for call in desk.calls(job["id"])] == ["generate", "evaluate"]
    assert len(model_server.requests()) == 2


def test_everything_is_stored_and_told(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=["one", "two"], evaluate=[_verdict(0.4, "shorter"), 0.9])
    job = desk.run()
    iterations = desk.iterations(job["id"])
    assert [(each["number"], each["answer"], each["status"]) for each in iterations] == [
        (1, "one", "evaluated"),
        (2, "two", "evaluated"),
    ]
    assert "shorter" in iterations[1]["feedback_given"]
    calls = desk.calls(job["id"])
    assert [call["status"] for call in calls] == ["succeeded"] * 4
    assert all(call["request"]["messages"] and call["response"] for call in calls)
    assert "sk-test" not in json.dumps(calls)
    events = desk.events(job["id"])
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events] == [
        "job.queued", "job.started",
        "iteration.started", "iteration.generated", "iteration.evaluated", "thinking",
        "iteration.started", "iteration.generated", "iteration.evaluated", "done",
    ]  # fmt: skip
    assert events[-1]["data"]["result"] == job["result"]


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


def test_a_passing_provider_failure_is_retried_without_using_up_an_iteration(
    desk: Desk, model_server: ModelServer
) -> None:
    model_server.script(
        generate=[Reply(status=429, text="slow down"), Reply(status=503, text="busy"), "one"], evaluate=[0.9]
    )
    job = desk.run()
    assert (job["stop_reason"], job["result"]["total_iterations"], job["usage"]["calls"]) == ("accepted", 1, 4)
    calls = desk.calls(job["id"])
    assert [(call["attempt"], call["status"]) for call in calls] == [
        (1, "failed"), (2, "failed"), (3, "succeeded"), (1, "succeeded"),
    ]  # fmt: skip
    assert [event["type"] for event in desk.events(job["id"])].count("step.retrying") == 2


def test_a_refused_key_makes_one_call_and_says_which_key(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=[Reply(status=401, text="bad key")])
    job = desk.run()
    assert (job["status"], job["stop_reason"], job["result"]) == ("failed", "error", None)
    assert job["error"]["code"] == "provider_auth"
    assert "OPENAI_API_KEY" in job["error"]["detail"]
    assert len(model_server.requests()) == 1


def test_canceling_aborts_the_call_in_flight(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=[Reply(text="late", latency_s=600.0)], evaluate=[0.9])
    job = desk.submit()
    while not model_server.requests("generate"):
        desk.client.get("/livez")
    assert desk.client.post(f"/v1/jobs/{job['id']}/cancel").status_code == 202
    assert desk.client.post(f"/v1/jobs/{job['id']}/cancel").status_code == 200

    def ledger_is_closed() -> bool:
        return [call["error"]["code"] for call in desk.calls(job["id"]) if call["error"]] == ["canceled"]

    wait_until(ledger_is_closed)
    job = desk.finished(job["id"])
    assert (job["status"], job["stop_reason"], job["result"]) == ("canceled", "canceled", None)
    assert (job["usage"]["calls"], job["usage"]["cost_usd"]) == (1, None)
    assert model_server.requests("evaluate") == []


def test_a_deadline_ends_a_job_whose_provider_hangs(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=[Reply(fault="hang")])
    job = desk.run(limits={"deadline_s": 1.0})
    assert (job["status"], job["stop_reason"]) == ("failed", "deadline_exceeded")
    assert job["error"]["code"] == "deadline_exceeded"
