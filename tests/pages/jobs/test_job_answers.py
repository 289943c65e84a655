"""Answers where people read them: rendered, with the evidence marked, sameness collapsed, blocks that can be copied."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import rows, start, work_off
from tests.operations.driving import Driver
from tests.operations.rubrics import by_model, criterion, found
from tests.pages.conftest import Visitor
from tests.support.browsers import expect_copied
from tests.support.html_pages import Reader, text_of

CODE = "```python\ndef f():\n    return 1\n```"
TABLE = "| city | people |\n|---|---|\n| Bern | 134794 |"
LONG = "\n\n".join([f"## Part {n} <b>\n\n" + "The river is wide. " * 30 for n in range(1, 5)] + [CODE, TABLE])
SAYS = "It **says** EVIDENCE-scatters here."
Stored = Callable[..., str]
Visit = Callable[..., Visitor]


@pytest.fixture
def long(model_server: ModelServer, stored: Stored) -> str:
    """A job of three iterations with long answers, of which the second one is the best."""
    verdicts = [found(scatters=False), found(scatters=True), found(scatters=False)]
    model_server.script(generate=[LONG, LONG + "\n\n" + SAYS, LONG + "\n\nLess."], evaluate=verdicts)
    more = [criterion("scatters"), criterion("vivid", kind="check", check={"kind": "max_words", "value": 1})]
    return stored(rubric=more, eval_crit=None, score_threshold=0.9, stop={"plateau_patience": 0})


def test_the_best_and_the_newest_iteration_are_open(visitor: Visitor, long: str):
    page = visitor.go(f"/jobs/{long}/iterations")
    assert page.locator("details.iteration").evaluate_all("all => all.map((each) => each.open)") == [True, True, False]
    expect(page.locator("details.iteration").nth(1)).to_contain_text("best")
    page.locator(".attempts").get_by_role("link", name="Iteration 1").click()
    expect(page.locator("#iteration-1 .answer")).to_be_visible()


def test_the_same_answer_whose_rating_is_wrong_is_open(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(generate=["One answer.", "One answer."], evaluate=[0.4])
    page = reader.go(f"/jobs/{stored(candidates=2, iter_max=1)}/iterations")
    [other] = [each for each in page.all("details") if text_of(each).startswith("Candidate 2, the same answer")]
    page = reader.press("Rate", {"I agree": True, "Your score": "most of it"}, inside=other)
    [other] = [each for each in page.all("details") if text_of(each).startswith("Candidate 2, the same answer")]
    assert "open" in other.attrib
    assert "Nothing was changed." in text_of(other)


def test_a_long_answer_has_an_outline(reader: Reader, long: str):
    page = reader.go(f"/jobs/{long}/iterations")
    newest = page.by_id("iteration-3")
    links = page.all("nav[@aria-label='Outline: Answer of iteration 3, candidate 1']//a", newest)
    assert [text_of(each) for each in links] == [f"Part {n} <b>" for n in range(1, 5)]
    for link in links:
        assert text_of(page.by_id((link.get("href") or "").removeprefix("#"))) == text_of(link)
    page = reader.go(f"/jobs/{long}")
    assert page.link("Part 4 <b>").get("href") == "#answer-part-4"


def test_code_and_tables_of_an_answer_are_copied(visit: Visit, long: str):
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    page = visitor.go(f"/jobs/{long}")
    for name, copied in (("Copy code", "def f():\n    return 1\n"), ("Copy table", "city\tpeople\nBern\t134794")):
        page.get_by_role("button", name=name).click()
        expect_copied(page, copied)
    expect(page.locator("#announcer")).to_have_text("Copied")
    page = visitor.go(f"/jobs/{long}/iterations")
    page.locator("#iteration-2").get_by_role("button", name="Copy", exact=True).click()
    expect_copied(page, f"{LONG}\n\n{SAYS}")


def test_without_javascript_no_button_copies(visit: Visit, long: str):
    page = visit(java_script_enabled=False).go(f"/jobs/{long}")
    expect(page.locator("button[data-copy]").first).to_be_hidden()


def test_what_changed_is_shown_in_the_rendered_text(reader: Reader, long: str):
    page = reader.go(f"/jobs/{long}/iterations")
    assert "What changed from 1 to 2" in page.text
    [diff] = page.of_class("diff")
    assert page.texts("ins", diff) == ["It", "says", "EVIDENCE-scatters here."]
    assert page.texts("summary", diff) == ["9 unchanged parts"]
    assert "No difference: the two answers are the same." in reader.go(f"/jobs/{long}/iterations?from=2&to=2").text


def test_the_same_answer_of_several_candidates_is_shown_once(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(generate=["One answer.", "One  answer.", "One answer."], evaluate=[0.4])
    page = reader.go(f"/jobs/{stored(candidates=3, iter_max=1)}/iterations")
    assert "3 candidates gave the same answer" in page.text
    assert len(page.of_class("answer", page.by_id("iteration-1"))) == 1
    others = [each for each in page.texts("summary") if "the same answer" in each]
    assert [each.partition(",")[0] for each in others] == ["Candidate 2", "Candidate 3"]
    assert "What changed" not in page.text


def test_candidates_are_compared_with_each_other(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(generate=["One answer.", "Two answers.", "One answer."], evaluate=[0.4])
    job_id = stored(candidates=3, iter_max=1)
    page = reader.go(f"/jobs/{job_id}/iterations")
    # The calls of candidates are concurrent, so any two of them can be the first and the third
    [(one, other)] = re.findall(r"Candidates (\d) and (\d) gave the same answer", page.text)
    [diff] = page.of_class("diff")
    assert {*page.texts("del", diff), *page.texts("ins", diff)} == {"One answer", "Two answers"}
    page = reader.press("Compare", {"From": f"1.{one}", "to": f"1.{other}"})
    assert f"Iteration 1: candidate {one} and candidate {other}" in page.text
    assert "No difference: the two answers are the same." in page.text


def test_members_that_agree_share_a_line(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.play(by_model(generate=["one"], a=[0.9], b=[0.85], c=[0.4]))
    panel = ["openai:a", "openai:b", "openai:c"]
    page = reader.go(f"/jobs/{stored(iter_max=1, evaluation={'panel': panel})}/iterations")
    members = [text_of(each) for each in page.all("*", page.of_class("members")[0]) if each.tag in {"summary", "li"}]
    assert "2 of 3 members agree: passed, 0.85 to 0.90" in members
    assert any(each.startswith("1 of 3 members: not passed openai:c: 0.40") for each in members)


def test_evidence_is_marked_in_ratings_unless_they_are_blind(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(generate=[SAYS], evaluate=[found(scatters=True)])
    stored(rubric=[criterion("scatters")], eval_crit=None)
    page = reader.go("/ratings")
    assert page.texts("mark") == ["EVIDENCE-scatters"]
    assert page.texts("strong", page.of_class("answer")[0]) == ["says"]
    assert reader.go("/ratings?blind=1").texts("mark") == []


def test_evidence_is_marked_in_the_row_of_a_comparison(visitor: Visitor, services: Services, model_server: ModelServer):
    model_server.script(generate=[SAYS, f"{SAYS}\n\n{LONG}"], evaluate=[found(scatters=True)], case="r0")
    driver = Driver(services)
    defaults = {"rubric": [criterion("scatters")], "iter_max": 1}
    old, new = (work_off(driver, start(driver, rows(1), defaults=defaults, name=name)) for name in ("old", "new"))
    page = visitor.go(f"/runs/compare?baseline={old.id}&run={new.id}")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    opened = page.locator("#row-1")
    expect(opened.locator("mark")).to_have_text(["EVIDENCE-scatters"] * 2)
    # The ids of two opened rows differ, and the outline leads to the headings of its row
    link = opened.get_by_role("link", name="Part 4")
    expect(link).to_have_attribute("href", re.compile("#row-1-"))
    link.click()
    expect(opened.locator(":target")).to_have_text("Part 4 <b>")
