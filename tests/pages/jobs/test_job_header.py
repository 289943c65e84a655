"""The head of a job's pages: title, breadcrumbs, outcome; where the focus goes, and what is announced."""

import re
from collections.abc import Callable

import httpx2
import pytest
from playwright.sync_api import expect

from redraft.domain.jobs.states import StopReason
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.pages.conftest import Visitor
from tests.pages.jobs.test_job_progress import set_step
from tests.support.api_server import ApiServer
from tests.support.browsers import expect_notice
from tests.support.html_pages import Reader, text_of, value_of
from tests.support.rows.verdicts import add_judged, set_best

Stored = Callable[..., str]
Submit = Callable[..., str]


@pytest.fixture
def client(api: ApiServer) -> httpx2.Client:
    return api.client(headers={"Accept": "text/html"}, follow_redirects=False)


def test_each_page_of_a_job_has_a_title_of_its_own_with_name_and_state(
    reader: Reader, services: Services, model_server: ModelServer, stored: Stored, submit_job: Submit
):
    model_server.script(evaluate=[0.9, 0.2])
    accepted, missed, queued = (
        stored(instruct="Why?"),
        stored(instruct="How?", iter_max=1),
        submit_job(instruct="When?"),
    )
    call = queries.list_calls(services, accepted)[0]
    for path, page in (
        ("", "Answer"),
        ("/iterations", "Iterations"),
        ("/calls", "Trace"),
        (f"/calls/{call.id}", "Generate, iteration 1"),
        ("/events", "Events"),
        ("/request", "Request"),
        ("/delete", "Delete"),
    ):
        shown = reader.go(f"/jobs/{accepted}{path}")
        assert shown.texts("title")[0] == f"✓ Why? · {page} · Redraft"
        crumbs = text_of(shown.of_class("crumbs")[0])
        assert crumbs == f"Jobs / Why? / {'Trace / ' if call.id in path else ''}{page}"
        assert accepted not in crumbs
    assert reader.go(f"/jobs/{missed}").texts("title") == ["✗ How? · Answer · Redraft"]
    assert reader.go(f"/jobs/{queued}").texts("title") == ["◌ When? · Answer · Redraft"]
    set_step(services, queued, step="generate", iteration=0)
    assert reader.go(f"/jobs/{queued}").texts("title") == ["↻ When? · Answer · Redraft"]


def test_the_head_says_the_outcome_once(reader: Reader, model_server: ModelServer, stored: Stored):
    from api.pages.parts.job_words import STOPS

    model_server.script(evaluate=[0.9, 0.2])
    state = text_of(reader.go(f"/jobs/{stored()}").by_id("state"))
    assert state == "✓ accepted The answer reached the threshold."
    page = reader.go(f"/jobs/{stored(iter_max=1)}")
    state = text_of(page.by_id("state"))
    assert state == "≈ not accepted (best 0.20 of 0.80) The iteration limit is reached: this is the best answer."
    assert "0.20" not in text_of(page.of_class("facts")[0])
    [verdict] = page.of_class("attempts")
    assert text_of(verdict).startswith("Iteration 1: ✗ not passed · 0.20 ")
    for reason in set(STOPS) - {StopReason.ERROR}:
        assert not re.search(r"accepted|canceled|not evaluated|failed", STOPS[reason], re.IGNORECASE), reason


def test_the_form_to_continue_offers_the_models(
    reader: Reader, services: Services, model_server: ModelServer, stored: Stored
):
    model_server.script(evaluate=[0.2])
    job_id = stored(iter_max=1)
    page = reader.go(f"/jobs/{job_id}")
    assert page.one("datalist[@id='models']").findall("option")
    for label in ("Generator", "Evaluator"):
        assert page.field(label).get("list") == "models"
    written: dict[str, str | bool] = {"Generator": "openai:writer", "Generator 2": "openai:better", "Threshold": "7"}
    page = reader.press("Continue", written)
    assert [value_of(page.field(each)) for each in ("Generator", "Generator 2")] == ["openai:writer", "openai:better"]
    reader.press("Continue", {"Threshold": ""})
    assert queries.get_job(services, job_id).request["model"] == ["openai:writer", "openai:better"]


def test_after_a_post_the_address_names_the_successor(
    client: httpx2.Client, services: Services, model_server: ModelServer, stored: Stored, submit_job: Submit
):
    model_server.script(evaluate=[0.1, 0.2, 0.3])
    job_id = stored(iter_max=3)
    verdicts = [each.evaluation.id for each in queries.list_iterations(services, job_id) if each.evaluation]
    following = []
    for number in (3, 2, 1):
        data = {"evaluation_id": verdicts[number - 1], "iteration": str(number), "verdict": "agree"}
        following.append(client.post(f"/jobs/{job_id}/ratings", data=data).headers["location"].partition("#")[2])
    assert following == [verdicts[1], verdicts[0], verdicts[0]]
    location = client.post(f"/jobs/{job_id}/continue", data={"iter_max": "1"}).headers["location"]
    assert location == f"/jobs/{job_id}?notice=continued#state"
    assert client.post(f"/jobs/{job_id}/cancel").headers["location"] == f"/jobs/{job_id}?notice=canceled#state"


