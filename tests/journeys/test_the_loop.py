"""The main job through HTTP and a Celery worker, on both databases and over both wire formats."""

import json
from typing import Any

import pytest

from tests.journeys.desks import Desk
from tests.journeys.offices import Office
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer

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


def test_a_deadline_ends_a_job_whose_provider_hangs(desk: Desk, model_server: ModelServer) -> None:
    model_server.script(generate=[Reply(fault="hang")])
    job = desk.run(limits={"deadline_s": 1.0})
    assert (job["status"], job["stop_reason"]) == ("failed", "deadline_exceeded")
    assert job["error"]["code"] == "deadline_exceeded"
