"""What a job's pages show while it goes on: its steps in a line, durations, and what a person said in between."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import expect
from sqlalchemy import update

from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.storage.engine.tables import jobs
from tests.model_server import ModelServer
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import HtmlPage, Reader, text_of
from tests.support.rows.verdicts import add_iteration, add_judged
from tests.support.shells import drain

Stored = Callable[..., str]
Submit = Callable[..., str]


def set_step(services: Services, job_id: str, **values: Any) -> None:
    now = datetime.now(UTC)
    with services.database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(status="running", started_at=now, **values))


def strip_of(page: HtmlPage) -> list[str]:
    [strip] = page.of_class("steps")
    return page.texts("li", strip)


def test_a_live_job_shows_its_past_current_and_coming_iterations(
    reader: Reader, services: Services, submit_job: Submit
):
    job_id = submit_job(iter_max=9)
    assert re.fullmatch(
        r"1 waiting for a worker, \d+ s\|2\|3\|4\|5 more", "|".join(strip_of(reader.go(f"/jobs/{job_id}")))
    )
    add_judged(services, job_id, passed=False, score=0.2)
    add_iteration(services, job_id, 2)
    set_step(services, job_id, step="evaluate", iteration=2)
    for path in ("", "/iterations"):
        steps = strip_of(reader.go(f"/jobs/{job_id}{path}"))
        assert re.fullmatch(r"1 ✗\s?not passed 0\.20\|2 evaluating, \d+ s\|3\|4\|5\|4 more", "|".join(steps)), steps
    page = reader.go(f"/jobs/{job_id}")
    [current] = page.all("li[@aria-current='step']")
    assert "data-elapsed" in page.one("time", current).attrib
    set_step(services, job_id, step="generate")
    assert "3 generating, " in strip_of(reader.go(f"/jobs/{job_id}"))[2]


def test_an_answer_to_evaluate_has_one_iteration(reader: Reader, api: ApiServer):
    given = {"instruct": "Why?", "answer": "So.", "eval_crit": "Says how.", "evaluator_model": "openai:judge"}
    job_id = api.client().post("/v1/evaluate-answer", json=given).json()["id"]
    [step] = strip_of(reader.go(f"/jobs/{job_id}"))
    assert step.startswith("1 waiting for a worker, ")


def test_the_durations_of_a_live_job_go_on(reader: Reader, services: Services, submit_job: Submit):
    job_id = submit_job()
    begun = datetime.now(UTC) - timedelta(minutes=3, seconds=5)
    set_step(services, job_id, created_at=begun)
    [duration] = [each for each in reader.go(f"/jobs/{job_id}/request").all("dd") if "so far" in text_of(each)]
    assert re.fullmatch(r"3 min \d+ s so far", text_of(duration))


def test_durations_go_on_and_the_text_of_an_earlier_iteration_leaves(
    visitor: Visitor, services: Services, submit_job: Submit
):
    job_id = submit_job(stream=True, iter_max=3)
    visitor.page.clock.install()
    page = visitor.go(f"/jobs/{job_id}")
    page.clock.fast_forward("05:00")
    expect(page.locator(".steps time[data-elapsed]")).to_have_text(re.compile(r"5 min \d+ s"))
    draft = page.locator("#draft")
    draft.evaluate("it => { it.textContent = 'The first.'; it.dataset.iteration = 1; it.hidden = false; }")
    page.locator("#live").dispatch_event("news")
    set_step(services, job_id, step="generate", iteration=0)
    page.locator("#live").dispatch_event("news")
    expect(page.locator(".steps")).to_contain_text("1 generating")
    expect(draft).to_be_visible()
    add_judged(services, job_id, passed=False, score=0.2)
    set_step(services, job_id, step="generate", iteration=1)
    page.locator("#live").dispatch_event("news")
    expect(page.locator(".steps")).to_contain_text("2 generating")
    expect(draft).to_be_hidden()


def test_an_ended_job_has_no_strip(reader: Reader, stored: Stored):
    page = reader.go(f"/jobs/{stored()}")
    assert page.of_class("steps") == []
    assert page.all("time[@data-elapsed]") == []


def test_a_continuation_divides_the_iterations_and_shows_the_guidance(
    reader: Reader, services: Services, model_server: ModelServer, stored: Stored
):
    model_server.script(generate=["One.", "Two."], evaluate=[0.3, 0.9])
    job_id = stored(iter_max=1, stream=True)
    lifecycle.continue_job(services, job_id, ContinueJob(guidance="Say <b>why</b>.", iter_max=1))
    page = reader.go(f"/jobs/{job_id}/iterations")
    assert "Say <b>why</b>." in text_of(page.of_class("continuation")[0])
    page = reader.go(f"/jobs/{job_id}")
    assert text_of(page.by_id("draft-title")) == "The answer of iteration 2 waiting for a worker"
    assert strip_of(page)[1].startswith("2 waiting for a worker")
    drain(services)
    page = reader.go(f"/jobs/{job_id}/iterations")
    parts = [each.get("id") or each.get("class", "") for each in page.all("section")]
    order = [each for each in parts if re.fullmatch(r"iteration-\d|continuation", each)]
    assert order == ["iteration-2", "continuation", "iteration-1"]
