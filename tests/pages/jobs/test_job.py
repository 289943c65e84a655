"""A job's pages: what they show of a job that has ended, and what can be done there."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pydantic import SecretStr

from redraft.domain.admin.scopes import Scope
from redraft.domain.jobs.job_errors import TITLES
from redraft.domain.jobs.states import StopReason
from redraft.operations.admin import keys
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from redraft.storage.jobs import calls
from tests.model_server import ModelServer, Reply
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.browsers import expect_copied, width_of
from tests.support.html_pages import Reader, text_of, value_of
from tests.support.receiver import SECRET
from tests.support.shells import drain

BROWSER = {"Accept": "text/html"}
TABS = ("", "/iterations", "/calls", "/events", "/request")
FIRST = "The sky is blue because of light."
SECOND = "The sky looks **blue** because light scatters."
Stored = Callable[..., str]
Visit = Callable[..., Visitor]


def verdict(score: float, reasoning: str, *suggestions: str) -> dict[str, Any]:
    return {
        "evaluation_reasoning": reasoning,
        "score": score,
        "meets_criteria": score >= 0.8,
        "improvement_suggestions": list(suggestions),
    }


@pytest.fixture
def twice(model_server: ModelServer, stored: Stored) -> str:
    """A job that was accepted at its second iteration."""
    model_server.script(
        generate=[FIRST, SECOND],
        evaluate=[verdict(0.4, "It does not say how.", "Name scattering."), verdict(0.9, "It says how.")],
    )
    return stored(metadata={"team": "physics"})


def tab(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Job").get_by_role("link", name=name).click()


def test_a_job_shows_its_answer_and_what_it_took(visitor: Visitor, twice: str):
    page = visitor.go(f"/jobs/{twice}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Why is the sky blue?")
    header = page.locator("header.job")
    for told in ("✓ accepted", "The answer reached the threshold", "threshold 0.80", "openai:writer", "openai:judge"):
        expect(header).to_contain_text(told, use_inner_text=True)
    expect(header).to_contain_text("team physics", use_inner_text=True)
    expect(page.locator(".answer strong")).to_have_text("blue")
    expect(page.locator(".attempts li").first).to_have_text("Iteration 1: ✗ not passed · 0.40 Name scattering.")
    page.get_by_role("link", name="raw").click()
    expect(page).to_have_url(re.compile(r"\?view=raw$"))
    expect(page.locator("#answer-text")).to_have_text(SECOND)
    expect(page.get_by_role("link", name="Clone and edit")).to_have_attribute("href", f"/new?from={twice}")
    expect(page.get_by_role("link", name="JSON")).to_have_attribute("href", f"/v1/jobs/{twice}")


def test_the_answer_is_copied(visit: Visit, twice: str):
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.go(f"/jobs/{twice}")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.locator("#announcer")).to_have_text("Copied")
    expect_copied(page, SECOND)


def test_a_structured_answer_is_shown_as_the_value_that_it_is(
    reader: Reader, model_server: ModelServer, stored: Stored
):
    model_server.script(generate=['{"city":"Bern"}'], evaluate=[0.9])
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    page = reader.go(f"/jobs/{stored(answer_schema=schema)}")
    assert "".join(page.by_id("answer-text").itertext()).strip() == '{\n  "city": "Bern"\n}'
    assert text_of(reader.click("raw").by_id("answer-text")) == '{"city":"Bern"}'


def test_citations_and_sources_lead_to_each_other(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(generate=["The Aare flows **through Bern**.[Source 1] It is long [Source 2]."], evaluate=[0.9])
    sources = [
        {"content": "The Aare flows through Bern.", "title": "Rivers"},
        {"content": "It is long, the Aare."},
        {"content": "Nobody cites this."},
    ]
    page = reader.go(f"/jobs/{stored(sources=sources)}")
    assert page.link("[Source 1]").get("href") == "#source-1"
    first = page.by_id("source-1")
    assert "Rivers" in text_of(first)
    assert "The Aare flows" in page.texts("blockquote", first)[0]
    assert page.link("place 1", first).get("href") == "#cite-1"
    assert text_of(page.by_id("cite-1")) == "[Source 1]"
    assert "not cited" in text_of(page.by_id("source-3"))
    assert text_of(reader.click("raw").by_id("cite-2")) == "[Source 2]"


def test_every_tab_has_its_own_address(visitor: Visitor, twice: str):
    page = visitor.go(f"/jobs/{twice}")
    for name, path in [("Iterations", "iterations"), ("Trace", "calls"), ("Events", "events"), ("Request", "request")]:
        tab(page, name)
        expect(page).to_have_url(f"{visitor.base_url}/jobs/{twice}/{path}")
    expect(page.locator("#request-json")).to_contain_text('"instruct": "Why is the sky blue?"')
    expect(page.locator("#snippet-1")).to_contain_text("curl http")
    tab(page, "Events")
    expect(page.get_by_role("row").filter(has_text="iteration.evaluated")).to_have_count(2)
    assert visitor.errors == []


def test_a_call_shows_what_was_sent_and_no_key(visitor: Visitor, twice: str):
    page = visitor.go(f"/jobs/{twice}/calls")
    page.locator(".tree .pick", has_text="generate").nth(1).click()
    page.get_by_role("link", name="Messages and JSON").click()
    page.get_by_text("The request and the response as JSON").click()
    expect(page.locator("#json-1")).to_contain_text('"model": "writer"')
    expect(page.locator("#json-2")).to_contain_text("light scatters.")
    for path in ("", "/calls", "/request", page.url.split(twice)[1]):
        visitor.go(f"/jobs/{twice}{path}")
        assert "sk-test" not in page.content()


def test_a_long_call_is_cut_and_whole_in_the_ledger(reader: Reader, stored: Stored, services: Services):
    job_id = stored(instruct="word " * 30_000)
    call = queries.list_calls(services, job_id)[0]
    page = reader.go(f"/jobs/{job_id}/calls/{call.id}")
    assert len("".join(page.by_id("json-1").itertext())) <= 20_000
    goal = page.link("Show all, as JSON").get("href")
    assert goal == f"/v1/jobs/{job_id}/calls/{call.id}?full=true"


def test_the_answer_is_downloaded_as_text(api: ApiServer, twice: str):
    client = api.client(headers=BROWSER)
    response = client.get(f"/jobs/{twice}/answer.txt")
    assert response.text == SECOND
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-disposition"].startswith('inline; filename="Why is the sky blue')
    saved = client.get(f"/jobs/{twice}/answer.txt?download=1").headers["content-disposition"]
    assert saved.startswith("attachment; ")
    assert client.get(f"/jobs/{twice}/iterations/1/answer.txt").text == FIRST
    assert client.get(f"/jobs/{twice}/iterations/7/answer.txt").status_code == 404


def test_what_failed_is_told_in_plain_words_with_what_to_do(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(generate=[Reply(status=401, raw={"error": {"message": "Incorrect API key"}})])
    page = reader.go(f"/jobs/{stored()}")
    told = page.texts("header[@class='job']//*[@class='banner bad']")[0]
    assert "The provider refused the key" in told
    assert "What to do: Set the key of that provider" in told
    assert "There is no answer" in page.text
    model_server.script(generate=[Reply(text="half", finish="length")])
    page = reader.go(f"/jobs/{stored(iter_max=1, sampling={'max_output_tokens': 50})}")
    assert "A continuation keeps the output limit of 50 tokens." in page.text
    assert [page.link(name).get("class") for name in ("Continue", "Clone and edit")] == ["button", "button primary"]


def test_what_cannot_be_continued_is_kept_in_the_form_with_the_reason(reader: Reader, twice: str):
    page = reader.go(f"/jobs/{twice}")
    assert page.link("Continue").get("href", "").endswith("#continue")
    written: dict[str, str | bool] = {
        "Your guidance": "Mention violet.\nAnd sunsets.",
        "Maximum further iterations": "eleven",
        "Threshold": "7",
        "Generator": "nobody:knows",
    }
    page = reader.press("Continue", written)
    assert "Nothing was changed." in text_of(page.one("*[@role='alert']"))
    assert value_of(page.field("Your guidance")) == "Mention violet.\nAnd sunsets."
    wrong = page.field("Maximum further iterations")
    assert wrong.get("aria-invalid") == "true"
    assert wrong.get("aria-describedby") == "iter_max-hint iter_max-error"
    assert text_of(page.by_id("iter_max-hint")) == "Empty: 3 more"
    assert text_of(page.by_id("iter_max-error")).endswith("must be a whole number")
    page = reader.press("Continue", {"Maximum further iterations": "1", "Threshold": "0.95"})
    assert "nobody" in text_of(page.by_id("model-error"))
    sampling: dict[str, str | bool] = {"Evaluator temperature": "3", "Evaluator reasoning effort": "high"}
    page = reader.press("Continue", {"Generator": "openai:writer, openai:other", **sampling})
    assert "2" in text_of(page.by_id("evaluator_temperature-error"))
    page = reader.press("Continue", {"Evaluator temperature": "0"})
    assert page.path.endswith(f"/jobs/{twice}?notice=continued")
    assert "queued" in page.texts("header[@class='job']")[0]


def test_all_errors_of_a_continuation_are_named_at_once_in_the_order_of_the_form(reader: Reader, twice: str):
    reader.go(f"/jobs/{twice}")
    wrong: dict[str, str | bool] = {
        "Evaluator top p": "9",
        "#evaluator_model": "nobody:judges",
        "#model": "nobody:knows",
        "Threshold": "7",
        "Maximum further iterations": "eleven",
    }
    page = reader.press("Continue", wrong)
    [banner] = page.all("*[@role='alert']")
    named = [text_of(each) for each in page.all("a", banner)]
    assert named == ["Maximum further iterations", "Threshold", "Generator", "Evaluator", "Evaluator top p"]
    for goal in page.all("a", banner):
        assert page.by_id(goal.get("href", "")[1:]).get("aria-invalid") == "true"


def test_a_job_is_canceled_and_then_deleted_after_a_question(reader: Reader, submit_job: Callable[..., str]):
    job_id = submit_job()
    page = reader.go(f"/jobs/{job_id}")
    assert "Delete" not in page.texts("a")
    page = reader.press("Cancel")
    assert "There is no answer." in page.texts("header[@class='job']")[0]
    reader.click("Delete")
    reader.click("Keep it")
    reader.click("Delete")
    assert reader.press("Delete permanently").path == "/jobs?notice=deleted"
    page = reader.go(f"/jobs/{job_id}")
    assert page.status == 404
    assert page.texts("h1") == ["Not found"]


def test_a_key_that_only_reads_is_shown_no_forms_and_may_send_none(
    start_api: Callable[..., ApiServer], services: Services, twice: str
):
    guarded = start_api(require_auth=True)
    client = guarded.client(headers=BROWSER, follow_redirects=True)
    client.post("/sign-in", data={"key": keys.create_key(services, "reader", [Scope.READ])[1], "next": "/sign-in"})
    for path in ("", "/iterations", "/calls", "/events", "/request"):
        text = client.get(f"/jobs/{twice}{path}").text
        assert "Why is the sky blue?" in text
        assert re.findall(r'<form method="post" action="([^"]*)"', text) == ["/sign-out", "/theme"]
    for path in ("cancel", "continue", "delete", "ratings"):
        assert client.post(f"/jobs/{twice}/{path}", data={"verdict": "agree"}).status_code == 403


def test_a_beginning_of_an_id_and_latest_lead_to_the_job(api: ApiServer, twice: str):
    client = api.client(headers=BROWSER)
    for short in ("latest", twice[:20], twice.removeprefix("job_")):
        response = client.get(f"/jobs/{short}/calls?a=1")
        assert (response.status_code, response.headers["location"]) == (307, f"/jobs/{twice}/calls?a=1")
    for unknown in ("job_" + "0" * 32, "job_0000", "..", "x"):
        response = client.get(f"/jobs/{unknown}/iterations")
        assert response.status_code == 404
        assert response.headers["content-type"].startswith("text/html")


def test_on_a_phone_nothing_is_wider_than_the_screen(visit: Visit, twice: str):
    visitor = visit(viewport={"width": 390, "height": 800})
    for path in ("", "/iterations", "/calls", "/events", "/request", "/delete"):
        page = visitor.go(f"/jobs/{twice}{path}")
        assert width_of(page) <= 390, path


def test_jobs_of_every_kind_are_shown(
    start_api: Callable[..., ApiServer], services: Services, model_server: ModelServer
):
    api = start_api(webhook_secret=SecretStr(SECRET))
    client = api.client(headers=BROWSER)
    model_server.script(evaluate=[0.5])
    hook = {"url": "https://hooks.example/jobs?token=t0p", "events": ["job.queued", "done"]}
    given = {"instruct": "Why?", "eval_crit": "Says it.", "answer": "So it is.", "webhook": hook}
    job_id = client.post("/v1/evaluate-answer", json=given).json()["id"]
    drain(services)
    again = client.post(f"/v1/jobs/{job_id}/rescore", json={"score_threshold": 0.4}).json()["id"]
    for state in ("queued", "✓</span> accepted"):
        for each in (job_id, again):
            for path in TABS:
                response = client.get(f"/jobs/{each}{path}")
                assert response.status_code == 200, (state, path)
                assert "Continue this job" not in response.text
        assert state in client.get(f"/jobs/{again}").text
        drain(services)
    events = client.get(f"/jobs/{job_id}/events").text
    assert events.count("Send again</button>") == 2
    delivery = re.findall(r'action="(/jobs/\w+/deliveries/\w+/redeliver)"', events)[0]
    sent = client.post(delivery, data={"a": "b"})
    successor = f"/jobs/{job_id}/events?notice=resent#deliveries-title"
    assert (sent.status_code, sent.headers["location"]) == (303, successor)
    assert client.post(f"/jobs/{job_id}/continue", data={"iter_max": "1"}).status_code == 409


def test_without_javascript_a_job_that_goes_on_is_fetched_anew(api: ApiServer, submit_job: Callable[..., str]):
    job_id, refresh = submit_job(), '<noscript><meta http-equiv="refresh"'
    client = api.client(headers=BROWSER)
    assert [refresh in client.get(f"/jobs/{job_id}{path}").text for path in TABS] == [True, False, True, True, True]


def test_a_speculative_call_without_an_iteration_is_listed(
    api: ApiServer, stored: Stored, model_server: ModelServer, services: Services
):
    model_server.script(generate=[FIRST, SECOND], evaluate=[verdict(0.9, "It says how.")])
    job_id = stored(evaluation={"when": "overlap"})
    with services.database.read() as connection:
        made = calls.of_job(connection, job_id)
    assert [row["iteration"] for row in made] == [1, 1, 2]
    client = api.client(headers=BROWSER)
    pages = {path: client.get(f"/jobs/{job_id}{path}") for path in TABS}
    assert {page.status_code for page in pages.values()} == {200}
    assert all(row["id"] in pages["/calls"].text for row in made)
    assert SECOND not in pages["/iterations"].text


def test_every_end_and_every_error_has_words():
    from api.pages.parts.job_words import REMEDIES, STOPS

    assert set(STOPS) == set(StopReason)
    assert set(REMEDIES) == set(TITLES)
