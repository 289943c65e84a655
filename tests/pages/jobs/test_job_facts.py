"""What a job's pages say of its end: why, how long it took, what is still under way; and what it was asked later."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.storage.engine.tables import calls, events, jobs
from tests.model_server import ModelServer
from tests.operations.rubrics import criterion, found, words_at_most
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.rows.verdicts import add_evaluation, add_iteration, add_judged, set_best
from tests.support.shells import drain

Stored = Callable[..., str]
Submit = Callable[..., str]
OPEN_CALL: dict[str, Any] = {
    "id": new_id("call"),
    "step": "generate",
    "seq": 1,
    "iteration": 1,
    "candidate": 1,
    "type": "generate",
    "provider": "openai",
    "model": "openai:writer",
    "attempt": 1,
    "status": "started",
    "cached": False,
    "request": {},
    "lease_token": 1,
}


@pytest.fixture
def client(api: ApiServer) -> httpx2.Client:
    return api.client(headers={"Accept": "text/html"})


@pytest.mark.parametrize("number", ["0", "-1", "1000001", "9" * 20, "9" * 5000, "1e400", "nan"])
def test_no_number_is_too_large_to_be_refused(client: httpx2.Client, stored: Stored, number: str):
    job_id = stored()
    if len(number) < 100:
        assert client.get(f"/jobs/{job_id}/iterations/{number}/answer.txt").status_code in {404, 422}
    assert client.get(f"/jobs/{job_id}/iterations?from={number}&to={number}").status_code == 200
    assert client.get(f"/jobs/{job_id}/events?after={number}").status_code in {200, 422}
    rating = {"iteration": number, "verdict": "agree"}
    for path, more in [(f"/jobs/{job_id}/ratings", {}), ("/ratings", {"job_id": job_id, "evaluation_id": "eval_x"})]:
        assert client.post(path, data={**rating, **more}).status_code in {404, 422}, path
    response = client.post(f"/jobs/{job_id}/ratings", data={"iteration": "1", "verdict": "agree", "score": number})
    assert response.status_code == (303 if number == "0" else 422)
    for field in ("iter_max", "score_threshold"):
        if (field, number) != ("score_threshold", "0"):
            assert client.post(f"/jobs/{job_id}/continue", data={field: number}).status_code == 422, field


def test_an_answer_that_scored_well_and_lacks_what_is_required_is_told_so(
    client: httpx2.Client, model_server: ModelServer, stored: Stored
):
    model_server.script(evaluate=[found(long=True, blue=False)])
    rubric = [criterion("long", weight=9), criterion("blue", required=True)]
    text = client.get(f"/jobs/{stored(rubric=rubric, eval_crit=None, iter_max=1)}/calls").text
    assert "Iteration limit: the best answer reached the threshold; " in text
    assert "required and not met: TEXT-blue." in text
    model_server.script(generate=["It is 7 km long. It was built in 1990."], evaluate=[0.95])
    ungrounded = stored(sources=[{"content": "The Aare flows through Bern."}], iter_max=1)
    assert "reached the threshold; its sources do not support it." in client.get(f"/jobs/{ungrounded}").text
    stored(iter_max=1, score_threshold=1.0)
    assert client.get("/jobs").text.count("a requirement is not met") == 2


def test_a_job_did_not_take_the_time_in_which_nobody_asked_for_more(
    client: httpx2.Client, services: Services, model_server: ModelServer, stored: Stored
):
    model_server.script(evaluate=[0.4])
    job_id = stored(iter_max=1)
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    with services.database.write() as connection:
        connection.execute(jobs.update().values(created_at=an_hour_ago - timedelta(seconds=90)))
        connection.execute(events.update().values(at=an_hour_ago))
    lifecycle.continue_job(services, job_id, ContinueJob(iter_max=1, guidance="Name <violet>."))
    drain(services)
    text = client.get(f"/jobs/{job_id}").text
    assert re.search(r"<dt>Duration</dt><dd>1 min \d+ s <span[^>]*>without the pauses before continuations", text)
    for tab in ("request", "events"):
        assert "Name &lt;violet&gt;." in client.get(f"/jobs/{job_id}/{tab}").text, tab


def test_an_answer_of_a_canceled_job_waits_for_nothing(client: httpx2.Client, services: Services, submit_job: Submit):
    job_id = submit_job()
    add_iteration(services, job_id)
    lifecycle.cancel(services, job_id)
    text = client.get(f"/jobs/{job_id}").text
    assert "the job was canceled" in text
    assert not re.search("waits for its evaluation|not yet evaluated|best answer until then", text)


def test_a_page_of_a_canceled_job_waits_for_the_call_that_was_out(
    visitor: Visitor, services: Services, submit_job: Submit
):
    job_id = submit_job()
    with services.database.write() as connection:
        connection.execute(calls.insert().values(**OPEN_CALL, job_id=job_id))
    lifecycle.cancel(services, job_id)
    page = visitor.go(f"/jobs/{job_id}")
    told = page.get_by_text("A call was running when the job was canceled")
    expect(told).to_be_visible()
    with services.database.write() as connection:
        connection.execute(calls.update().values(status="ok", finished_at=datetime.now(UTC)))
        connection.execute(jobs.update().values(calls=1, input_tokens=12_345))
    expect(told).to_have_count(0)
    expect(page.locator("header.job")).to_contain_text("12,345")


def test_tokens_of_caches_and_reasoning_are_shown(client: httpx2.Client, services: Services, submit_job: Submit):
    job_id = submit_job()
    spent = {"input_tokens": 900, "cached_input_tokens": 700, "cache_write_tokens": 0, "output_tokens": 500}
    with services.database.write() as connection:
        connection.execute(calls.insert().values(**OPEN_CALL, job_id=job_id, **spent, reasoning_tokens=400))
        connection.execute(jobs.update().values(**spent, reasoning_tokens=400))
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/calls/{OPEN_CALL['id']}"):
        shown = re.sub(r"<[^>]+>", "", client.get(path).text)
        assert "900 in (700 cached, 0 cache writes), 500 out (400 reasoning)" in shown


def test_an_answer_is_shown_while_it_is_evaluated(client: httpx2.Client, services: Services, submit_job: Submit):
    job_id = submit_job()
    iteration_id = add_iteration(services, job_id)
    text = client.get(f"/jobs/{job_id}").text
    assert "The answer of iteration 1" in text
    assert "being evaluated" in text
    assert "<p>An answer.</p>" in text
    add_evaluation(services, job_id, iteration_id, score=0.3, passed=False)
    set_best(services, job_id, 1)
    text = client.get(f"/jobs/{job_id}").text
    assert "being evaluated" not in text
    assert "The best answer so far" in text


def test_a_request_is_told_in_words_and_sent_again_without_what_is_so_anyway(
    client: httpx2.Client, model_server: ModelServer, stored: Stored
):
    model_server.script(evaluate=[found(blue=True)])
    job_id = stored(
        rubric=[words_at_most(80), criterion("blue")], eval_crit=None, model=["openai:a", "openai:b"], stream=True
    )
    text = client.get(f"/jobs/{job_id}/request").text
    told = dict(re.findall(r"<dt>([^<]+)</dt><dd[^>]*>([^<]*)</dd>", re.split(r"<h3[^>]*>Settings</h3>", text)[1]))
    assert told["Generator"] == "openai:a → openai:b"
    assert told["Shown while it is generated"] == "yes"
    assert (told["Threshold"], told["Maximum iterations"]) == ("0.8", "3")
    assert "The answer has at most 80 words." in text
    curl = re.findall(r'id="snippet-1"[^>]*>(.*?)</pre>', text, re.DOTALL)[0]
    assert "TEXT-blue" in curl
    for idle in ("null", "weight", "required", "hidden", "anchors"):
        assert idle not in curl, idle


def test_events_name_the_candidate(client: httpx2.Client, model_server: ModelServer, stored: Stored):
    model_server.script(generate=["One answer.", "Two answers."], evaluate=[0.9])
    job_id = stored(candidates=2, iter_max=1)
    assert client.get(f"/jobs/{job_id}/events").text.count("candidate 2</span>") >= 2


def test_the_queue_says_how_many_wait_and_no_more(client: httpx2.Client, services: Services, submit_job: Submit):
    assert "rated by you." not in client.get("/ratings").text
    add_judged(services, submit_job())
    text = client.get("/ratings").text
    assert "0 of 1 rated by you." in text
    assert "Only the latest 300 evaluations are considered." in text
