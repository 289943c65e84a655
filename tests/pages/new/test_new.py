"""The form of a new job: errors keep what was written; drafts by a model, clones, maximum calls, commands and keys."""

import re
from collections.abc import Callable
from typing import Any

import httpx2
from playwright.sync_api import Page, expect

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.pages.conftest import Visitor
from tests.pages.new.conftest import JOB, jobs
from tests.support.api_server import ApiServer
from tests.support.browsers import width_of
from tests.support.html_pages import Reader, Values, text_of, value_of

HOSTILE = "</textarea><script>alert(1)</script> <b hx-get=/x>\u202eoops\u202c 'q' \"d\""


def press(page: Page, name: str) -> None:
    page.locator("#job-form").get_by_role("button", name=name, exact=True).click()


def test_a_job_is_sent_by_keyboard_alone(visitor: Visitor, services: Services):
    page = visitor.go("/new")
    keyboard = page.keyboard
    keyboard.press("Tab")
    keyboard.press("Enter")  # Follow the link to the content
    keyboard.press("Tab")
    keyboard.type("Why is the sky blue?")
    for text in (None, "One sentence.", "Names scattering."):
        keyboard.press("Tab")
        keyboard.type(text or "")
    for _ in range(30):
        if page.evaluate("document.activeElement.value") == "send":
            break
        keyboard.press("Tab")
    keyboard.press("Enter")
    page.wait_for_url(JOB)
    [job] = jobs(services)
    expect(page).to_have_url(re.compile(job.id))
    fields = ("instruct", "resp_format", "eval_crit", "iter_max", "score_threshold", "sources")
    wanted: list[Any] = ["Why is the sky blue?", "One sentence.", "Names scattering.", 3, 0.8, []]
    assert [job.request[name] for name in fields] == wanted


def fill_in_wrongly(page: Page) -> None:
    page.get_by_label("Instruction", exact=True).fill(HOSTILE)
    page.get_by_label("Maximum iterations").fill("77")
    page.get_by_text("More options").click()
    page.locator("#metadata").fill("team")
    page.get_by_label("Show the answer while it is generated").uncheck()
    page.get_by_text("Sources: the documents").click()
    page.get_by_label("Title").fill("<i>Minutes</i>")


def assert_kept(page: Page) -> None:
    expect(page.get_by_label("Instruction", exact=True)).to_have_value(HOSTILE)
    expect(page.get_by_label("Maximum iterations")).to_have_value("77")
    expect(page.locator("#metadata")).to_have_value("team")
    expect(page.get_by_label("Title")).to_have_value("<i>Minutes</i>")
    expect(page.get_by_label("Show the answer while it is generated")).not_to_be_checked()


def test_what_is_wrong_is_told_at_its_field_and_nothing_is_lost(visitor: Visitor, services: Services):
    page = visitor.go("/new")
    fill_in_wrongly(page)
    press(page, "Send")
    summary = page.get_by_role("alert")
    expect(summary).to_be_focused()
    links = summary.get_by_role("link")
    expect(links).to_have_count(4)
    for number, goal in enumerate(("#eval_crit", "#iter_max", "#source_content_1", "#metadata")):
        expect(links.nth(number)).to_have_attribute("href", goal)
    field = page.get_by_label("Maximum iterations")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description("1 to 10 must be at most 10")
    summary.get_by_role("link", name="Maximum iterations").click()
    expect(field).to_be_focused()
    assert_kept(page)
    visitor.check_accessible()
    assert jobs(services) == []
    field.fill("2")
    page.get_by_label("Criteria").fill("True.")
    page.locator("#metadata").fill("team=docs")
    page.get_by_label("Content").fill("What was said.")
    press(page, "Send")
    page.wait_for_url(JOB)
    [job] = jobs(services)
    assert (job.metadata, job.request["stream"], job.request["iter_max"]) == ({"team": "docs"}, False, 2)
    assert (job.request["instruct"], job.request["sources"][0]["title"]) == (HOSTILE, "<i>Minutes</i>")


def test_a_rough_question_is_drafted_and_the_draft_can_be_edited(
    reader: Reader, services: Services, model_server: ModelServer
):
    reader.go("/new")
    asked: Values = {"Instruction": "capital of switzerland?", "Response format": "One word."}
    page = reader.press("Refine", {**asked, "Maximum iterations": "1"})
    assert "The person wants to know a capital." in page.texts("*[@role='status']")[0]
    assert value_of(page.field("Instruction")) == "Name the capital of Switzerland."
    assert value_of(page.field("Response format")) == "One word."
    assert value_of(page.field("Criteria")) == "Names the city and nothing else."
    assert value_of(page.by_id("criterion_text_1")) == "Names a city as the capital."
    assert (value_of(page.by_id("criterion_kind_2")), value_of(page.by_id("criterion_value_2"))) == ("max_words", "20")
    assert value_of(page.field("Maximum iterations")) == "1"
    model_server.script(draft=[Reply(status=401, raw={"error": {"message": "Incorrect API key provided"}})])
    page = reader.press("Refine")
    alert = text_of(page.one("*[@role='alert']"))
    assert "No draft was made." in alert
    assert "key" in alert
    drafted = "! #names-a-city Names a city as the capital.\n#is-short max_words=20 -- Has at most 20 words."
    page = reader.press("Text")
    assert value_of(page.field("#rubric")) == drafted
    assert JOB.search(reader.press("Send", {"#rubric": "! #city Names a city."}).path)
    assert [(each["id"], each["required"]) for each in jobs(services)[0].request["rubric"]] == [("city", True)]


