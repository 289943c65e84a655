"""The comparison of runs: row by row, by criteria, by changes; and runs that cannot be compared."""

from playwright.sync_api import expect

from redraft.operations.bulk.run_resources import Run
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import rows, start, work_off
from tests.operations.driving import Driver
from tests.pages.conftest import Visitor
from tests.support.browsers import expect_text
from tests.support.html_pages import Reader, value_of


def test_two_runs_are_read_row_by_row(visitor: Visitor, driver: Driver, model_server: ModelServer):
    model_server.script(generate=["the old one", "the new one"], evaluate=[0.9, 0.2], case="r0")
    model_server.script(generate=["same " * 60] * 2, evaluate=[0.9, 0.9], case="r1")
    old, new = (work_off(driver, start(driver, rows(2, iter_max=1), name=name)) for name in ("old", "new"))
    page = visitor.go(f"/runs/compare?baseline={old.id}&run={new.id}")
    expect_text(page, "2 rows are too few to tell whether new is better or worse than old.")
    expect_text(page, "100.0 % → 50.0 %")
    lines = page.get_by_role("region", name="Rows side by side").locator("tr[data-row]")
    expect(lines).to_have_count(2)
    page.set_viewport_size({"width": 1024, "height": 900})
    expect(lines.last.locator("td").last).to_be_in_viewport(ratio=1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    opened = page.locator("#row-1")
    expect(opened.locator(".diff")).to_have_text("the old new one")
    page.keyboard.press("Enter")
    expect(opened).to_be_hidden()
    page.get_by_role("link", name="newly failing 1").click()
    expect(lines).to_have_count(1)
    expect(lines.first).to_contain_text("newly failing")
    page.get_by_text("Download").click()
    with page.expect_download() as caught:
        page.get_by_role("link", name="Markdown").click()
    assert caught.value.suggested_filename == "new comparison.md"
    page.goto(f"{visitor.base_url}/runs/compare/row?baseline={old.id}&run={new.id}&row=r0")
    expect(page.locator(".diff del, .diff ins")).to_have_text(["old ", "new "])
    page.get_by_role("link", name="The comparison").click()
    page.get_by_role("link", name="Swap").click()
    expect(lines.first).to_contain_text("newly passing")


def test_rows_are_compared_without_javascript(reader: Reader, driver: Driver, model_server: ModelServer):
    rubric = [{"id": "river", "text": "Names the river."}, {"id": "rude", "text": "Is rude.", "weight": -1}]
    fault = {"id": "rude", "evidence": "", "gap": ""}
    verdicts = [
        {"criteria": [{"id": "river", "evidence": "Elbe", "met": True, "gap": ""}, {**fault, "met": False}]},
        {"criteria": [{"id": "river", "evidence": "", "met": False, "gap": "No river."}, {**fault, "met": True}]},
    ]
    defaults = {"rubric": rubric, "iter_max": 1}
    model_server.script(generate=["one", "two", "three"], evaluate=[*verdicts, verdicts[0]], case="r0")
    ids = [
        work_off(driver, start(driver, rows(1), defaults=each, name=f"run {number}")).id
        for number, each in enumerate([defaults, defaults, {**defaults, "score_threshold": 0.95}])
    ]
    page = reader.go(f"/runs/compare?run={ids[2]}&run={ids[0]}&run={ids[1]}")
    assert page.path == f"/runs/compare?baseline={ids[0]}&run={ids[1]}&run={ids[2]}"
    assert page.texts("thead//th", page.region("Rows side by side")) == [
        "Question",
        "Baseline run 0",
        "Run 1 run 1",
        "Run 2 run 2",
        "Change of Run 1",
    ]
    assert page.texts("h1") == ["run 1, run 2 against run 0"]
    assert "The runs have different thresholds" in page.text
    settings = page.region("Settings of the runs")
    assert page.texts("thead//th", settings) == ["Setting", "Baseline", "Run 1", "Run 2"]
    assert "Threshold 0.8 0.8 0.95" in page.texts("tbody/tr", settings)
    page = reader.click("r0")
    assert page.texts("tbody/tr", page.region("Criteria")) == [
        "river Names the river. ✓ metElbe ✗ not metNo river. ✓ metElbe",
        "rude Is rude. ✓ absent ✗ present ✓ absent",
    ]
    page = reader.go(f"/runs/compare?baseline={ids[0]}&run={ids[1]}&change=newly_passing")
    assert "No row matches." in page.text
    page = reader.go(f"/runs/compare?baseline={ids[0]}&run={ids[1]}")
    chips = page.texts("ul[@aria-label='Filter by change']//a")
    assert chips == ["all 1", "changed 1", "worse 1", "better 0", "newly failing 1"]
    assert page.texts("a", page.region("Rows side by side"))[-1:] == ["r0"]
    assert "r0" in reader.click("worse 1").texts("a", reader.page.region("Rows side by side"))
    assert "No row matches." in reader.click("better 0").text
    assert reader.go(f"/runs/compare?baseline={ids[0]}&run={ids[1]}&change=nonsense").status == 422
    assert reader.go(f"/runs/compare?baseline={ids[0]}&run={ids[1]}&label=nonsense").status == 422


def test_what_cannot_be_compared_is_asked_for(reader: Reader, driver: Driver, mixed: Run):
    assert "Nothing to compare yet" in reader.go(f"/runs/compare?run={mixed.id}").text
    other = start(driver, rows(1), name="other")
    page = reader.go(f"/runs/compare?run={mixed.id}")
    assert value_of(page.field("New run")) == mixed.id
    assert "The run other is running." in reader.press("Compare", {"Baseline": other.id}).text
    reader.go(f"/runs/{other.id}")
    page = reader.click("Show the report so far")
    assert "This is the report of the items that have ended." in page.text
    assert "Nothing has ended yet: 1 running, 0 queued." in page.text
    assert "Choose two different runs" in reader.go(f"/runs/compare?run={mixed.id}&run={mixed.id}").text
    assert reader.go(f"/runs/compare?baseline={mixed.id}&run={mixed.id}").status == 422


def test_a_row_without_any_answer_opens_no_answers(reader: Reader, driver: Driver, mixed: Run):
    other = start(driver, rows(3, iter_max=2) + b"nonsense\n", max_in_flight=1)
    page = reader.go(f"/runs/compare?baseline={mixed.id}&run={other.id}")
    assert sorted(page.texts("tbody//th[@scope='row']//a")) == ["r0", "r1"]
