"""The forms of a dataset and a run: they keep what was written, name all errors, and start one run."""

import re

import httpx2
from playwright.sync_api import Page, expect

from redraft.operations.bulk import runs
from redraft.operations.services import Services
from tests.operations.bulk.test_runs import dataset, rows
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.browsers import expect_notice, expect_text
from tests.support.html_pages import Reader, text_of, value_of


def start_confirmed(page: Page) -> None:
    """Start the run of the form, and confirm its cost."""
    page.get_by_role("button", name="Start …").click()
    expect(page.locator("#cost")).to_contain_text("Nothing is started yet.")
    page.get_by_role("button", name="Start", exact=True).click()


def test_a_default_that_is_given_twice_is_refused(reader: Reader, services: Services):
    reader.go(f"/runs/new?dataset={dataset(services, rows(2))}")
    more = '{"candidates": 2, "iter_max": 2, "rubric": [{"id": "a", "text": "True."}]}'
    page = reader.press("Start", {"#more": more, "#iter_max": "3", "#rubric": "Names the river."})
    assert page.status == 422
    assert "Given twice, here and in a field of their own: iter_max, rubric." in page.described(page.by_id("more"))


def test_all_errors_of_the_form_are_named_at_once_in_its_order(reader: Reader, services: Services):
    reader.go(f"/runs/new?dataset={dataset(services, rows(2))}")
    wrong = {"#more": "{", "#overrides": "[]", "#repeat": "0", "#iter_max": "99", "#max_cost_usd": "much"}
    page = reader.press("Start", wrong)
    assert page.status == 422
    [banner] = page.all("*[@role='alert']")
    named = [text_of(each) for each in page.all("a", banner)]
    assert named == ["Maximum iterations", "More defaults", "Overrides", "Repeat", "Budget in USD"]
    assert value_of(page.by_id("more")) == "{"


def test_a_run_is_started_in_a_form_that_keeps_what_was_written(visitor: Visitor, services: Services):
    dataset_id = dataset(services, rows(2))
    page = visitor.go(f"/runs/new?dataset={dataset_id}")
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Threshold").fill("0.7")
    page.get_by_role("button", name="Start …").click()
    expect(page.get_by_role("alert")).to_contain_text("No row can be used")
    criteria = page.get_by_label("Criteria")
    expect(criteria).to_be_focused()
    expect(criteria).to_have_accessible_description(re.compile("No row can be used"))
    expect(page.get_by_label("Threshold")).to_have_value("0.7")
    criteria.fill("True.")
    page.get_by_text("More defaults, and overrides").click()
    page.get_by_label("Overrides, as JSON").fill('{"metadata": {"team": "docs"}}')
    page.get_by_label("More defaults, as JSON").fill('{"candidates": 2')
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("not valid JSON")
    page.get_by_label("More defaults, as JSON").fill('{"candidates": 2}')
    start_confirmed(page)
    expect_notice(page, "run_started")
    run = runs.list_runs(services, cursor=None, limit=5)[0][0]
    assert (run.name, run.max_in_flight) == ("mine", 32)
    assert run.defaults == {"candidates": 2, "eval_crit": "True.", "iter_max": 3, "score_threshold": 0.7}
    assert run.overrides == {"metadata": {"team": "docs"}}
    page.get_by_role("link", name="Run again").click()
    start_confirmed(page)
    expect_notice(page, "run_started")
    found, _ = runs.list_runs(services, cursor=None, limit=5)
    assert found[0].name == "mine (2)"
    names = ("dataset_id", "defaults", "overrides", "repeat", "max_in_flight", "max_cost_usd")
    assert [getattr(found[0], name) for name in names] == [getattr(found[1], name) for name in names]


