"""A provider that repeats the key it was sent, in all it says: no row, no event and no page holds it."""

from collections.abc import Callable

import pytest
from pydantic import SecretStr

from redraft.operations.jobs.resources import Job
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver

KEY = "Own/Key+of:a=server0"


@pytest.fixture
def driver(make_driver: Callable[..., Driver]) -> Driver:
    return make_driver(openai_api_key=SecretStr(KEY), step_attempts_max=1)


def all_that_is_stored(driver: Driver, job: Job) -> str:
    return repr((driver.ledger(job.id), driver.row(job.id), driver.events(job.id), driver.iterations(job.id)))


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_an_error_that_repeats_the_key(driver: Driver, model_server: ModelServer, status: int):
    error = {"message": f"Incorrect API key provided: {KEY}.", "type": KEY, "param": {KEY: [KEY]}}
    echo = Reply(status=status, raw={"error": error}, headers={"x-request-id": f"for {KEY}"})
    model_server.script(generate=[echo])
    job = driver.run_new()
    assert job.status == "failed"
    assert "Incorrect API key provided: [secret]" in str(job.error)
    assert KEY not in all_that_is_stored(driver, job)


def test_a_page_of_a_proxy_that_repeats_the_key(driver: Driver, model_server: ModelServer):
    model_server.script(generate=[Reply(status=200, raw=f"<html><title>No {KEY}</title>{KEY}</html>")])
    job = driver.run_new()
    assert job.status == "failed"
    assert KEY not in all_that_is_stored(driver, job)


def test_a_reply_that_repeats_the_key(driver: Driver, model_server: ModelServer):
    model_server.script(
        generate=[Reply(text=f"You sent {KEY}; sk-your-own-key stays.", headers={"x-request-id": KEY})], evaluate=[0.9]
    )
    job = driver.run_new()
    assert job.result is not None
    assert job.result["final_answer"] == "You sent [secret]; sk-your-own-key stays."
    assert KEY not in all_that_is_stored(driver, job)
