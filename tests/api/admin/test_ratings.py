"""Ratings and calibration over HTTP."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from sqlalchemy import select, text, update

from redraft.domain.admin.scopes import Scope
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.requests import RescoreJob
from redraft.errors import NotFound
from redraft.operations.admin import keys
from redraft.operations.evaluation import ratings, rescore
from redraft.operations.evaluation.ratings import RatingFilter
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.storage.engine.tables import ratings as table
from redraft.storage.jobs import jobs
from tests.api.conftest import assert_problem
from tests.support.api_server import ApiServer
from tests.support.rows.verdicts import add_evaluation, add_iteration, add_judged, add_ratings, criterion
from tests.support.waiting import patient, wait_until

SHAPE = [
    "id", "job_id", "iteration", "candidate", "evaluation_id", "role", "criterion", "verdict", "score", "note",
    "rater", "created_at",
]  # fmt: skip
Rescored = tuple[str, dict[int, str]]
CRITERIA = [criterion("short"), criterion("true", score=0.0, passed=False), criterion("open", score=None, passed=None)]


@pytest.fixture
def job_id(submit_job: Callable[..., str]) -> str:
    return submit_job()


def rate(client: httpx2.Client, job_id: str, number: int = 1, **body: Any) -> httpx2.Response:
    return client.post(f"/v1/jobs/{job_id}/iterations/{number}/ratings", json={"verdict": "agree", **body})


def calibration(client: httpx2.Client, **query: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/calibration", params=query)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def test_an_evaluation_and_its_criteria_are_rated_and_all_ratings_listed(
    client: httpx2.Client, services: Services, job_id: str
):
    evaluation_id = add_judged(services, job_id, criteria=CRITERIA)
    response = rate(client, job_id, score=0.7, note="Fine\nby me.")
    assert response.status_code == 201
    first = response.json()
    assert list(first) == SHAPE
    assert first["id"].startswith("rat_")
    assert first["created_at"].endswith("Z")
    assert {name: first[name] for name in SHAPE[1:-1]} == {
        "job_id": job_id,
        "iteration": 1,
        "candidate": 1,
        "evaluation_id": evaluation_id,
        "role": "loop",
        "criterion": None,
        "verdict": "agree",
        "score": 0.7,
        "note": "Fine\nby me.",
        "rater": "local",
    }
    second = rate(client, job_id, verdict="disagree", criterion="true").json()
    third = rate(client, job_id, verdict="unsure").json()
    listed = client.get(f"/v1/jobs/{job_id}/ratings").json()["data"]
    assert listed == [first, second, third]
    assert (listed[1]["criterion"], listed[1]["score"], listed[1]["note"]) == ("true", None, "")


def test_a_job_without_ratings_has_an_empty_list_and_no_calibration(client: httpx2.Client, job_id: str):
    assert client.get(f"/v1/jobs/{job_id}/ratings").json() == {"data": []}
    assert client.get("/v1/calibration").json() == {"data": [], "left_out": 0}


def test_what_is_not_there_is_not_rated(client: httpx2.Client, services: Services, job_id: str):
    add_judged(services, job_id)
    assert_problem(rate(client, "job_none"), 404, "not_found")
    assert "iteration" in assert_problem(rate(client, job_id, 2), 404, "not_found")["detail"]
    assert_problem(client.get("/v1/jobs/job_none/ratings"), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"verdict": "yes"}, "/verdict", "literal_error"),
        ({"verdict": None}, "/verdict", "literal_error"),
        ({"stars": 5}, "/stars", "extra_forbidden"),
        ({"score": 1.1}, "/score", "less_than_equal"),
        ({"score": "1"}, "/score", "float_type"),
        ({"note": "x" * 10_001}, "/note", "too_long"),
        ({"note": "a\x00"}, "/note", "nul_character"),
        ({"candidate": 0}, "/candidate", "greater_than_equal"),
        ({"candidate": 2}, "/candidate", "unknown_candidate"),
        ({"evaluation_id": "eval_none"}, "/evaluation_id", "unknown_evaluation"),
        ({"criterion": "long"}, "/criterion", "unknown_criterion"),
        ({"criterion": "open"}, "/criterion", "not_rateable"),
    ],
)
def test_a_wrong_rating_is_refused_with_its_place(
    client: httpx2.Client, services: Services, job_id: str, body: dict[str, Any], pointer: str, code: str
):
    add_judged(services, job_id, criteria=CRITERIA)
    problem = assert_problem(rate(client, job_id, **body), 422)
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]
    assert client.get(f"/v1/jobs/{job_id}/ratings").json() == {"data": []}


def test_it_names_what_could_have_been_meant(client: httpx2.Client, services: Services, job_id: str):
    add_judged(services, job_id, criteria=CRITERIA)
    add_judged(services, job_id, candidate=3)
    assert "short, true, open" in assert_problem(rate(client, job_id, criterion="x"), 422)["detail"]
    assert "it has 1, 3" in assert_problem(rate(client, job_id, candidate=2), 422)["detail"]
    words = assert_problem(rate(client, job_id, candidate=3, criterion="x"), 422)["detail"]
    assert "has no criteria" in words


def test_without_a_verdict_there_is_nothing_to_rate(client: httpx2.Client, services: Services, job_id: str):
    add_iteration(services, job_id, 1)
    failed = {"status": "error", "score": None, "passed": False, "error": {"code": "evaluator_invalid"}}
    add_judged(services, job_id, 2, **failed)
    add_judged(services, job_id, 3, status="skipped", score=None)
    for number, words in ((1, "was not evaluated yet"), (2, "could not be evaluated"), (3, "was skipped")):
        for body in ({}, {"candidate": 1}):
            problem = assert_problem(rate(client, job_id, number, **body), 422, "not_rateable")
            assert words in problem["detail"]


def test_of_several_candidates_the_best_one_is_rated_unless_one_is_named(
    client: httpx2.Client, services: Services, job_id: str
):
    failed = {"status": "error", "score": None, "passed": False}
    changes: list[dict[str, Any]] = [failed, {"score": 0.4}, {"score": 0.8}, {"score": 0.8}]
    for candidate, change in enumerate(changes, 1):
        add_judged(services, job_id, candidate=candidate, **change)
    assert rate(client, job_id).json()["candidate"] == 3
    assert rate(client, job_id, candidate=2).json()["candidate"] == 2
    assert_problem(rate(client, job_id, candidate=1), 422, "not_rateable")


def test_an_audit_is_rated_by_its_id(client: httpx2.Client, services: Services, job_id: str):
    iteration_id = add_iteration(services, job_id)
    audit = add_evaluation(services, job_id, iteration_id, role="audit", score=0.2, passed=False)
    elsewhere = add_judged(services, job_id, 2)
    assert_problem(rate(client, job_id), 422, "not_rateable")
    assert_problem(rate(client, job_id, evaluation_id=elsewhere), 422, "unknown_evaluation")
    assert_problem(rate(client, job_id, evaluation_id=audit, candidate=2), 422, "unknown_candidate")
    assert rate(client, job_id, evaluation_id=audit, candidate=1).json()["evaluation_id"] == audit
    own = add_evaluation(services, job_id, iteration_id, score=0.1)
    assert rate(client, job_id).json()["evaluation_id"] == own


@pytest.fixture
def rescored(services: Services, job_id: str) -> Rescored:
    """A job that judges the iterations 1 and 3 of three anew; with its evaluations by iteration."""
    iteration_ids = {number: add_iteration(services, job_id, number) for number in (1, 2, 3)}
    for iteration_id in iteration_ids.values():
        add_evaluation(services, job_id, iteration_id, score=0.2, passed=False)
    lifecycle.cancel(services, job_id)
    again, other = (rescore.rescore(services, job_id, RescoreJob(iterations=[1, 3])).job.id for _ in range(2))
    own = {
        number: add_evaluation(services, again, iteration_ids[number], role="rescore", criteria=CRITERIA)
        for number in (1, 3)
    }
    add_evaluation(services, other, iteration_ids[1], role="rescore", score=1.0)
    lifecycle.cancel(services, again)
    return again, own


def test_ratings_of_a_rescoring_are_of_its_own_evaluations(client: httpx2.Client, job_id: str, rescored: Rescored):
    again, own = rescored
    first = rate(client, again, 1).json()
    assert (first["job_id"], first["evaluation_id"], first["role"]) == (again, own[1], "rescore")
    second = rate(client, again, 3, criterion="short", candidate=1).json()
    assert second["evaluation_id"] == own[3]
    assert client.get(f"/v1/jobs/{again}/ratings").json()["data"] == [first, second]
    assert client.get(f"/v1/jobs/{job_id}/ratings").json()["data"] == []
    by_id = rate(client, job_id, 3, evaluation_id=own[3]).json()
    assert (by_id["job_id"], by_id["role"]) == (job_id, "rescore")
    assert rate(client, job_id, 3).json()["role"] == "loop"


def test_a_rescoring_knows_its_iterations_and_no_other_judges(client: httpx2.Client, job_id: str, rescored: Rescored):
    again, _ = rescored
    for number in (2, 9):
        words = assert_problem(rate(client, again, number), 404, "not_found")["detail"]
        assert words == f"Job {again} has the iterations 1, 3, not {number}."
    words = assert_problem(rate(client, job_id, 9), 404, "not_found")["detail"]
    assert words == f"Job {job_id} has the iterations 1 to 3, not 9."
    loops = client.get(f"/v1/jobs/{job_id}/iterations").json()["data"][0]["evaluation"]
    assert (loops["role"], loops["job_id"]) == ("loop", job_id)
    assert_problem(rate(client, again, 1, evaluation_id=loops["id"]), 422, "unknown_evaluation")
    shown = client.get(f"/v1/jobs/{again}/iterations").json()["data"][0]["evaluation"]
    assert (shown["role"], shown["job_id"]) == ("rescore", again)
    further = client.get(f"/v1/jobs/{job_id}/iterations").json()["data"][0]["further_evaluations"]
    assert len({each["job_id"] for each in further}) == 2


@pytest.mark.parametrize("deletes_source", [True, False])
def test_deleting_either_job_removes_ratings_of_a_rescoring(
    client: httpx2.Client,
    services: Services,
    job_id: str,
    rescored: Rescored,
    *,
    deletes_source: bool,
):
    again, _ = rescored
    rate(client, again, 1)
    assert client.delete(f"/v1/jobs/{job_id if deletes_source else again}").status_code == 204
    with services.database.read() as connection:
        assert connection.execute(select(table)).all() == []
    if deletes_source:
        assert "no answers" in assert_problem(rate(client, again, 1), 404, "not_found")["detail"]


def test_the_rater_is_the_key_and_writing_needs_the_scope(
    start_api: Callable[..., ApiServer], services: Services, job_id: str
):
    client = start_api(require_auth=True).client()
    add_judged(services, job_id)
    key, writing = keys.create_key(services, "anna", [Scope.WRITE])
    reading = keys.create_key(services, "berta", [Scope.READ])[1]

    def ask(method: str, path: str, token: str) -> httpx2.Response:
        body = {"verdict": "agree"} if method == "POST" else None
        return client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

    path = f"/v1/jobs/{job_id}/iterations/1/ratings"
    assert ask("POST", path, writing).json()["rater"] == key["id"]
    assert_problem(ask("POST", path, reading), 403, "insufficient_scope")
    for looked_at in (f"/v1/jobs/{job_id}/ratings", "/v1/calibration"):
        assert ask("GET", looked_at, reading).status_code == 200
        assert_problem(ask("GET", looked_at, writing), 403, "insufficient_scope")


def test_deleting_a_job_removes_its_ratings(client: httpx2.Client, services: Services, job_id: str):
    add_judged(services, job_id)
    rate(client, job_id)
    lifecycle.cancel(services, job_id)
    assert client.delete(f"/v1/jobs/{job_id}").status_code == 204
    assert calibration(client) == []
    with services.database.read() as connection:
        assert connection.execute(select(table)).all() == []


def test_a_job_that_is_deleted_meanwhile_is_not_there(services: Services, job_id: str):
    add_judged(services, job_id)
    lifecycle.cancel(services, job_id)
    body = RateEvaluation(verdict="agree")
    with ThreadPoolExecutor() as pool:
        with services.database.write() as connection:
            assert jobs.remove(connection, job_id)
            rating = pool.submit(ratings.rate, services, job_id, 1, body, "cli")
            if not services.database.is_sqlite:
                waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
                wait_until(lambda: connection.execute(waits).scalar_one())
        with pytest.raises(NotFound):
            rating.result(timeout=patient(30))


def test_the_last_word_of_each_rater_counts(client: httpx2.Client, services: Services, job_id: str):
    add_judged(services, job_id, criteria=CRITERIA)
    for verdict in ("agree", "unsure", "disagree"):
        rate(client, job_id, verdict=verdict)
    rate(client, job_id, criterion="short")
    body = RateEvaluation(verdict="agree")
    ratings.rate(services, job_id, 1, body, "cli")
    whole, short = sorted(calibration(client), key=lambda group: group["criterion"] or "")
    assert (whole["n"], whole["unsure"], whole["table"]["both_pass"]) == (2, 0, 1)
    assert whole["table"]["only_evaluator_passes"] == 1
    assert (short["criterion"], short["n"]) == ("short", 1)
    assert len(client.get(f"/v1/jobs/{job_id}/ratings").json()["data"]) == 5


def test_calibration_has_a_group_for_each_way_to_evaluate_the_largest_first(
    client: httpx2.Client, services: Services, submit_job: Callable[..., str]
):
    kinds: list[dict[str, Any]] = [
        {"evaluator_model": "openai:judge", "profile": "criteria", "profile_version": "1"},
        {"evaluator_model": "openai:judge", "profile": "criteria", "profile_version": "2"},
        {"evaluator_model": "openai:judge", "profile": "quality", "profile_version": "1"},
        {"evaluator_model": "anthropic:claude", "profile": "criteria", "profile_version": "1"},
        {"evaluator_model": None, "profile": "criteria", "profile_version": None},
    ]
    for count, kind in enumerate(kinds, 1):
        job_id = submit_job()
        for number in range(1, count + 1):
            add_judged(services, job_id, number, **kind)
            rate(client, job_id, number)
    found = calibration(client)
    # The last kind is what code found: nobody's judgement
    assert [{name: group[name] for name in kinds[0]} for group in found] == kinds[3::-1]
    assert [group["n"] for group in found] == [4, 3, 2, 1]
    assert {group["criterion"] for group in found} == {None}
    assert [group["n"] for group in calibration(client, evaluator_model="openai:judge")] == [3, 2, 1]
    assert [group["n"] for group in calibration(client, profile="quality")] == [3]
    assert [group["n"] for group in calibration(client, profile="criteria", profile_version="2")] == [2]
    assert calibration(client, criterion="c1") == []


def test_thirty_ratings_calibrate_and_suggest_a_threshold(client: httpx2.Client, services: Services, job_id: str):
    for number in range(1, 41):
        score = number / 40
        add_judged(services, job_id, number, score=score, passed=score >= 0.5)
        people_pass = number > 24 or number % 8 == 0
        verdict = "agree" if people_pass == (score >= 0.5) else "disagree"
        assert rate(client, job_id, number, verdict=verdict, score=1.0).status_code == 201
    [group] = calibration(client, precision=0.9)
    assert (group["status"], group["n"], group["ratings_needed"]) == ("calibrated", 40, 30)
    assert group["table"] == {"both_pass": 17, "only_evaluator_passes": 4, "only_person_passes": 2, "both_fail": 17}
    assert group["agreement"]["value"] == 34 / 40
    assert group["agreement"]["low"] < 0.85 < group["agreement"]["high"]
    assert group["kappa"]["value"] == pytest.approx(0.7, abs=0.01)
    assert set(group["kappa"]) == {"value", "low", "high", "standard_error"}
    assert group["sensitivity"]["value"] == 17 / 19
    assert group["specificity"]["value"] == 17 / 21
    assert group["bias"] == {"value": pytest.approx(1 - 20.5 / 40), "n": 40}
    threshold = group["threshold"]
    assert (threshold["value"], threshold["n"], threshold["recall"]) == (23 / 40, 18, 17 / 19)
    assert threshold["precision"]["value"] == 17 / 18
    assert (group["kappa_reason"], group["threshold_reason"]) == (None, None)
    assert calibration(client, precision=0.8)[0]["threshold"]["value"] == 20 / 40
    assert calibration(client, precision=0)[0]["threshold"]["value"] == 1 / 40


def test_below_thirty_it_says_so(client: httpx2.Client, services: Services, job_id: str):
    add_judged(services, job_id)
    rate(client, job_id)
    [group] = calibration(client)
    assert (group["status"], group["n"], group["threshold"], group["kappa"]) == ("not calibrated", 1, None, None)
    assert "1 of 30" in group["threshold_reason"]
    assert "No variation" in group["kappa_reason"]
    assert (group["specificity"], group["bias"]) == (None, None)


def test_the_score_of_a_fault_is_turned_round(client: httpx2.Client, services: Services, job_id: str):
    for number in range(1, 31):
        is_there = number % 2 == 0
        fault = criterion("rambles", weight=-1, score=float(is_there), passed=not is_there)
        add_judged(services, job_id, number, criteria=[fault])
        rate(client, job_id, number, criterion="rambles", score=0.75 if is_there else 0.0)
    [group] = calibration(client, criterion="rambles")
    assert (group["threshold"]["value"], group["threshold"]["n"]) == (1.0, 15)
    assert group["bias"]["value"] == pytest.approx(0.125)


def test_ratings_of_a_time(client: httpx2.Client, services: Services, job_id: str):
    add_judged(services, job_id)
    old = rate(client, job_id, verdict="disagree").json()["id"]
    with services.database.write() as connection:
        connection.execute(update(table).where(table.c.id == old).values(created_at=datetime(2026, 1, 1, tzinfo=UTC)))
    rate(client, job_id, verdict="agree")
    tables = {
        name: [group["table"] for group in calibration(client, **{name: "2026-02-01T00:00:00Z"})]
        for name in ("created_before", "created_after")
    }
    # As it was then: the later word was not spoken yet
    assert [each["only_evaluator_passes"] for each in tables["created_before"]] == [1]
    assert [each["both_pass"] for each in tables["created_after"]] == [1]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("precision=1.1", "precision"),
        ("precision=nan", "precision"),
        ("created_after=soon", "created_after"),
        ("evaluator=openai:judge", "evaluator"),
    ],
)
def test_a_wrong_query_is_refused(client: httpx2.Client, query: str, name: str):
    problem = assert_problem(client.get(f"/v1/calibration?{query}"), 422)
    assert [error["pointer"] for error in problem["errors"]] == [f"query/{name}"]


def test_of_very_many_groups_the_largest_are_shown(services: Services, job_id: str):
    names = [f"c{n}" for n in range(ratings.GROUPS_MAX + 2)]
    evaluation_id = add_judged(services, job_id, criteria=[criterion(name) for name in names])
    add_ratings(services, job_id, evaluation_id, names)
    ratings.rate(services, job_id, 1, RateEvaluation(verdict="agree", criterion="c7"), "b")
    found, left_out = ratings.calibration(services, RatingFilter(), precision=0.9)
    assert (len(found), left_out) == (ratings.GROUPS_MAX, 2)
    assert (found[0].criterion, found[0].n) == ("c7", 2)
