"""Every other method of both clients, at a real API: its path, its fields and its model."""

import asyncio

import pytest
from redraft_client import AsyncRedraft, Redraft

from tests.journeys.desks import TASK
from tests.journeys.offices import Office

ROWS = [{**TASK, "custom_id": "a"}]


def test_estimates_drafts_and_catalogs(redraft: Redraft, office: Office):
    office.model_server.script(evaluate=[0.9])
    assert redraft.estimate(**TASK, iter_max=2).calls_max == 6
    assert redraft.refine_question(question="sky blue why?").instruct
    assert "criteria" in [each.name for each in redraft.profiles().data]
    assert redraft.models().data


def test_the_history_of_a_job(redraft: Redraft, office: Office):
    office.model_server.script(evaluate=[0.9])
    job = redraft.submit_evaluation(**TASK, answer="Paris")
    assert redraft.jobs.wait(job.id).kind == "evaluate_answer"
    job = redraft.generate_answer(**TASK, rubric=[{"id": "city", "text": "Names the city."}]).job
    assert [each.type for each in redraft.jobs.calls(job.id, full=True)] == ["generate", "evaluate"]
    assert [each.id for each in redraft.jobs.criteria(job.id).criteria] == ["city"]
    again = redraft.jobs.rescore(job.id, profile="quality")
    assert redraft.jobs.wait(again.id).kind == "rescore_answers"
    assert redraft.request("POST", f"/v1/jobs/{job.id}/cancel").startswith(b'{"id":"job_')
    assert redraft.request("DELETE", f"/v1/jobs/{again.id}") == b""


def test_all_jobs_are_iterated_page_by_page(redraft: Redraft):
    made = {redraft.submit(**TASK, metadata={"set": "pages"}).id for _ in range(3)}
    found = [each.id for each in redraft.jobs.iterate(limit=2, metadata={"set": "pages"})]
    assert (len(found), set(found)) == (3, made)
    assert all(redraft.jobs.wait(each).has_ended for each in made)


def test_the_asynchronous_client_has_the_same_calls(url: str, office: Office):
    office.model_server.script(evaluate=[0.9])

    async def walk() -> None:
        async with AsyncRedraft(url) as redraft:
            verdict = await redraft.evaluate_answer(**TASK, answer="Paris")
            assert verdict.passed
            job = await redraft.jobs.wait((await redraft.submit(**TASK, metadata={"set": "async"})).id)
            assert [each.id async for each in redraft.jobs.iterate(metadata={"set": "async"})] == [job.id]
            await redraft.ratings.rate(job.id, 1, verdict="agree")
            dataset = await redraft.datasets.upload(ROWS, name="async.jsonl")
            assert (await redraft.datasets.get(dataset.id)).rows == 1
            run = await redraft.runs.start(dataset_id=dataset.id)
            assert [each.type async for each in redraft.runs.events(run.id)][-1] == "done"
            assert (await redraft.runs.get(run.id)).has_ended
            assert (await redraft.runs.resume(run.id)).status == "succeeded"
            assert (await redraft.runs.report(run.id)).counts.total == 1
            await redraft.runs.delete(run.id)
            await redraft.datasets.delete(dataset.id)
            await redraft.jobs.delete(job.id)

    asyncio.run(walk())


def test_many_coroutines_share_one_client(url: str, office: Office):
    office.model_server.script(generate=["Paris"], evaluate=[0.9])

    async def ask_all() -> list[str]:
        async with AsyncRedraft(url) as redraft:
            answers = await asyncio.gather(*(redraft.generate_answer(**TASK) for _ in range(20)))
            return [each.text for each in answers]

    assert asyncio.run(ask_all()) == ["Paris"] * 20


@pytest.mark.parametrize("name", ["jobs", "datasets", "runs", "ratings"])
def test_both_clients_have_the_same_methods(name: str):
    def methods(client: object) -> set[str]:
        return {each for each in dir(getattr(client, name)) if not each.startswith("_")}

    with Redraft("http://x") as blocking:
        assert methods(blocking) == methods(AsyncRedraft("http://x")) != set()