def test_the_bound_and_the_commands_are_told_before_and_follow_what_is_written(visitor: Visitor, services: Services):
    page = visitor.go("/new")
    page.get_by_label("Instruction", exact=True).fill("Why?")
    page.get_by_label("Criteria").fill('It\'s "true".')
    preview = page.locator("#preview")
    expect(preview).to_contain_text("Maximum calls")
    expect(preview).to_contain_text("Each of 3 iterations: 1 generate, 1 evaluate, at most 1 repair of a reply")
    expect(preview.locator(".bounds dd").first).to_have_text("9")
    page.get_by_label("Maximum iterations").fill("1")
    expect(preview.locator(".bounds dd").first).to_have_text("3")
    page.get_by_label("Evaluator", exact=True).fill("openai:writer")
    expect(preview).to_contain_text("evaluates its own answers")
    preview.get_by_text("CLI", exact=True).click()
    expect(preview.locator("#text-cli")).to_contain_text("redraft ask")
    page.locator("#criterion_text_1").fill("nope=3")
    expect(preview).to_contain_text("Criterion 1, text: 'nope=3' is no check")
    page.locator("#criterion_text_1").fill("Names the river.")
    page.get_by_label("Evaluator", exact=True).fill("nonsense")
    expect(preview).to_contain_text("Evaluator: ")
    assert jobs(services) == []


def test_a_job_is_cloned_with_all_that_it_asked_for(reader: Reader, services: Services, stored: Callable[..., str]):
    fields: dict[str, Any] = {
        "instruct": HOSTILE,
        "model": ["openai:writer", "anthropic:<b>"],
        "sources": [{"content": "C", "chunk_id": "c1"}],
        "evaluation": {"samples": 2},
        "metadata": {"<i>": "x=y"},
    }
    job_id = stored(**fields)
    page = reader.go(f"/new?from={job_id}")
    assert value_of(page.field("Instruction")) == HOSTILE
    models = [value_of(each) for each in page.all("input[@name='model']")]
    assert models == ["openai:writer", "anthropic:<b>", ""]
    assert value_of(page.field("#samples")) == "2"
    assert page.of_class("bounds", page.by_id("preview"))
    assert JOB.search(reader.press("Send", {"Threshold": "0"}).path)
    new, old = jobs(services)
    assert old.id == job_id
    assert new.request == {**old.request, "score_threshold": 0}


def test_it_works_without_javascript(reader: Reader, services: Services):
    reader.go("/new")
    page = reader.press("Add another source", {"Instruction": "Why?", "Criteria": "True.", "Content": "One."})
    assert value_of(page.by_id("source_content_1")) == "One."
    page = reader.press("Check", {"#source_content_2": "Two."})
    assert page.texts("dd", page.of_class("bounds")[0])[0] == "9"
    assert page.by_id("snippet-curl") is not None
    assert reader.press("Send", {"Maximum iterations": "0"}).texts("*[@role='alert']")
    assert JOB.search(reader.press("Send", {"Maximum iterations": "1"}).path)
    assert [source["content"] for source in jobs(services)[0].request["sources"]] == ["One.", "Two."]


def test_it_fits_a_phone(visit: Callable[..., Visitor]):
    page = visit(viewport={"width": 390, "height": 800}).go("/new")
    page.get_by_label("Instruction", exact=True).fill("w" * 500)
    page.get_by_label("Criteria").fill("w" * 500)
    page.get_by_text("More options").click()
    page.get_by_text("Sources: the documents").click()
    page.get_by_label("Title").fill("T")
    page.get_by_role("button", name="Add another source").click()
    expect(page.get_by_label("Title")).to_have_count(2)
    with page.expect_navigation():
        press(page, "Check")
    expect(page.get_by_role("alert")).to_contain_text("Source 1, content")
    assert width_of(page) <= 390


def test_two_clicks_are_one_job_and_an_edited_form_is_another(api: ApiServer, services: Services):
    client = api.client(headers={"Accept": "text/html"})
    form = {"token": "t" * 20, "instruct": "Why?", "eval_crit": "True.", "do": "send"}
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    first, second = (client.post("/new", data=form, headers=headers) for _ in range(2))
    assert first.status_code == second.status_code == 303
    assert first.headers["location"] == second.headers["location"]
    assert client.post("/new", data={**form, "instruct": "How?"}).headers["location"] != first.headers["location"]
    assert client.post("/new", data={**form, "token": "u" * 20}).headers["location"] != first.headers["location"]
    assert {job.trace_id for job in jobs(services)} == {trace, None}
    assert len(jobs(services)) == 3


