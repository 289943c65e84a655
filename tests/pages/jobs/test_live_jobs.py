"""A job's page while the job goes on: with a worker process, by mouse, by keyboard, word by word, and at the end."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, Route, expect

from redraft.operations.evaluation import ratings
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.services import Services
from redraft.queue import delta_channel
from tests.model_server import ModelServer, Reply
from tests.pages.conftest import Visitor
from tests.support.api_server import api_process
from tests.support.browsers import expect_notice
from tests.support.forks import Fork
from tests.support.processes import WorkerProcess
from tests.support.rows.verdicts import add_judged
from tests.support.valkey import ValkeyServer
from tests.support.waiting import patient, wait_until

ANSWERS = ["The sky is blue.", "The sky looks blue because light scatters.", "It scatters light, and violet is rare."]
WITHIN_MS = patient(10_000)
LIVE_PAGES = 50
# Beside it may stand the next answer, which is being evaluated.
JUDGED = ".card:not(.pending) .answer"
# Each state of the text that is being generated; a test that looks from outside may come too late for one
RECORD_DRAFTS = """
() => {
  window.drafts = [];
  new MutationObserver(() => {
    const draft = document.getElementById("draft");
    if (!draft?.textContent || draft.hidden) return;
    const { x, y } = draft.getBoundingClientRect();
    drafts.push({ text: draft.textContent, html: draft.innerHTML, place: [x, y] });
  }).observe(document.body, { subtree: true, childList: true });
}
"""


@pytest.fixture
def worker(services: Services, start_worker: Callable[..., WorkerProcess]) -> WorkerProcess:
    return start_worker(services).wait_ready()


def tell_loads(page: Page) -> list[str]:
    """The addresses that were loaded as whole pages from now on."""
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))
    return loads


def job_of(page: Page) -> str:
    page.wait_for_url("**/jobs/job_*")
    return re.findall(r"job_\w{32}", page.url)[0]


def watch_two_iterations(page: Page, model_server: ModelServer) -> None:
    """They arrive without a reload."""
    loads = tell_loads(page)
    attempts = page.locator(".attempts li")
    expect(attempts).to_have_count(1, timeout=WITHIN_MS)
    model_server.release()
    expect(attempts).to_have_count(2, timeout=WITHIN_MS)
    expect(page.locator("header.job")).to_contain_text("The iteration limit is reached", timeout=WITHIN_MS)
    expect(page.locator("#announcer")).to_have_text("not accepted, iteration 2, best score 0.60")
    expect(page).to_have_title(re.compile("^✗ .* · Answer · Redraft$"))
    assert loads == []


def watch_the_third(page: Page, model_server: ModelServer, services: Services, job_id: str) -> None:
    """It arrives without a reload, and was written by what the person said."""
    expect_notice(page, "continued")
    loads = tell_loads(page)
    model_server.release()
    expect(page.locator(".attempts li")).to_have_count(3, timeout=WITHIN_MS)
    expect(page.locator(JUDGED)).to_contain_text("violet is rare", timeout=WITHIN_MS)
    expect(page.locator("header.job")).to_contain_text("accepted")
    assert loads == []
    third = queries.list_iterations(services, job_id, 3)[0]
    assert "Say why not violet." in (third.feedback_given or "")
    # What has ended is followed no more
    expect(page.locator("[data-live]")).to_have_count(0)


def press_until(page: Page, name: str, *, key: str = "Tab") -> None:
    """Go on with the keyboard until what has the focus is called so."""
    for _ in range(200):
        page.keyboard.press(key)
        called = page.evaluate(
            """() => { const it = document.activeElement;
            const labels = [...(it.labels ?? [])].map((label) => label.textContent);
            return (labels.join(" ") || it.textContent).trim(); }"""
        )
        if re.match(name, called):
            return
    raise AssertionError(f"{name} cannot be reached with the keyboard")


def type_into(page: Page, name: str, text: str) -> None:
    press_until(page, name)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def press(page: Page, name: str, *, key: str = "Tab") -> None:
    press_until(page, name, key=key)
    page.keyboard.press("Enter")


@pytest.mark.usefixtures("worker")
def test_from_a_question_to_a_third_iteration_with_the_keyboard_alone(
    visitor: Visitor, services: Services, model_server: ModelServer
):
    model_server.script(generate=[ANSWERS[0], Reply(text=ANSWERS[1], is_held=True)], evaluate=[0.4, 0.6])
    page = visitor.go("/new")
    type_into(page, "Instruction", "Why is the sky blue?")
    type_into(page, "Criteria", "Says how.")
    type_into(page, "Maximum iterations", "2")
    press(page, "Send")
    job_id = job_of(page)
    watch_two_iterations(page, model_server)
    model_server.script(generate=[Reply(text=ANSWERS[2], is_held=True)], evaluate=[0.9])
    press(page, "Iterations")
    page.wait_for_url("**/iterations")
    type_into(page, "From", "1")
    press(page, "Compare")
    page.wait_for_url("**/iterations?from=1&to=2*")
    press(page, "Rate this verdict")
    press_until(page, "I agree")
    page.keyboard.press("ArrowDown")
    press(page, "Rate$")
    expect_notice(page, "rated")
    press(page, "Continue", key="Shift+Tab")
    page.wait_for_url("**#continue")
    type_into(page, "Your guidance", "Say why not violet.")
    type_into(page, "Maximum further iterations", "1")
    page.keyboard.press("Enter")
    watch_the_third(page, model_server, services, job_id)
    assert [rating.verdict for rating in ratings.list_ratings(services, job_id)] == ["disagree"]


def test_the_answer_appears_word_by_word(
    visitor: Visitor,
    services: Services,
    model_server: ModelServer,
    submit_job: Callable[..., str],
    valkey: ValkeyServer,
    start_worker: Callable[..., WorkerProcess],
):
    hostile = "\u202e[x](javascript:alert(1))"
    words = ["# The <b>sky</b>\n\n- **blue** ", hostile, *(f" word{number}" for number in range(40)), " end"]
    model_server.script(
        generate=[Reply(pieces=words, pause_s=0.05), "The second one."],
        evaluate=[Reply(score=0.3, is_held=True), 0.9],
    )
    job_id = submit_job(stream=True)
    page = visitor.go(f"/jobs/{job_id}")
    wait_until(lambda: valkey.listeners(delta_channel(job_id)), what="the page's ear")
    page.evaluate(RECORD_DRAFTS)
    start_worker(services)
    page.wait_for_function("() => drafts.some(({ text }) => text.includes('word5 '))", timeout=WITHIN_MS)
    # What is being generated stays while the page renews itself beside it
    page.locator("#live").dispatch_event("news")
    pending = page.locator(".pending .foreign .answer")
    expect(pending).to_contain_text("word39 end", timeout=WITHIN_MS)
    stays = pending.bounding_box()
    drafts = page.evaluate("drafts")
    begun = [each for each in drafts if "word5 " in each["text"]]
    assert begun == drafts[-len(begun) :]
    assert "word39" not in begun[0]["text"]
    # It is rendered, and harmless, as it will be when it is stored
    assert ">The &lt;b&gt;sky&lt;/b&gt;</h4>" in begun[0]["html"]
    assert "<strong>blue</strong>" in begun[0]["html"]
    assert not [each for each in drafts if "<a " in each["html"] or "\u202e" in each["html"]]
    assert stays is not None
    assert [stays["x"], stays["y"]] == pytest.approx(begun[0]["place"], abs=2)
    model_server.release()
    expect(page.locator(JUDGED)).to_contain_text("The second one.", timeout=WITHIN_MS)
    expect(page.locator("#draft")).to_have_count(0)


def test_what_a_person_has_opened_and_written_stays_when_news_come(
    visitor: Visitor, services: Services, submit_job: Callable[..., str]
):
    job_id = submit_job()
    add_judged(services, job_id, passed=False, score=0.3)
    page = visitor.go(f"/jobs/{job_id}/iterations")
    first = page.locator("#iteration-1")
    first.get_by_text("Rate this verdict").click()
    first.get_by_label("I agree").check()
    first.get_by_label("Reason").fill("So it is")
    lifecycle.cancel(services, job_id)
    expect(page.locator("header.job")).to_contain_text("canceled", timeout=WITHIN_MS)
    expect(first.locator("details.rate")).to_have_attribute("open", "")
    expect(first.get_by_label("Reason")).to_have_value("So it is")
    expect(first.get_by_label("Reason")).to_be_focused()
    expect(first.get_by_label("I agree")).to_be_checked()


def test_a_page_outlives_an_answer_that_cannot_be_had_now(
    visitor: Visitor, services: Services, submit_job: Callable[..., str]
):
    job_id = submit_job()
    page = visitor.go(f"/jobs/{job_id}")
    asked: list[Route] = []

    def answer(route: Route) -> None:
        """Refuse the first request, hold the second one, and let the others through."""
        asked.append(route)
        if len(asked) == 1:
            route.fulfill(status=503, body="<section id=live>Away</section>")
        elif len(asked) > 2:
            route.continue_()

    page.route(f"**/jobs/{job_id}", answer)
    lifecycle.cancel(services, job_id)
    # The script of the page runs while the test waits for it
    wait_until(lambda: page.evaluate("true") and len(asked) > 1, what="the second request")
    expect(page.locator("header.job")).to_contain_text("queued")
    asked[1].abort()
    expect(page.locator("header.job")).to_contain_text("canceled", timeout=WITHIN_MS)


@pytest.fixture
def server(services: Services, tmp_path: Path) -> Iterator[tuple[Fork, str]]:
    with api_process(services.settings, tmp_path / "api.log") as started:
        yield started


def test_a_lost_connection_is_shown_until_the_server_answers_again(visitor: Visitor):
    visitor.page.clock.install()
    page = visitor.go("/jobs")
    lost = page.locator("#connection")
    expect(lost).to_be_hidden()
    # A frozen server answers nothing
    page.route("**/livez", lambda route: None)
    page.clock.run_for(10_000)
    expect(lost).to_contain_text(re.compile(r"The server does not answer. This page is as of \d.*, trying again."))
    expect(page.locator("#announcer")).to_contain_text("The server does not answer.")
    page.unroute("**/livez")
    expect(lost).to_be_hidden()
    expect(page.locator("#announcer")).to_have_text("The server answers again.")


def test_fifty_live_pages_do_not_hold_up_the_end_of_the_server(
    server: tuple[Fork, str], submit_job: Callable[..., str]
):
    process, url = server
    job_id = submit_job()
    with (
        httpx2.Client(base_url=url, timeout=patient(20), limits=httpx2.Limits(max_connections=80)) as client,
        ExitStack() as stack,
    ):
        page = client.get(f"/jobs/{job_id}", headers={"Accept": "text/html"}).text
        path = re.findall(r'data-live="([^"]+)"', page)[0]
        assert path == f"/v1/jobs/{job_id}/events?after=1"
        streams: list[Any] = []
        for number in range(LIVE_PAGES):
            source = client.stream("GET", "/news" if number % 2 else path, headers={"Accept": "text/event-stream"})
            response = stack.enter_context(source)
            streams.append(response.iter_lines())
            assert next(streams[-1]).startswith((":", "retry"))
        stopped_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=patient(30))
        assert time.monotonic() - stopped_at < patient(5)