def test_the_focus_goes_to_the_failed_field_the_next_verdict_and_the_state(
    visitor: Visitor, services: Services, model_server: ModelServer, stored: Stored
):
    model_server.script(generate=["One.", "Two.", "Three."], evaluate=[0.1, 0.2, 0.3])
    job_id = stored(iter_max=3)
    verdicts = [each.evaluation.id for each in queries.list_iterations(services, job_id) if each.evaluation]
    page = visitor.go(f"/jobs/{job_id}/iterations")
    third = page.locator(f"#{verdicts[2]}")
    third.get_by_text("Rate this verdict").click()
    third.get_by_label("I agree").check()
    third.get_by_label("Your score").fill("much")
    third.get_by_role("button", name="Rate").click()
    expect(page.locator("#form-errors")).to_be_visible()
    expect(third.get_by_label("Your score")).to_be_focused()
    third.get_by_label("Your score").fill("")
    third.get_by_role("button", name="Rate").click()
    expect_notice(page, "rated")
    expect(page.locator(f"#{verdicts[1]}")).to_be_focused()
    page = visitor.go(f"/jobs/{job_id}")
    page.get_by_label("Threshold").fill("7")
    page.locator("#continue").get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Threshold")).to_be_focused()
    page.get_by_label("Threshold").fill("")
    page.locator("#continue").get_by_role("button", name="Continue").click()
    expect_notice(page, "continued")
    expect(page.locator("#state")).to_be_focused()
    page.get_by_role("button", name="Cancel").click()
    expect_notice(page, "canceled")
    expect(page.locator("#state")).to_be_focused()


def test_a_button_that_leaves_gives_the_focus_to_the_state(visitor: Visitor, services: Services, submit_job: Submit):
    job_id = submit_job()
    page = visitor.go(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel").focus()
    lifecycle.cancel(services, job_id)
    expect(page.locator("#state")).to_contain_text("canceled")
    expect(page.locator("#state")).to_be_focused()


def test_start_score_and_end_are_announced_once(visitor: Visitor, services: Services, submit_job: Submit):
    job_id = submit_job(instruct="Why?", iter_max=2)
    page = visitor.go(f"/jobs/{job_id}")
    page.evaluate(
        """() => { window.told = []; const announcer = document.getElementById("announcer");
        const seen = () => { if (announcer.textContent) told.push(announcer.textContent); };
        new MutationObserver(seen).observe(announcer, { childList: true }); }"""
    )

    def renew(title: str, words: str) -> None:
        page.locator("#live").dispatch_event("news")
        expect(page.locator("#announcer")).to_have_text(words)
        expect(page).to_have_title(f"{title} Why? · Answer · Redraft")

    set_step(services, job_id, step="generate", iteration=0)
    renew("↻", "running, iteration 1")
    set_step(services, job_id, step="evaluate", iteration=1)
    page.locator("#live").dispatch_event("news")
    expect(page.locator(".steps")).to_contain_text("1 evaluating")
    add_judged(services, job_id, passed=False, score=0.4)
    set_best(services, job_id, 1)
    renew("↻", "running, iteration 1, best score 0.90")
    lifecycle.cancel(services, job_id)
    renew("✗", "canceled, iteration 1, best score 0.90")
    assert page.evaluate("told") == [
        "running, iteration 1",
        "running, iteration 1, best score 0.90",
        "canceled, iteration 1, best score 0.90",
    ]


def test_the_score_curve_grows_and_the_reader_stays(visitor: Visitor, services: Services, submit_job: Submit):
    job_id = submit_job(iter_max=3)
    set_step(services, job_id, step="generate", iteration=1)
    page = visitor.go(f"/jobs/{job_id}/iterations")
    spots = page.locator("circle.spot")
    expect(spots).to_have_count(0)
    for number in (1, 2, 3):
        add_judged(services, job_id, number, passed=False, score=0.2 * number)
        page.locator("#live").dispatch_event("news")
        expect(spots).to_have_count(number)
        expect(page.locator(".curve.score")).to_have_count(number - 1)
    heights = spots.evaluate_all("found => found.map((each) => Number(each.getAttribute('cy')))")
    assert heights == sorted(heights, reverse=True)
