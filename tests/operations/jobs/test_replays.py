"""Replays of requests whose jobs an earlier release has stored."""

import hashlib

from pydantic_core import to_json

from redraft.domain.jobs.requests import GenerateAnswer, dump
from redraft.operations.jobs.submit import Idempotency, submit
from redraft.storage.engine.tables import jobs
from tests.operations.driving import LEAST, Driver


def test_a_replay_of_a_job_that_has_the_digest_of_all_fields_is_the_same_job(driver: Driver):
    request, key = GenerateAnswer.model_validate(LEAST), Idempotency("me", "key")
    first = submit(driver.services, request, key).job
    digests = [hashlib.sha256(to_json(each)).hexdigest() for each in (dump(request), LEAST)]
    assert first.request_hash == digests[1], "a new field with a default would change it"
    with driver.services.database.write() as connection:
        connection.execute(jobs.update().values(request_hash=digests[0]))
    assert submit(driver.services, request, key).is_replay
