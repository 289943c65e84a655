"""The audit: an outside judge scores the first and the returned answer; nothing it says goes back into the loop."""

from collections.abc import Callable

import pytest

from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs.lifecycle import cancel, continue_job
from redraft.operations.steps.sweeper import sweep
from tests.model_server import ModelServer
from tests.model_server.scripts import Rule, Script
from tests.operations.driving import Driver
from tests.operations.rubrics import down

AUDITED = {"evaluation": {"audit": "openai:outside"}, "evaluator_model": "openai:inside"}


def script(model_server: ModelServer, *, inside: list[object], outside: list[object]) -> None:
    model_server.play(
        Script(
            rules=(
                Rule(tuple(outside), role="evaluate", model="outside"),
                Rule(tuple(inside), role="evaluate"),
                Rule(("one", "two", "three"), role="generate"),
            )
        )
    )


def audits(driver: Driver, job_id: str) -> list[tuple[int, float | None]]:
    return [
        (iteration.number, each.score)
        for iteration in driver.iterations(job_id)
        for each in iteration.further_evaluations
        if each.role == "audit"
    ]


def by_answer(model_server: ModelServer, scores: dict[str, float]) -> None:
    """Two audited answers are asked about at once: the score depends on the answer, not on the order."""
    from tests.model_server.scripts import as_reply

    def respond(request: object) -> object:
        if getattr(request, "model", "") != "outside":
            return None
        prompt = str(getattr(request, "prompt", ""))
        return as_reply(next(score for answer, score in scores.items() if f"\n{answer}\n" in prompt))

    model_server.respond(respond)


@pytest.mark.parametrize(("after", "is_suspected"), [(0.5, True), (0.4, True), (0.7, False)])
def test_a_score_that_rises_only_inside_is_suspected(
    driver: Driver, model_server: ModelServer, *, after: float, is_suspected: bool
):
    script(model_server, inside=[0.4, 0.9], outside=[0.5])
    by_answer(model_server, {"one": 0.5, "two": after})
    job = driver.run_new(**AUDITED)

    assert (job.stop_reason, job.result and job.result["final_answer"]) == ("accepted", "two")
    assert audits(driver, job.id) == [(1, 0.5), (2, after)]
    assert [warning.code for warning in job.warnings] == ["overfit_suspected"] * is_suspected
    second = model_server.requests("generate")[1].prompt
    assert "outside" not in second
    assert len(model_server.requests("generate")) == 2


def test_one_answer_is_audited_once(driver: Driver, model_server: ModelServer):
    script(model_server, inside=[0.9], outside=[0.1])
    job = driver.run_new(**AUDITED)
    assert audits(driver, job.id) == [(1, 0.1)]
    assert (job.stop_reason, job.warnings) == ("accepted", [])


@pytest.mark.parametrize("status", [401, 503])
def test_an_audit_that_fails_takes_nothing_away(
    make_driver: Callable[..., Driver], model_server: ModelServer, status: int
):
    driver = make_driver(step_attempts_max=2)
    script(model_server, inside=[0.4, 0.9], outside=[down(status)])
    job = driver.run_new(**AUDITED)
    assert (job.status, job.stop_reason, job.error) == ("succeeded", "accepted", None)
    assert job.result is not None
    assert job.result["success"] is True
    assert [warning.code for warning in job.warnings] == ["audit_failed"]


def to_the_audit(driver: Driver, model_server: ModelServer) -> str:
    script(model_server, inside=[0.4, 0.9], outside=[0.5])
    job_id = driver.submit(**AUDITED)
    while driver.row(job_id).step != "audit":
        driver.step(job_id)
    assert driver.job(job_id).progress.step == "audit"
    return job_id


def test_a_deadline_that_passes_in_an_audit_leaves_the_loops_end(driver: Driver, model_server: ModelServer):
    job_id = to_the_audit(driver, model_server)
    driver.set_back(job_id, deadline_at=-60.0)
    sweep(driver.services)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason, job.error) == ("succeeded", "accepted", None)
    assert [warning.code for warning in job.warnings] == ["audit_failed"]


def test_a_person_may_cancel_an_audit(driver: Driver, model_server: ModelServer):
    job_id = to_the_audit(driver, model_server)
    cancel(driver.services, job_id)
    job = driver.job(job_id)
    assert (job.status, job.stop_reason) == ("canceled", "canceled")
    assert job.result is not None
    assert job.result["final_answer"] == "two"


def test_a_continuation_audits_only_what_is_new(driver: Driver, model_server: ModelServer):
    script(model_server, inside=[0.4, 0.5, 0.9], outside=[0.5])
    by_answer(model_server, {"one": 0.3, "two": 0.4, "three": 0.6})
    job = driver.run_new(iter_max=2, **AUDITED)
    assert audits(driver, job.id) == [(1, 0.3), (2, 0.4)]
    continue_job(driver.services, job.id, ContinueJob(iter_max=1))
    job = driver.run(job.id)
    assert job.stop_reason == "accepted"
    assert audits(driver, job.id) == [(1, 0.3), (2, 0.4), (3, 0.6)]
    assert len([r for r in model_server.requests("evaluate") if r.model == "outside"]) == 3


def test_an_audit_that_failed_is_made_up_for_by_a_continuation(driver: Driver, model_server: ModelServer):
    script(model_server, inside=[0.4, 0.5], outside=[down(401)])
    job = driver.run_new(iter_max=1, **AUDITED)
    assert [warning.code for warning in job.warnings] == ["audit_failed"]
    script(model_server, inside=[0.5], outside=[0.3])
    continue_job(driver.services, job.id, ContinueJob(iter_max=1))
    # The writer says the same once more
    assert driver.run(job.id).stop_reason == "unchanged"
    assert audits(driver, job.id) == [(1, None), (1, 0.3)]
