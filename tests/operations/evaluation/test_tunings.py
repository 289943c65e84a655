"""Ratings become examples or a threshold for an evaluator: chosen, validated, adopted by a person, and reverted."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_core import to_json

from redraft.domain.evaluation.calibration import Verdict
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.requests import EvaluateAnswer
from redraft.errors import Conflict, Invalid
from redraft.operations.evaluation import profile_views, ratings, tunings
from redraft.operations.evaluation.tunings import Draft, Tuning
from redraft.operations.jobs.cost_estimates import preview
from tests.model_server import ModelServer, Reply
from tests.model_server.requests import Asked
from tests.operations.bulk.test_runs import work_off
from tests.operations.driving import LEAST, Driver

JUDGE = ("openai:judge", "criteria")


def lenient(asked: Asked) -> Reply:
    """Passes everything, until examples show what people think."""
    evaluated = asked.prompt.rpartition('<answer id="')[2]
    is_mended = "# Verdicts of people" in asked.prompt
    return Reply(score=0.9 if "GOOD" in evaluated or not is_mended else 0.1)


@pytest.fixture
def model(model_server: ModelServer) -> Iterator[ModelServer]:
    model_server.respond(lenient)
    yield model_server
    model_server.respond(None)


def evaluated(driver: Driver, answer: str, task: str, **values: Any) -> str:
    job_id = driver.submit_evaluation(answer, instruct=task, **values)
    driver.run(job_id)
    return job_id


VERDICTS: dict[str, Verdict] = {"GOOD": "agree", "BAD": "disagree"}


def rate_all(driver: Driver, count: int = 6) -> None:
    """People pass the good answers only, and say why."""
    for number in range(count):
        for word, verdict in VERDICTS.items():
            job_id = evaluated(driver, f"{word} answer {number}", f"Task {number}")
            body = RateEvaluation(verdict=verdict, note="It is invented." if word == "BAD" else "")
            ratings.rate(driver.services, job_id, 1, body, "anna")


def validated(driver: Driver) -> tuple[Draft, Tuning]:
    draft = tunings.draft_examples(driver.services, *JUDGE, 4)
    work_off(driver, tunings.validate(driver.services, draft, max_in_flight=8, max_cost_usd=None))
    return draft, tunings.get(driver.services, draft.tuning.id)


@pytest.mark.both_databases
def test_examples_are_chosen_and_validated_by_cross_validation(driver: Driver, model: ModelServer):
    rate_all(driver)
    draft, found = validated(driver)
    assert (draft.rated, draft.disputed) == (12, 6)
    assert [each.passes for each in found.examples] == [True, False, True, False]
    assert found.examples[1].reason == "It is invented."
    agreement = found.agreement
    assert agreement
    assert agreement.before
    assert agreement.after
    assert agreement.difference
    assert (agreement.n, agreement.before.value, agreement.after.value, agreement.missing) == (12, 0.5, 1.0, 0)
    assert agreement.difference.low is not None
    assert agreement.difference.low > 0
    job = driver.job(evaluated(driver, "BAD one", "Task A"))
    assert job.result
    assert (found.status, job.request["evaluation"]["tuning"], job.result["success"]) == ("draft", None, True)


def test_an_adopted_tuning_is_a_version_of_the_profile(driver: Driver, model: ModelServer):
    rate_all(driver)
    found = tunings.adopt(driver.services, tunings.draft_examples(driver.services, *JUDGE, 4).tuning.id)
    job_id = evaluated(driver, "BAD one", "Task B")
    job, (iteration,) = driver.job(job_id), driver.iterations(job_id)
    assert job.result
    assert (job.request["evaluation"]["tuning"], job.result["success"]) == (found.id, False)
    assert iteration.evaluation
    assert iteration.evaluation.profile == "criteria"
    view = profile_views.view_profile(driver.services, "criteria", version=found.profile_version)
    assert view.changes
    assert list(view.changes) == ["examples.json"]
    untuned = driver.job(evaluated(driver, "BAD one", "Task C", evaluation={"tuning": "none"}))
    assert untuned.result
    assert untuned.result["success"]
    other = driver.job(evaluated(driver, "BAD", "D", evaluator_model="openai:else"))
    assert other.request["evaluation"]["tuning"] is None


@pytest.mark.both_databases
def test_a_tuning_is_edited_as_a_new_draft_and_reverted_to_the_one_before(driver: Driver, model: ModelServer):
    rate_all(driver)
    first = tunings.adopt(driver.services, tunings.draft_examples(driver.services, *JUDGE, 4).tuning.id)
    edited = tunings.edit(driver.services, first.id, to_json(first.examples[:1]).decode())
    assert (edited.agreement, edited.status, len(edited.examples)) == (None, "draft", 1)
    tunings.adopt(driver.services, edited.id)
    assert [each.status for each in tunings.list_tunings(driver.services)] == ["adopted", "draft"]
    assert tunings.revert(driver.services, edited.id).status == "reverted"
    assert tunings.get(driver.services, first.id).status == "adopted"
    tunings.revert(driver.services, first.id)
    with pytest.raises(Conflict):
        tunings.revert(driver.services, first.id)
    with pytest.raises(Invalid, match="examples"):
        tunings.edit(driver.services, first.id, '[{"task": "T"}]')


def test_a_threshold_is_tuned_without_a_call(driver: Driver, model_server: ModelServer):
    scores = {"GOOD": 0.95, "BAD": 0.85}
    model_server.respond(lambda asked: Reply(score=scores["GOOD" if "GOOD" in asked.prompt else "BAD"]))
    rate_all(driver, 20)
    asked = len(model_server.requests())
    found = tunings.draft_threshold(driver.services, *JUDGE, 0.9)
    assert len(model_server.requests()) == asked
    assert (found.score_threshold, found.examples) == (0.95, [])
    assert found.agreement
    assert found.agreement.after
    assert (found.agreement.n, found.agreement.after.value) == (40, 1.0)
    tunings.adopt(driver.services, found.id)
    given, default = (driver.job(evaluated(driver, "BAD", "T", **each)) for each in ({"score_threshold": 0.5}, {}))
    model_server.respond(None)
    assert (given.request["score_threshold"], default.request["score_threshold"]) == (0.5, 0.95)


def test_without_enough_ratings_or_a_disagreement_nothing_is_drafted(driver: Driver, model: ModelServer):
    with pytest.raises(Invalid, match="0 rated answers with profile criteria; 10 are needed"):
        tunings.draft_examples(driver.services, *JUDGE, 4)
    for number in range(10):
        job_id = evaluated(driver, "GOOD", f"Task {number}")
        ratings.rate(driver.services, job_id, 1, RateEvaluation(verdict="agree"), "anna")
    with pytest.raises(Invalid, match="nothing to learn"):
        tunings.draft_examples(driver.services, *JUDGE, 4)
    with pytest.raises(Invalid, match="too few"):
        tunings.draft_threshold(driver.services, *JUDGE, 0.9)
    assert tunings.list_tunings(driver.services) == []


def test_wrong_references_and_examples_are_refused(driver: Driver):
    request = EvaluateAnswer.model_validate({**LEAST, "answer": "A", "evaluation": {"tuning": "tun_0"}})
    with pytest.raises(Invalid, match="There is no tuning 'tun_0'"):
        preview(driver.services, request)
