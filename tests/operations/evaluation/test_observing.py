"""A job that ends accepted leaves an observation, however it ends; one that does not leaves none."""

from typing import Any

import pytest

from redraft.domain.jobs.requests import ContinueJob, RescoreJob, Source
from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.evaluation import observations
from redraft.operations.evaluation.observations import Observation, ObservationFilter
from redraft.operations.evaluation.rescore import rescore
from redraft.operations.jobs.lifecycle import cancel, continue_job
from redraft.operations.steps.sweeper import sweep
from redraft.operations.steps.unexpected_errors import StepCrashed, reschedule
from tests.model_server import ModelServer
from tests.model_server.scripts import Rule, Script
from tests.operations.driving import Driver
from tests.operations.rubrics import down

SOURCES: list[dict[str, Any]] = [
    {"content": "The Aare flows through Bern.", "chunk_id": "c1", "document_id": "d1", "relevance_score": 0.4},
    {"content": "Bern has been the federal city since 1848.", "title": "History", "relevance_score": 0.9},
    {"content": "Basel lies on the Rhine."},
]
BARE = [{name: value for name, value in each.items() if name != "relevance_score"} for each in SOURCES]
CITING = "The Aare flows through Bern [Source 1]."
AUDITED = {"evaluation": {"audit": "openai:outside"}, "evaluator_model": "openai:inside"}


def observed(driver: Driver, job_id: str) -> list[Observation]:
    return [each for page in observations.export(driver.services, ObservationFilter(job_id=job_id)) for each in page]


def test_the_accepted_answer_and_its_sources_are_kept(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["Basel [Source 3].", CITING], evaluate=[0.4, 0.9])
    job = driver.run_new(sources=SOURCES)
    assert job.stop_reason == "accepted"
    [found] = observed(driver, job.id)
    assert (found.job_id, found.iteration, found.candidate, found.query) == (job.id, 2, 1, "TASK")
    assert (found.final_score, found.grounding_score, found.profile) == (0.9, 1.0, "criteria")
    assert (found.generator_model, found.evaluator_model) == ("openai:writer", "openai:judge")
    shown = [(each.source_number, each.rank, each.relevance_score, each.cited) for each in found.sources]
    assert shown == [(1, 2, 0.4, True), (2, 1, 0.9, False), (3, None, None, False)]
    assert [each.chunk_id for each in found.sources] == ["c1", None, None]
    assert (found.sources[0].document_id, found.sources[1].title) == ("d1", "History")
    assert "federal city" not in found.model_dump_json()


@pytest.mark.parametrize(
    ("fields", "score"),
    [({"sources": SOURCES, "iter_max": 1}, 0.4), ({"sources": BARE}, 0.9), ({}, 0.9)],
    ids=["not accepted", "no scores", "no sources"],
)
def test_nothing_is_kept_of_an_answer_that_was_not_accepted_or_has_no_ranked_sources(
    driver: Driver, model_server: ModelServer, fields: dict[str, Any], score: float
):
    model_server.script(generate=[CITING], evaluate=[score])
    assert observed(driver, driver.run_new(**fields).id) == []


def test_a_given_answer_is_observed_and_its_rescoring_is_not(driver: Driver, model_server: ModelServer):
    model_server.script(evaluate=[0.9])
    job = driver.run(driver.submit_evaluation(CITING, sources=SOURCES))
    [found] = observed(driver, job.id)
    assert (found.generator_model, found.iteration, found.final_score) == (None, 1, 0.9)
    again = rescore(driver.services, job.id, RescoreJob(), None).job
    assert driver.run(again.id).stop_reason == "accepted"
    assert observed(driver, again.id) == []
    assert len(observed(driver, job.id)) == 1


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        ('{"a": "[Source 1]"}', {"answer_schema": {"type": "object"}}),
        ("The Aare flows through Bern.", {"grounding": {"include_citations": False}}),
    ],
    ids=["structured", "without marks"],
)
def test_what_an_answer_cites_that_is_not_to_cite_is_unknown(
    driver: Driver, model_server: ModelServer, answer: str, fields: dict[str, Any]
):
    model_server.script(generate=[answer], evaluate=[0.9])
    job = driver.run_new(sources=SOURCES, **fields)
    [found] = observed(driver, job.id)
    assert [each.cited for each in found.sources] == [None] * 3
    assert observations.rank_report(driver.services, ObservationFilter(job_id=job.id)).left_out == 1


