"""What a model says is stored on both databases, whatever one of them cannot hold."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import update

from redraft.operations.jobs import lifecycle
from redraft.operations.steps.sweeper import sweep
from redraft.operations.steps.unexpected_errors import StepCrashed, reschedule
from redraft.storage.engine.tables import jobs
from tests.model_server import ModelServer
from tests.operations.driving import Driver


@pytest.mark.both_databases
def test_what_postgresql_cannot_store_is_cleaned_out_of_a_models_answer(driver: Driver, model_server: ModelServer):
    verdict = {"score": 0.9, "meets_criteria": False, "reasoning": "r\x00s", "suggestions": []}
    model_server.script(generate=["a\x00b"], evaluate=[verdict])
    job = driver.run_new()
    (iteration,) = driver.iterations(job.id)
    assert iteration.answer == "ab"
    assert iteration.evaluation is not None
    assert iteration.evaluation.evaluation_reasoning == "rs"


@pytest.mark.both_databases
@pytest.mark.parametrize("fields", [{}, {"sources": [{"content": "A source."}]}, {"stream": True}])
def test_half_a_character_is_no_reason_to_ask_again(driver: Driver, model_server: ModelServer, fields: dict[str, Any]):
    model_server.script(generate=["Cut \ud83d off [1]."], evaluate=[0.9])
    job = driver.run_new(iter_max=1, **fields)
    (iteration,) = driver.iterations(job.id)
    assert (iteration.answer, len(model_server.requests("generate"))) == ("Cut \ufffd off [1].", 1)


@pytest.fixture
def unreadable(driver: Driver) -> Callable[[], str]:
    """A job that a version let pass which checked its texts before it cleaned them."""

    def submit() -> str:
        job_id = driver.submit()
        with driver.services.database.write() as connection:
            stored = {**driver.row(job_id).request, "instruct": ""}
            connection.execute(update(jobs).where(jobs.c.id == job_id).values(request=stored))
        return job_id

    return submit


def test_a_job_that_cannot_be_read_is_ended_with_the_others_when_its_time_is_over(
    driver: Driver, unreadable: Callable[[], str]
):
    late = [unreadable(), driver.submit(), unreadable()]
    for job_id in late:
        driver.set_back(job_id, deadline_at=-60.0)
    sweep(driver.services)
    assert [(driver.row(each).status, driver.row(each).stop_reason) for each in late] == [
        ("failed", "deadline_exceeded")
    ] * 3
    for job_id in late:
        driver.check_order(job_id)


def test_a_job_that_cannot_be_read_can_be_canceled_and_deleted(driver: Driver, unreadable: Callable[[], str]):
    job_id = unreadable()
    assert lifecycle.cancel(driver.services, job_id)[0].status == "canceled"
    lifecycle.delete(driver.services, job_id)


def test_a_step_of_a_job_that_cannot_be_read_ends_it_after_some_attempts(driver: Driver, unreadable: Callable[[], str]):
    job_id = unreadable()
    attempts = driver.services.settings.step_attempts_max
    for _ in range(attempts):
        with pytest.raises(StepCrashed) as crash:
            driver.step(job_id)
        reschedule(driver.services, crash.value, "No such text.")
        driver.set_back(job_id, available_at=-1.0)
    row = driver.row(job_id)
    assert (row.status, row.error and row.error["code"], row.error and row.error["attempts"]) == (
        "failed",
        "worker_lost",
        attempts,
    )


def test_one_job_that_cannot_be_ended_at_all_keeps_no_other_from_it(driver: Driver):
    stuck, late = driver.submit(), driver.submit()
    with driver.services.database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == stuck).values(kind="of another version"))
    for job_id in (stuck, late):
        driver.set_back(job_id, deadline_at=-60.0)
    sweep(driver.services)
    assert (driver.row(late).status, driver.row(stuck).status) == ("failed", "queued")
