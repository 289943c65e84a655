"""The queue of verdicts to rate: the doubtful first, blind if wanted, and what the ratings tell."""

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from api.authentication import scope_of
from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.evaluation import rating_queue, ratings
from redraft.operations.services import Services
from redraft.storage.admin import tunings
from tests.model_server import ModelServer
from tests.operations.bulk.test_evaluator_tests import run_test
from tests.operations.driving import Driver
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.browsers import width_of
from tests.support.html_pages import Reader, text_of
from tests.support.rows.verdicts import add_evaluation, add_iteration, add_judged, criterion, set_best

HOSTILE = "<img src=x onerror=alert(1)> <b hx-get=/x>b</b>"
BROWSER = {"Accept": "text/html"}
Visit = Callable[..., Visitor]
Submit = Callable[..., str]


@pytest.fixture
def judged(services: Services, submit_job: Submit) -> dict[str, str]:
    """Evaluations by what is told of them, oldest first."""

    def add(task: str, **changes: object) -> str:
        return add_judged(services, submit_job(instruct=task), reasoning=f"So it is: {task}", **changes)

    found = {
        "far": add("far", score=0.2, passed=False),
        "near": add("near", score=0.79, passed=False),
        "clear": add("clear", score=1.0),
        "panel": add("panel", score=0.9, disagreement=0.4),
    }
    job_id = submit_job(instruct="audited")
    iteration_id = add_iteration(services, job_id)
    found["audited"] = add_evaluation(services, job_id, iteration_id, score=0.85, reasoning="Well done.")
    found["audit"] = add_evaluation(services, job_id, iteration_id, role="audit", score=0.5, passed=False)
    found["error"] = add("error", status="error", score=None, passed=False)
    return found


def order(services: Services, rater: str = "local") -> list[str]:
    return [line.evaluation_id for line in rating_queue.view_queue(services, rater).lines]


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_the_doubtful_come_first_and_what_is_rated_comes_no_more(services: Services, judged: dict[str, str]):
    wanted = [judged[name] for name in ("audited", "audit", "panel", "near", "clear", "far")]
    assert order(services) == wanted
    queue = rating_queue.view_queue(services, "local")
    assert queue.waiting == 6
    assert [line.why for line in queue.lines][2:4] == ["its evaluators are 0.40 apart", "0.01 below the threshold"]
    assert queue.item
    assert (queue.item.evaluation.id, queue.item.job.request["instruct"]) == (judged["audited"], "audited")
    from redraft.domain.evaluation.ratings import RateEvaluation

    ratings.rate(services, queue.item.job.id, 1, RateEvaluation(verdict="agree"), "local")
    assert order(services) == wanted[1:]
    assert order(services, "key_other") == wanted


def test_verdicts_are_rated_by_single_keys_without_loading_a_page(
    visitor: Visitor, services: Services, judged: dict[str, str]
):
    page = visitor.go("/ratings")
    task, lines, said = page.locator("#task"), page.locator("#queue + ol li"), page.locator(".banner.good")
    expect(task).to_have_text("audited")
    expect(page.get_by_role("heading", name="Is the evaluator right that the answer passes?")).to_be_visible()
    page.evaluate("window.isSame = true")
    page.get_by_text("Your score and reason").click()
    page.get_by_label("Your score").fill("0.3")
    page.get_by_role("button", name="I disagree: it does not pass").click()
    expect(said).to_contain_text("The verdict of the evaluator is passed with 0.85; you disagree and would give 0.30.")
    expect(lines).to_have_count(5)
    expect(task).to_be_focused()
    page.keyboard.press("u")
    expect(said).to_have_count(0)
    expect(task).to_be_focused()
    page.keyboard.press("1")
    expect(said).to_contain_text("you agree")
    expect(page.get_by_role("button", name="I agree: it does not pass")).to_be_visible()
    page.keyboard.press("s")
    expect(task).to_have_text("panel")
    expect(page.get_by_text("1 of 6 rated by you, 1 skipped.")).to_be_visible()
    page.keyboard.press("3")
    expect(task).to_have_text("near")
    expect(page.locator("#announcer")).to_have_text("Rated. Next: near")
    assert page.evaluate("window.isSame")