def to_the_audit(driver: Driver, model_server: ModelServer, *, outside: object = 0.5) -> str:
    model_server.play(
        Script(
            rules=(
                Rule((outside,), role="evaluate", model="outside"),
                Rule((0.9,), role="evaluate"),
                Rule((CITING,), role="generate"),
            )
        )
    )
    job_id = driver.submit(sources=SOURCES, **AUDITED)
    while driver.row(job_id).step != "audit":
        driver.step(job_id)
    assert observed(driver, job_id) == []
    return job_id


@pytest.mark.parametrize("outside", [0.5, down(401)], ids=["audited", "audit failed"])
def test_an_end_after_an_audit_is_observed_once(driver: Driver, model_server: ModelServer, outside: object):
    job_id = to_the_audit(driver, model_server, outside=outside)
    assert driver.run(job_id).stop_reason == "accepted"
    assert [each.final_score for each in observed(driver, job_id)] == [0.9]


def test_a_deadline_in_an_audit_is_observed_by_sweeper_and_worker(driver: Driver, model_server: ModelServer):
    swept, claimed = (to_the_audit(driver, model_server) for _ in range(2))
    driver.set_back(claimed, deadline_at=-1.0)
    driver.step(claimed)
    driver.set_back(swept, deadline_at=-60.0)
    sweep(driver.services)
    for job_id in (claimed, swept):
        assert driver.job(job_id).stop_reason == "accepted"
        assert [each.iteration for each in observed(driver, job_id)] == [1]


def test_a_job_whose_audit_crashes_for_good_is_observed(driver: Driver, model_server: ModelServer):
    job_id = to_the_audit(driver, model_server)
    message = StepMessage(Step.AUDIT, job_id, driver.row(job_id).step_no)
    reschedule(driver.services, StepCrashed(message, None, is_paid=True), "No such column.")
    assert driver.job(job_id).stop_reason == "accepted"
    assert [each.iteration for each in observed(driver, job_id)] == [1]


def test_a_canceled_audit_is_no_acceptance(driver: Driver, model_server: ModelServer):
    job_id = to_the_audit(driver, model_server)
    cancel(driver.services, job_id)
    assert observed(driver, job_id) == []


def test_a_continuation_that_is_accepted_again_adds_only_another_answer(driver: Driver, model_server: ModelServer):
    better = "Bern has been the federal city since 1848 [Source 2]."
    model_server.script(generate=[CITING, "The Aare is a river [Source 1].", better], evaluate=[0.9, 0.85, 0.95])
    job = driver.run_new(sources=SOURCES)
    for expected in ([1], [1, 3]):
        continue_job(driver.services, job.id, ContinueJob(iter_max=1))
        assert driver.run(job.id).stop_reason == "accepted"
        assert [each.iteration for each in observed(driver, job.id)] == expected


def test_an_answer_from_before_other_sources_came_is_not_observed(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[CITING, "Bern is the federal city [Source 1]."], evaluate=[0.7, 0.6])
    job = driver.run_new(sources=SOURCES, iter_max=1)
    others = [Source.model_validate(each) for each in SOURCES[1:]]
    continue_job(driver.services, job.id, ContinueJob(iter_max=1, score_threshold=0.5, sources=others))
    job = driver.run(job.id)
    # The first answer has the better score, for sources that are gone
    assert (job.stop_reason, job.result and job.result["best_iteration"]) == ("accepted", 2)
    [found] = observed(driver, job.id)
    assert (found.iteration, len(found.sources)) == (2, 2)