def test_a_form_that_is_sent_twice_starts_one_run(api: ApiServer, services: Services):
    client = api.client(headers={"Accept": "text/html"})

    def send(**form: str) -> httpx2.Response:
        [seen] = re.findall(r'name="seen" value="(\w+)"', client.post("/runs/new", data=form).text)
        assert client.post("/runs/new", data={**form, "seen": seen, "name": "other"}).status_code == 200
        return client.post("/runs/new", data={**form, "seen": seen})

    form = {"dataset_id": dataset(services, rows(1)), "eval_crit": "True.", "token": "t"}
    assert len({send(**form).headers["location"] for _ in range(2)}) == 1
    assert send(**form, iter_max="1").status_code == 303
    assert len(runs.list_runs(services, cursor=None, limit=5)[0]) == 2


def test_rows_become_a_dataset_and_then_a_run(visitor: Visitor):
    page = visitor.go("/datasets/new")
    page.get_by_label("Rows").fill("nonsense")
    page.get_by_label("Name", exact=True).fill("few.jsonl")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    expect(page.get_by_label("Name", exact=True)).to_have_value("few.jsonl")
    page.get_by_label("Rows").fill('{"Frage": "Why?", "colour": "red"}\n{"Frage": "How?"}\nnonsense')
    page.get_by_label("Columns with other names").fill("instruct=Frage")
    page.get_by_label("Format").select_option("jsonl")
    page.get_by_role("button", name="Add").click()
    expect_notice(page, "dataset_added")
    expect_text(page, "Unused columns: colour.")
    expect(page.get_by_role("region", name="Columns").get_by_role("row", name="instruct Frage")).to_have_count(1)
    page.get_by_role("link", name="bad 1").click()
    rows_shown = page.get_by_role("region", name="Rows").get_by_role("row")
    expect(rows_shown).to_have_count(2)
    expect(rows_shown.nth(1)).to_have_text(re.compile("^3"), use_inner_text=True)
    page.get_by_role("link", name="Start a run").click()
    expect(page.get_by_label("Dataset")).to_contain_text("few.jsonl (3 rows, 1 bad)")
    visitor.go("/datasets")
    page.get_by_role("link", name="few.jsonl").first.click()
    expect(page.get_by_role("heading", name="few.jsonl")).to_be_visible()


def test_rows_without_a_question_are_told_of_and_asked_for_at_their_field(visitor: Visitor, services: Services):
    page = visitor.go("/datasets/new")
    page.get_by_label("File", exact=True).set_input_files(
        {"name": "fragen.csv", "mimeType": "text/csv", "buffer": "id,Frage\n1,Warum?\n2,Wie groß?\n".encode()}
    )
    expect(page.get_by_label("Rows")).to_have_value("id,Frage\n1,Warum?\n2,Wie groß?\n")
    expect(page.get_by_label("Name", exact=True)).to_have_value("fragen.csv")
    page.get_by_role("button", name="Add").click()
    page.wait_for_url(re.compile(r"/datasets/ds_\w+$"))
    expect_text(page, "A row without it cannot be used")
    page.get_by_role("link", name="Start a run").click()
    page.get_by_label("Criteria").fill("True.")
    page.get_by_role("button", name="Start").click()
    instruct = page.get_by_label("Instruction")
    expect(instruct).to_have_accessible_description(re.compile("No row can be used: instruct"))
    expect(page.get_by_role("alert")).not_to_contain_text("More defaults")
    instruct.fill("Why?")
    start_confirmed(page)
    expect_notice(page, "run_started")
    assert runs.list_runs(services, cursor=None, limit=1)[0][0].defaults["instruct"] == "Why?"


def test_files_that_the_form_does_not_take_are_named(visitor: Visitor):
    page = visitor.go("/datasets/new")
    for buffer, why in ((b"\xff\xfe\x00", "is not text in UTF-8"), (b"=" * 3_000_000, "is too large for this form")):
        page.get_by_label("File", exact=True).set_input_files(
            {"name": "a.csv", "mimeType": "text/csv", "buffer": buffer}
        )
        expect(page.locator("#file-status")).to_contain_text(f"a.csv {why}: use redraft datasets import FILE")
        expect(page.get_by_label("Rows")).to_have_value("")