def test_an_empty_form_is_told_all_that_it_lacks_and_the_models_that_it_would_use(visitor: Visitor):
    page = visitor.go("/new")
    for label, model in (("Generator", "openai:writer"), ("Evaluator", "openai:judge")):
        expect(page.get_by_label(label, exact=True)).to_have_accessible_description(re.compile(f"Empty: {model}"))
    tops = page.locator('label[for="model"], label[for="evaluator_model"]').evaluate_all(
        "found => found.map(each => each.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1]
    press(page, "Send")
    expect(page.get_by_role("alert").get_by_role("link")).to_have_text(["Instruction", "Criteria"])


def test_commands_say_only_what_differs(api: ApiServer):
    more = '{"evaluation": {"samples": 2, "audit": null}, "grounding": null}'
    form = {"instruct": "Why?", "rubric": "max_words=60", "iter_max": "3", "more": more, "do": "check"}
    text = api.client(headers={"Accept": "text/html"}).post("/new", data=form).text
    commands = text.partition("The same request in other programs")[2]
    for odd in ("null", "None", "iter_max", "audit", "grounding", "requests"):
        assert odd not in commands
    assert "redraft.generate_answer(" in commands


def test_a_model_without_a_key_is_told(start_api: Callable[..., ApiServer]):
    api = start_api(openai_api_key=None, openai_base_url=None)
    client = api.client(headers={"Accept": "text/html"})
    text = client.get("/new").text
    assert "The default generator, openai:writer, cannot be called: Set OPENAI_API_KEY" in text
    assert "The default evaluator, openai:judge, cannot be called: Set OPENAI_API_KEY" in text
    answer = client.post("/new", data={"instruct": "Why?", "eval_crit": "True.", "do": "send"})
    assert answer.status_code == 422
    assert "needs a key: set OPENAI_API_KEY" in answer.text


def sign_in(api: ApiServer, services: Services, scopes: Any) -> tuple[httpx2.Client, str]:
    client = api.client(headers={"Accept": "text/html"})
    key = keys.create_key(services, "a key", scopes)[1]
    assert client.post("/sign-in", data={"key": key, "next": "/"}).status_code == 303
    return client, key


def test_a_key_that_reads_sends_nothing(start_api: Callable[..., ApiServer], services: Services):
    client, _ = sign_in(start_api(require_auth=True), services, [Scope.READ])
    page = client.get("/new")
    assert page.status_code == 200
    assert '<form method="post" action="/new"' not in page.text
    assert "Your key only reads" in page.text
    assert "--scope read --scope write" in page.text
    assert client.post("/new", data={"instruct": "Why?", "eval_crit": "True.", "do": "send"}).status_code == 403
    assert jobs(services) == []


def test_commands_name_the_key_and_never_hold_it(start_api: Callable[..., ApiServer], services: Services):
    client, key = sign_in(start_api(require_auth=True), services, [Scope.READ, Scope.WRITE])
    text = client.post("/new", data={"instruct": "Why?", "eval_crit": "True.", "do": "check"}).text
    assert "Authorization: Bearer $REDRAFT_API_KEY" in text
    assert key not in text


def test_when_and_for_which_share_an_answer_is_evaluated_comes_back(reader: Reader, services: Services):
    reader.go("/new")
    values: Values = {"Instruction": "Why?", "Criteria": "True.", "Maximum iterations": "1"}
    reader.press("Send", {**values, "#when": "after_answer", "#sample": "0.5"})
    [job] = jobs(services)
    assert (job.request["evaluation"]["when"], job.request["evaluation"]["sample"]) == ("after_answer", 0.5)
    page = reader.go(f"/new?from={job.id}")
    assert (value_of(page.field("#when")), value_of(page.field("#sample"))) == ("after_answer", "0.5")


def test_an_overlap_of_generation_and_evaluation_comes_back(reader: Reader, services: Services):
    reader.go("/new")
    reader.press("Send", {"Instruction": "Why?", "Criteria": "True.", "#when": "overlap"})
    [job] = jobs(services)
    assert job.request["evaluation"]["when"] == "overlap"
    assert value_of(reader.go(f"/new?from={job.id}").field("#when")) == "overlap"


def test_models_of_endpoints_are_offered(start_api: Callable[..., ApiServer], submit_job: Callable[..., str]):
    submit_job()
    free = {"format": "openai", "base_url": "http://127.0.0.1:1/v1"}
    locked = {**free, "api_key_env": "JUDGES_KEY"}
    priced = {**free, "prices": {"w": {"input": 1, "output": 2}}}
    reader = Reader.of(start_api(endpoints={"writers": priced, "others": free, "judges": locked}))
    for path in ("/new", "/jobs"):
        offered = {each.get("value") for each in reader.go(path).all("datalist[@id='models']/option")}
        assert {"writers:w", "others:"} <= offered, path
        assert not any((each or "").startswith("judges") for each in offered), path
