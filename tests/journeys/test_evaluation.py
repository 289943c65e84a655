"""Rubrics, panels, audits, profiles and rescoring through HTTP and a Celery worker."""

import pytest

from tests.journeys.desks import Desk
from tests.journeys.offices import Office
from tests.model_server.server import ModelServer
from tests.operations.rubrics import by_model, criterion, down, found, words_at_most


@pytest.fixture
def desk(office: Office) -> Desk:
    return office.desk


@pytest.fixture
def model_server(office: Office) -> ModelServer:
    return office.model_server


def test_a_panel_judges_a_rubric_an_outsider_audits_and_the_answers_are_judged_anew(
    desk: Desk, model_server: ModelServer
) -> None:
    rubric = [criterion("right", weight=2, required=True), criterion("clear"), words_at_most(3)]
    model_server.play(
        by_model(
            ["one two three four", "three short words"],
            j1=[found(right=True, clear=False), found(right=True, clear=True)],
            j2=[found(right=True, clear=True), found(right=True, clear=True)],
            j3=[down(401)],
            outside=[found(right=True, clear=True), found(right=True, clear=True)],
        )
    )
    judging = {"panel": ["openai:j1", "openai:j2", "openai:j3"], "audit": "openai:outside"}
    job = desk.run(rubric=rubric, eval_crit=None, evaluation=judging, score_threshold=0.9, model="openai:writer")

    assert (job["status"], job["stop_reason"], job["result"]["final_score"]) == ("succeeded", "accepted", 1.0)
    first, second = desk.iterations(job["id"])
    assert first["evaluation"]["score"] == pytest.approx((0.5 + 0.75) / 2)
    assert first["evaluation"]["disagreement"] == pytest.approx(0.25)
    assert [judge["status"] for judge in first["evaluation"]["judges"]] == ["ok", "ok", "error"]
    assert [check["message"] for check in first["evaluation"]["checks"]] == [
        "Found 4 words, at most 3 are allowed: cut at least 1 word."
    ]
    assert [each["role"] for each in second["further_evaluations"]] == ["audit"]

    matrix = desk.client.get(f"{job['urls']['self']}/criteria").json()
    assert [row["id"] for row in matrix["criteria"]] == ["right", "clear", "short"]
    assert [[cell["passed"] for cell in column["cells"]] for column in matrix["iterations"]] == [
        [True, False, False],
        [True, True, True],
    ]

    refused = desk.client.post(f"{job['urls']['self']}/rescore", json={"iterations": [9]})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/iterations")
    model_server.play(
        by_model(other=[{"issues": [], "improvement_hint": "", "confidence_score": 1, "quality_score": 0.6}])
    )
    response = desk.client.post(
        f"{job['urls']['self']}/rescore", json={"evaluator_model": "openai:other", "profile": "quality"}
    )
    assert response.status_code == 202
    again = desk.finished(response.json()["id"])
    assert (again["kind"], again["stop_reason"], again["usage"]["calls"]) == ("rescore_answers", "iteration_limit", 2)
    assert [len(each["further_evaluations"]) for each in desk.iterations(job["id"])] == [2, 2]


def test_evidence_is_shown_the_beginning_of_each_source_and_comprehensive_none(
    desk: Desk, model_server: ModelServer
) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    sources = [{"content": "a" * 499 + family + "TAIL"}, {"content": "short source"}, {"content": "b" * 500}]
    dimension = {"reasoning": "r", "score": 0.5}
    reply = {"reasonableness": dimension, "evidence": {**dimension, "score": 1}, "suggestions": ["S"], "passed": True}
    model_server.script(evaluate=[reply])
    told = {"sources": sources, "grounding": {"require_grounding": False}, "eval_crit": None, "iter_max": 1}
    job = desk.run(profile="evidence", **told)
    *_, asked = model_server.requests("evaluate")
    assert "a" * 499 + "\u2026" in asked.prompt
    assert family[0] not in asked.prompt
    assert "TAIL" not in asked.prompt
    assert "short source" in asked.prompt
    assert "b" * 500 + "\n" in asked.prompt
    assert (job["result"]["final_score"], job["stop_reason"]) == (0.75, "iteration_limit")
    writer = model_server.requests("generate")[0].prompt
    assert ("TAIL" in writer, family in writer) == (True, True)

    model_server.script(evaluate=[{"reason": "R", "comprehensive": True}])
    job = desk.run(profile="comprehensive", **told)
    *_, asked = model_server.requests("evaluate")
    assert "short source" not in asked.prompt
    assert (job["result"]["final_score"], job["stop_reason"]) == (1.0, "accepted")
