"""Iterations on a job's page: scores, verdicts, criteria, what changed, and people's word on each verdict."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from api.pages.parts.answer_diffs import readable
from redraft.domain.text.diffs import DiffPart
from redraft.operations.evaluation import ratings
from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.rubrics import criterion, found, words_at_most
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.browsers import expect_notice
from tests.support.html_pages import Reader, text_of, value_of

BROWSER = {"Accept": "text/html"}
RUBRIC = [words_at_most(8), criterion("scatters", required=True), criterion("vivid", kind="scale")]
ANSWERS = [
    "The sky is blue.",
    "The sky looks blue because light scatters.",
    "The sky is, as one knows, and as one sees, blue.",
]
Stored = Callable[..., str]
Visit = Callable[..., Visitor]


@pytest.fixture
def thrice(model_server: ModelServer, stored: Stored) -> str:
    """A job of three iterations by a rubric, none accepted; the third lost what the second had."""
    model_server.script(
        generate=ANSWERS,
        evaluate=[found(scatters=False, vivid=2), found(scatters=True, vivid=3), found(scatters=False, vivid=1)],
    )
    return stored(rubric=RUBRIC, eval_crit=None, score_threshold=0.95, stop={"plateau_patience": 0})


def test_iterations_are_shown_with_scores_verdicts_and_criteria(visitor: Visitor, thrice: str):
    page = visitor.go(f"/jobs/{thrice}/iterations")
    curve = page.get_by_role("img", name="Score by iteration")
    expect(curve.locator("desc")).to_contain_text("Threshold 0.95; iteration 1: ")
    expect(curve.locator("circle")).to_have_count(3)
    expect(curve.locator("line.threshold")).to_have_count(1)
    expect(curve.locator("line.crit2")).to_have_count(2)
    expect(curve.locator("line.crit2").first).to_be_hidden()
    page.get_by_role("radio", name="TEXT-scatters").first.check()
    expect(curve.locator("line.crit2").first).to_be_visible()
    expect(curve.locator("line.crit1").first).to_be_hidden()
    verdicts = page.locator(".attempts li")
    expect(verdicts).to_have_text([re.compile(f"^Iteration {number}:") for number in (1, 2, 3)], use_inner_text=True)
    expect(verdicts.first).to_contain_text("GAP-scatters")
    row = page.get_by_role("region", name="Criterion by iteration").get_by_role("row").filter(has_text="TEXT-scatters")
    said = ["✗ not met", "✓ met", "↓ lost again"]
    expect(row.locator("td:nth-of-type(n+2)")).to_have_text(said, use_inner_text=True)
    third = page.locator("#iteration-3")
    third.get_by_text("The feedback that the generator got for this answer").click()
    expect(third.locator("details[open] pre").last).to_contain_text("TEXT-vivid")
    expect(third.get_by_role("row").filter(has_text="TEXT-scatters")).to_contain_text("EVIDENCE-scatters")
    expect(page.locator(".iteration", has=page.locator("#iteration-2"))).to_contain_text("best")
    expect(row.locator("xpath=following-sibling::tr[1]")).to_contain_text("level 2 of 5")
    expect(page.get_by_text("divided by the sum of the positive weights")).to_be_visible()
    # What stands beside each criterion is not said again
    expect(third.get_by_text("Reasoning")).to_have_count(0)
    expect(third.get_by_text("Suggestions")).to_have_count(0)
    expect(third.get_by_role("cell", name="GAP-scatters")).to_have_count(1)


def test_the_evidence_of_the_evaluator_is_marked_in_the_answer(
    reader: Reader, model_server: ModelServer, stored: Stored
):
    model_server.script(generate=["It **says** EVIDENCE-scatters here."], evaluate=[found(scatters=True)])
    page = reader.go(f"/jobs/{stored(rubric=[criterion('scatters')], eval_crit=None)}/iterations")
    assert page.texts("mark", page.by_id("iteration-1")) == ["EVIDENCE-scatters"]


def test_any_two_iterations_are_compared(reader: Reader, thrice: str):
    page = reader.go(f"/jobs/{thrice}/iterations")
    assert "What changed from 1 to 2" in page.text
    page = reader.press("Compare", {"From": "1", "to": "2"})
    assert "?from=1&to=2" in page.path
    [diff] = page.of_class("diff")
    assert page.texts("del", diff) == ["is"]
    assert " ".join(page.texts("ins", diff)).split() == ["looks", "because", "light", "scatters"]


def test_the_version_of_a_profile_is_behind_a_detail(reader: Reader, thrice: str):
    page = reader.go(f"/jobs/{thrice}/iterations")
    hidden = [code for each in page.all("details[summary='Version of the profile']") for code in page.all("code", each)]
    versions = [each for each in page.all("code") if text_of(each).startswith("criteria@")]
    assert len(versions) == 3
    assert versions == hidden


def test_a_wrong_pair_shows_the_usual_one(reader: Reader, thrice: str):
    assert "What changed from 1 to 2" in reader.go(f"/jobs/{thrice}/iterations?from=x&to=99").text


def test_a_verdict_is_rated_and_the_rating_shown(visitor: Visitor, services: Services, thrice: str):
    page = visitor.go(f"/jobs/{thrice}/iterations")
    second = page.locator("#iteration-2")
    second.get_by_text("Rate this verdict").click()
    second.get_by_label("I disagree").check()
    second.get_by_label("What you rate").select_option("scatters")
    second.get_by_label("Your score").fill("0.3")
    second.get_by_label("Reason").fill("It only says so.\n<b>Not</b> how.")
    second.get_by_role("button", name="Rate").click()
    expect_notice(page, "rated")
    expect(page.get_by_role("status").first).to_contain_text("Your rating is stored")
    expect(second.locator(".rating")).to_contain_text("disagree on scatters")
    expect(second.locator(".rating")).to_contain_text("<b>Not</b> how.")
    [rating] = ratings.list_ratings(services, thrice)
    assert (rating.iteration, rating.criterion, rating.score, rating.rater) == (2, "scatters", 0.3, "local")


def test_a_rating_that_is_filled_in_wrong_is_shown_again(reader: Reader, services: Services, thrice: str):
    second = reader.go(f"/jobs/{thrice}/iterations").by_id("iteration-2")
    page = reader.press("Rate", {"I agree": True, "Your score": "most of it", "Reason": "So it is."}, inside=second)
    second = page.by_id("iteration-2")
    assert "Nothing was changed." in text_of(page.one("*[@role='alert']", second))
    assert value_of(page.field("Reason", second)) == "So it is."
    assert "checked" in page.field("I agree", second).attrib
    assert page.field("Your score", second).get("aria-invalid") == "true"
    assert ratings.list_ratings(services, thrice) == []


def test_all_errors_of_a_rating_are_named_at_once_in_the_order_of_the_form(reader: Reader, thrice: str):
    second = reader.go(f"/jobs/{thrice}/iterations").by_id("iteration-2")
    page = reader.press("Rate", {"Reason": "x" * 10_001, "Your score": "2"}, inside=second)
    banner = page.one("*[@role='alert']", page.by_id("iteration-2"))
    assert page.texts("a", banner) == ["Is the evaluator right?", "Your score", "Reason"]
    assert all(page.by_id(each.get("href", "")[1:]) is not None for each in page.all("a", banner))


def test_what_no_form_of_ours_sends_is_refused(api: ApiServer, thrice: str):
    client = api.client(headers=BROWSER)
    for data in (
        {"verdict": ""},
        {"iteration": "one", "verdict": "agree"},
        {"iteration": "1"},
        {"iteration": "1", "verdict": "so"},
    ):
        response = client.post(f"/jobs/{thrice}/ratings", data=data)
        assert response.status_code == 422
        assert "Nothing was changed." in response.text
    assert client.post(f"/jobs/{thrice}/ratings", json={"verdict": "agree"}).status_code == 415


def test_candidates_panels_and_audits_are_shown(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(generate=["One answer.", "Two answers."], evaluate=[0.5, 0.9, 0.6, 0.4, 0.8])
    job_id = stored(candidates=2, iter_max=1, evaluation={"panel": ["openai:a", "openai:b"], "audit": "openai:c"})
    page = reader.go(f"/jobs/{job_id}/iterations")
    candidates = page.of_class("candidate")
    assert len(candidates) == 2
    assert "Candidate 2" in text_of(page.by_id("iteration-1"))
    assert ["best" in text_of(each) for each in candidates].count(True) == 1
    assert re.search(r"Evaluators\W+scores differ by [\d.]+", page.text)
    assert "Audit: " in page.text


def test_what_stayed_the_same_is_cut_to_its_ends():
    parts = [DiffPart(kind="equal", text="s" * 2000), DiffPart(kind="insert", text="new")]
    assert [(kind, len(text)) for kind, text in readable(parts)] == [
        ("equal", 300),
        ("gap", len("1,400 equal characters")),
        ("equal", 300),
        ("insert", 3),
    ]
    long = list(readable([DiffPart(kind="delete", text="d" * 200_000), DiffPart(kind="insert", text="i")]))
    assert [kind for kind, _ in long] == ["delete", "gap"]
    assert len(long[0][1]) == 60_000