def test_the_queue_is_narrowed(reader: Reader, services: Services, submit_job: Submit, judged: dict[str, str]):
    labelled = submit_job(instruct="labelled", metadata={"team": "docs"})
    add_judged(services, labelled, score=1.0)
    set_best(services, labelled, 1)
    reader.go("/ratings")
    page = reader.press("Narrow", {"Label": "team=docs"})
    assert page.texts("ol//a") == ["labelled"]
    page = reader.press("I agree")
    assert "label=team%3Ddocs" in page.path
    assert "1 of 1 rated by you" in page.text
    reader.go("/ratings")
    page = reader.press("Narrow", {"Only where evaluators disagree": True})
    assert page.texts("ol//a") == ["audited", "audited", "panel"]
    assert "No evaluation to rate" in reader.press("Narrow", {"Run": "run_none"}).text


def test_the_buttons_stand_before_a_long_verdict(reader: Reader, judged: dict[str, str]):
    page = reader.go("/ratings")
    decision = text_of(page.of_class("decision")[0])
    assert decision.index("passed · 0.85") < decision.index("I agree: it passes") < decision.index("Well done.")


def test_blind_nothing_tells_what_the_evaluator_said(reader: Reader, services: Services, judged: dict[str, str]):
    reader.go("/ratings")
    page = reader.click("Rate blind")
    said = text_of(page.all("main//section[@class='card']")[0])
    for told in ("0.85", "passed ·", "Well done.", "threshold,", "scores differ"):
        assert told not in said, told
    assert judged["audited"] in page.source
    page = reader.press("It does not pass", {"Your score": "2"})
    assert "Nothing was changed." in text_of(page.one("*[@role='alert']"))
    assert "0.85" not in page.text
    page = reader.press("Rate", {"Your score": "two", "Reason": "x" * 10_001})
    assert page.texts("a", page.by_id("form-errors")) == ["Does the answer pass?", "Your score", "Reason"]
    assert "Choose whether the answer passes." in page.text
    page = reader.press("It does not pass", {"Your score": "0.4", "Reason": ""})
    assert page.path == f"/ratings?last={judged['audited']}&blind=1"
    assert "The verdict of the evaluator is passed with 0.85; you disagree" in page.texts("*[@role='status']")[0]
    [rating] = ratings.list_ratings(services, services_job(services, judged["audited"]))
    assert (rating.verdict, rating.score) == ("disagree", 0.4)


def services_job(services: Services, evaluation_id: str) -> str:
    item = rating_queue.view_queue(services, "other", chosen=evaluation_id).item
    assert item
    return item.job.id


def test_without_verdicts_the_page_says_how_they_come(reader: Reader, api: ApiServer):
    assert "No evaluation to rate" in reader.go("/ratings").text
    assert "No ratings yet" in reader.click("Agreement").text
    assert api.client(headers=BROWSER).get("/ratings?evaluation=eval_none").status_code == 404
    for data in ({"blind": "1"}, {"verdict": "agree"}, {"opinion": "passes", "evaluation_id": "eval_none"}):
        response = api.client(headers=BROWSER).post("/ratings", data=data)
        assert response.status_code in {404, 422}


def test_what_the_ratings_tell_is_a_small_table(visitor: Visitor, services: Services, judged: dict[str, str]):
    from redraft.domain.evaluation.ratings import RateEvaluation

    for name, verdict in [("far", "agree"), ("near", "disagree"), ("clear", "agree"), ("panel", "unsure")]:
        body = RateEvaluation(verdict=verdict, score=0.5)
        ratings.rate(services, services_job(services, judged[name]), 1, body, "me")
    page = visitor.go("/ratings/calibration")
    row = page.get_by_role("row").filter(has_text="openai:judge")
    expect(row).to_contain_text("67 %")
    expect(row).to_contain_text("3 +1 unsure")
    expect(row).to_contain_text("3 of 30 ratings: too few to suggest a threshold.")
    visitor.check_accessible()


def test_a_phone_shows_all_of_it(visit: Visit, judged: dict[str, str]):
    visitor = visit(viewport={"width": 390, "height": 800})
    for path in ("/ratings", "/ratings?blind=1", "/ratings/calibration"):
        assert width_of(visitor.go(path)) <= 390


