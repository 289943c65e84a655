"""Rows of the rubric are renewed in place; the browser keeps a draft until the job is sent."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, Route, expect

from redraft.operations.services import Services
from tests.pages.conftest import Visitor
from tests.pages.new.conftest import JOB, jobs
from tests.support.html_pages import Reader, Values, text_of, value_of
from tests.support.waiting import wait_until


def test_a_rubric_is_edited_in_rows_without_javascript(reader: Reader, services: Services, stored: Callable[..., str]):
    reader.go("/new")
    reader.press("Add a criterion", {"Instruction": "Describe Bern.", "#criterion_text_1": "Names the river."})
    check: Values = {"#criterion_kind_2": "max_words", "#criterion_value_2": "60", "#criterion_flags_2": "required"}
    page = reader.press("Move up: criterion 2", check)
    assert value_of(page.by_id("criterion_kind_1")) == "max_words"
    page = reader.press("Text")
    lines = "! max_words=60\nNames the river."
    assert value_of(page.by_id("rubric")) == lines
    page = reader.press("Rows", {"#rubric": f"{lines}\nmax_wrds=60"})
    assert "criterion 3, 'max_wrds=60': 'max_wrds=60' is no check; did you mean max_words=60?" in page.text
    page = reader.press("Rows", {"#rubric": lines})
    page = reader.press("Try")
    assert "No job has an answer yet" in page.described(page.by_id("try_job"))
    job_id = stored(instruct="Describe Bern.")
    page = reader.press("Try")
    assert "a model decides Names the river." in text_of(page.by_id("trial"))
    assert "met The answer has at most 60 words." in text_of(page.by_id("trial"))
    tried = reader.press("Evaluate by models")
    assert JOB.search(tried.path)
    assert jobs(services)[0].request["job_id"] == job_id


def test_rows_are_renewed_in_place(visitor: Visitor):
    page = visitor.go("/new")
    page.get_by_label("Instruction", exact=True).fill("Describe Bern.")
    page.locator("#criterion_text_1").fill("Names the river.")
    page.get_by_role("button", name="Add a criterion").click()
    expect(page.locator("#criterion_text_2")).to_be_focused()
    page.locator("#criterion_kind_2").select_option("max_words")
    expect(page.locator("#criterion_value_2")).to_have_accessible_description("A whole number")
    page.locator("#criterion_value_2").fill("60")
    page.get_by_role("button", name="Move up: criterion 2").click()
    expect(page.locator("#criterion_value_1")).to_have_value("60")
    expect(page.get_by_label("Instruction", exact=True)).to_have_value("Describe Bern.")
    expect(page.locator("#preview")).to_contain_text("Maximum calls")


def hold_parts(page: Page) -> list[Route]:
    """The first request that renews a part of the form waits until it is continued."""
    held: list[Route] = []

    def handle(route: Route) -> None:
        if held or "part" not in (route.request.post_data or ""):
            route.continue_()
        else:
            held.append(route)

    page.route("**/new", handle)
    return held


def test_what_is_typed_while_a_row_is_renewed_stays(visitor: Visitor):
    page = visitor.go("/new")
    held = hold_parts(page)
    page.locator("#criterion_kind_1").select_option("max_words")
    text = page.locator("#criterion_text_1")
    text.press_sequentially("Names")
    wait_until(lambda: page.evaluate("true") and held, what="the request")
    text.press_sequentially(" the")
    held[0].continue_()
    expect(page.locator("#criterion_value_1")).to_have_accessible_description("A whole number")
    expect(text).to_be_focused()
    page.keyboard.type(" river.")
    expect(text).to_have_value("Names the river.")


def test_a_draft_survives_a_reload_and_is_gone_when_the_job_is_sent(visitor: Visitor, services: Services):
    page = visitor.go("/new")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Instruction", exact=True).fill("Describe Bern.")
    page.locator("#criterion_text_1").fill("Names the river.")
    page.get_by_role("button", name="Add a criterion").click()
    page.locator("#criterion_text_2").fill("Names the lake.")
    page.wait_for_function("() => Object.values(localStorage).join().includes('lake')")
    held = hold_parts(page)
    page.reload()
    wait_until(lambda: page.evaluate("true") and held, what="the request")
    # Text that is typed before the draft is restored is newer than the draft
    page.get_by_label("Instruction", exact=True).fill("Describe Basel.")
    held[0].continue_()
    expect(page.get_by_text("Your draft of")).to_be_visible()
    expect(page.get_by_label("Instruction", exact=True)).to_have_value("Describe Basel.")
    expect(page.locator("#criterion_text_2")).to_have_value("Names the lake.")
    page.get_by_label("Instruction", exact=True).press("Control+Enter")
    page.wait_for_url(JOB)
    assert [each["text"] for each in jobs(services)[0].request["rubric"]] == ["Names the river.", "Names the lake."]
    page = visitor.go("/new")
    expect(page.get_by_label("Instruction", exact=True)).to_have_value("")
    assert page.evaluate("Object.keys(localStorage).length") == 0


def test_leaving_a_draft_asks(visitor: Visitor):
    page = visitor.go("/new")
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.get_by_label("Instruction", exact=True).press_sequentially("Why?")
    page.get_by_role("link", name="Overview").click()
    page.wait_for_url(re.compile("/$"))
    assert asked == ["beforeunload"]
