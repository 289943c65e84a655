"""Jobs through the client, at a real API with a worker."""

import asyncio

import pytest
from redraft_client import ApiError, AsyncRedraft, JobFailed, Redraft, WaitTimeout

from tests.journeys.desks import TASK
from tests.journeys.offices import Office
from tests.model_server.scripts import Reply


def test_an_answer_is_generated_evaluated_and_revised(redraft: Redraft, office: Office):
    office.model_server.script(generate=["Paris", "Paris, on the Seine"], evaluate=[0.4, 0.9])
    answer = redraft.generate_answer(**TASK)
    assert (answer.text, answer.success, answer.score) == ("Paris, on the Seine", True, 0.9)
    assert str(answer) == answer.text
    job = answer.job
    assert (job.stop_reason, job.is_accepted, job.usage.calls) == ("accepted", True, 4)
    assert [each.answer for each in redraft.jobs.iterations(job.id)] == ["Paris", "Paris, on the Seine"]
    events = list(redraft.jobs.events(job.id))
    assert (events[0].type, events[-1].type, events[-1].data.stop_reason) == ("job.queued", "done", "accepted")
    page = redraft.jobs.event_page(job.id, after=1)
    assert [each.seq for each in page.data] == [each.id for each in events[1:]]


def test_the_asynchronous_client_does_the_same(url: str, office: Office):
    office.model_server.script(generate=["Paris"], evaluate=[0.9])

    async def ask() -> tuple[str, list[str]]:
        async with AsyncRedraft(url) as redraft:
            answer = await redraft.generate_answer(**TASK)
            return answer.text, [each.type async for each in redraft.jobs.events(answer.job.id)]

    text, events = asyncio.run(ask())
    assert (text, events[-1]) == ("Paris", "done")


def test_an_answer_that_misses_the_threshold_is_returned_and_is_no_success(redraft: Redraft, office: Office):
    office.model_server.script(generate=["Lyon"], evaluate=[0.2])
    answer = redraft.generate_answer(**TASK, iter_max=1)
    assert (answer.text, answer.success, answer.job.is_accepted) == ("Lyon", False, False)


def test_an_answer_is_evaluated(redraft: Redraft, office: Office):
    office.model_server.script(evaluate=[0.7])
    verdict = redraft.evaluate_answer(**TASK, answer="Paris")
    assert (verdict.score, verdict.passed) == (0.7, False)


def test_a_job_is_listed_canceled_continued_and_deleted(redraft: Redraft, office: Office):
    office.model_server.script(generate=["one", "two"], evaluate=[0.1, 0.9])
    first = redraft.submit(**TASK, iter_max=1, metadata={"team": "docs"})
    ended = redraft.jobs.wait(first.id)
    assert (ended.has_ended, ended.is_accepted) == (True, False)
    assert [each.id for each in redraft.jobs.iterate(metadata={"team": "docs"})] == [first.id]
    assert redraft.jobs.list(metadata={"team": "other"}).data == []
    assert redraft.jobs.cancel(first.id).status == "succeeded"
    redraft.jobs.continue_(first.id, iter_max=1, guidance="Name the city.")
    assert redraft.jobs.wait(first.id).is_accepted
    assert redraft.jobs.get(first.id, include="iterations").iterations is not None
    redraft.jobs.delete(first.id)
    with pytest.raises(ApiError) as caught:
        redraft.jobs.get(first.id)
    assert (caught.value.status, caught.value.code) == (404, "not_found")


def test_a_job_without_an_answer_is_an_error_of_its_own(redraft: Redraft, office: Office):
    office.model_server.script(generate=[Reply(status=401, raw={"error": {"message": "no"}})])
    with pytest.raises(JobFailed, match="provider_auth") as caught:
        redraft.generate_answer(**TASK)
    assert (caught.value.job.status, caught.value.job.is_accepted) == ("failed", False)


def test_a_wait_ends_in_time_and_the_job_goes_on(redraft: Redraft, office: Office):
    office.model_server.script(generate=[Reply("Paris", is_held=True)])
    job = redraft.submit(**TASK)
    with pytest.raises(WaitTimeout, match=f"{job.id} has not ended within 0.2 s") as caught:
        redraft.jobs.wait(job.id, timeout_s=0.2)
    assert caught.value.last.id == job.id
    office.model_server.release()
    assert redraft.jobs.wait(job.id).has_ended


def test_a_wrong_request_names_the_field(redraft: Redraft):
    with pytest.raises(ApiError, match="/iter_max: must be at least 1") as caught:
        redraft.submit(**TASK, iter_max=0)
    assert [(each.pointer, each.code) for each in caught.value.errors] == [("/iter_max", "greater_than_equal")]
    assert f"(request {caught.value.request_id})" in str(caught.value)


def test_a_repeated_submission_is_the_same_job(redraft: Redraft):
    first = redraft.submit(**TASK, idempotency_key="my-request-1")
    assert redraft.submit(**TASK, idempotency_key="my-request-1").id == first.id
    other = redraft.submit(**TASK)
    assert other.id != first.id
    # A job that still runs would use up the replies of the next test
    assert all(redraft.jobs.wait(each.id).has_ended for each in (first, other))