def test_on_a_phone_the_buttons_are_in_view_while_a_long_answer_is_read(
    visit: Visit, model_server: ModelServer, stored: Callable[..., str]
):
    model_server.script(generate=["A line of a long answer.\n\n" * 60], evaluate=[0.5])
    stored(iter_max=1)
    visitor = visit(viewport={"width": 390, "height": 800})
    page = visitor.go("/ratings")
    buttons = page.locator(".verdicts button")
    expect(buttons).to_have_count(2)
    for number in range(2):
        expect(buttons.nth(number)).to_be_in_viewport(ratio=1)


def test_a_key_that_only_reads_may_look_and_not_rate(
    start_api: Callable[..., ApiServer], services: Services, judged: dict[str, str]
):
    client = start_api(require_auth=True).client(headers=BROWSER, follow_redirects=True)
    client.post("/sign-in", data={"key": keys.create_key(services, "reader", [Scope.READ])[1], "next": "/sign-in"})
    for path in ("/ratings", "/ratings?blind=1"):
        page = client.get(path).text
        assert "Your key allows reading only" in page
        assert '<form method="post" action="/ratings"' not in page
    assert client.post("/ratings", data={"verdict": "agree"}).status_code == 403


def test_probes_of_evaluators_are_shown_and_a_job_of_a_failed_evaluator_warns(
    visitor: Visitor, services: Services, submit_job: Submit, model_server: ModelServer
):
    job_id = submit_job()
    page = visitor.go("/ratings/tests")
    expect(page.get_by_text("redraft evaluators test MODEL")).to_be_visible()
    model_server.script(evaluate=[1.0])
    run_test(Driver(services), "openai:judge")
    page = visitor.go("/ratings/tests")
    expect(page.get_by_text("2 of 8 probes failed.")).to_be_visible()
    row = page.get_by_role("row", name="Confident nonsense")
    expect(row.get_by_role("cell")).to_have_text(["change", "2 of 2", "100 % 34 to 100", "+0.000", "✗ failed"])
    visitor.check_accessible()
    page = visitor.go(f"/jobs/{job_id}")
    expect(page.get_by_text("openai:judge failed probes of evaluators")).to_be_visible()
    page.get_by_role("link", name="Tests of evaluators").click()
    expect(page.get_by_role("heading", name="openai:judge")).to_be_visible()


def test_a_tuning_is_read_edited_adopted_and_reverted(reader: Reader, services: Services):
    assert "redraft evaluators tune MODEL" in reader.go("/ratings/tunings").text
    example = {"task": "Name a city.", "criteria": "", "answer": HOSTILE, "passes": False, "reason": "No city."}
    row = {"id": "tun_1", "evaluator_model": "openai:judge", "profile": "criteria", "examples": [example]}
    with services.database.write() as connection:
        tunings.add(connection, [row])
    page = reader.go("/ratings/tunings")
    assert "Draft: no job uses it." in page.text
    assert "Not validated." in page.text
    assert HOSTILE in page.text
    page = reader.press("Save as a new draft", {"Edit the examples": "[{}]"})
    assert "The examples are not valid: Field required." in page.text
    page = reader.press("Save as a new draft", {"Edit the examples": json.dumps([{**example, "answer": "Rome"}])})
    assert page.text.count("Draft: no job uses it.") == 2
    page = reader.press("Adopt")
    assert "Adopted: new jobs use it." in page.text
    assert "Reverted: new jobs do not use it." in reader.press("Revert").text


def test_only_an_admin_adopts():
    assert scope_of("POST", "/ratings/tunings/tun_1/adopt") == Scope.ADMIN
    assert scope_of("GET", "/ratings/tunings") == Scope.READ


def test_a_criterion_that_code_checks_is_not_offered_to_rate(reader: Reader, services: Services, submit_job: Submit):
    checked = {**criterion("short"), "kind": "check"}
    add_judged(services, submit_job(), criteria=[criterion("kind"), checked])
    page = reader.go("/ratings")
    assert page.texts("option", page.by_id("criterion")) == ["the whole verdict", "It is kind."]
