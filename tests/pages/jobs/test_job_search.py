"""The search of the job list: words, ids, labels, spans of time and orders, over HTTP."""

from collections.abc import Callable

import pytest

from redraft.domain.jobs.searches import Search, read_search
from tests.model_server import ModelServer
from tests.operations.rubrics import criterion, found, words_at_most
from tests.support.html_pages import HtmlPage, Reader


def tasks(page: HtmlPage) -> list[str]:
    return [each.split(" team=")[0] for each in page.texts("tbody/tr/th")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", Search()),
        ("blue sky", Search(("blue", "sky"))),
        ('"blue sky" team=docs', Search(("blue sky",), None, {"team": "docs"})),
        ('team="the docs"', Search((), None, {"team": "the docs"})),
        ("job_01a22b3a7", Search((), "job_01a22b3a7")),
        ("01a22b3a", Search((), "job_01a22b3a")),
        ("deadbeef", Search(("deadbeef",))),
        ("=x 2+2=4", Search(("=x",), None, {"2+2": "4"})),
    ],
)
def test_a_search_has_words_an_id_and_labels(text: str, found: Search):
    assert read_search(text) == found


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_one_box_finds_words_of_task_and_answer_ids_and_labels(
    reader: Reader, stored: Callable[..., str], model_server: ModelServer
):
    model_server.script(generate=["It scatters Blue light."], evaluate=[0.9])
    first = stored(instruct="Explain the sky. 100%", metadata={"team": "docs"})
    stored(instruct="Name a river.", metadata={"team": "ops"})
    for text, shown in (
        ("SKY", ["Explain the sky. 100%"]),
        ("100%", ["Explain the sky. 100%"]),
        ("river blue", ["Name a river."]),
        ("blue", ["Name a river.", "Explain the sky. 100%"]),
        ("team=docs", ["Explain the sky. 100%"]),
        ("blue team=ops", ["Name a river."]),
        (first[:-1], ["Explain the sky. 100%"]),
        ("zebra", []),
        ("_", []),
    ):
        reader.go("/jobs")
        assert tasks(reader.press("Search", {"#q": text})) == shown, text


def test_jobs_are_put_in_order_and_narrowed_by_a_click(
    reader: Reader, stored: Callable[..., str], model_server: ModelServer
):
    model_server.script(generate=["a"], evaluate=[0.9], case="good")
    model_server.script(generate=["a"], evaluate=[0.2], case="bad")
    stored(instruct="[[case:good]]", iter_max=1)
    stored(instruct="[[case:bad]]", iter_max=1)
    page = reader.go("/jobs?sort=best")
    assert tasks(page) == ["[[case:good]]", "[[case:bad]]"]
    assert tasks(reader.go("/jobs?sort=worst")) == ["[[case:bad]]", "[[case:good]]"]
    for order in ("cost", "duration"):
        assert len(tasks(reader.go(f"/jobs?sort={order}"))) == 2
    reader.go("/jobs")
    assert tasks(reader.click("accepted 1")) == ["[[case:good]]"]
    page = reader.click("last hour")
    assert page.path == "/jobs?outcome=accepted&within=hour"
    assert tasks(page) == ["[[case:good]]"]
    assert reader.go("/jobs?sort=random").status == 422
    assert reader.go("/jobs?within=century").status == 422


RUBRIC = [criterion("river"), criterion("vivid"), criterion("rude", weight=-1)]


def rates(page: HtmlPage) -> list[list[str]]:
    rows = page.all("tbody/tr", page.region("Answers by criterion"))
    return [[*page.texts("th", row), *page.texts("td", row)] for row in rows]


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_the_criterion_that_fails_most_is_named_with_the_jobs_in_which_it_failed(
    reader: Reader, stored: Callable[..., str], model_server: ModelServer
):
    # The first answer of "a" is better, so it is the one that is returned
    first, second = found(river=True, vivid=True, rude=True), found(river=False, vivid=False, rude=True)
    model_server.script(generate=["one", "two"], evaluate=[first, second], case="a")
    model_server.script(generate=["three"], evaluate=[found(river=True, vivid=False, rude=True)], case="b")
    model_server.script(generate=["four"], evaluate=[found(river=True, vivid=False, rude=False)], case="c")
    for case, iter_max in (("a", 2), ("b", 1), ("c", 1)):
        stored(instruct=f"[[case:{case}]]", iter_max=iter_max, rubric=RUBRIC, metadata={"team": case})
    stored(instruct="No rubric.")
    reader.go("/jobs")
    page = reader.click("Criteria that fail")
    fault = "rude it must not be true that: TEXT-rude"
    assert rates(page) == [
        [fault, "2", "3", "33.3 %"],
        ["vivid TEXT-vivid", "2", "3", "33.3 %"],
        ["river TEXT-river", "0", "3", "100.0 %"],
    ]
    assert "3 jobs have verdicts by criterion, of all 4 jobs" in page.text
    assert tasks(reader.click("rude")) == ["[[case:b]]", "[[case:a]]"]
    assert "Criterion not met: rude" in reader.page.text
    assert tasks(reader.go("/jobs?not_met=vivid&metadata.team=c")) == ["[[case:c]]"]
    assert tasks(reader.go("/jobs?not_met=vivid&sort=worst"))[0] == "[[case:b]]"
    assert tasks(reader.go("/jobs?not_met=viv")) == []
    # The same filters as those of the list
    assert rates(reader.go("/jobs/criteria?metadata.team=c"))[0] == ["vivid TEXT-vivid", "1", "1", "0.0 %"]
    assert rates(reader.go("/jobs/criteria?not_met=vivid&q=case%3Ab"))[0] == [fault, "1", "1", "0.0 %"]
    assert "No criterion has a verdict" in reader.go("/jobs/criteria?outcome=failed").text


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_criteria_with_the_same_id_are_one_criterion_whatever_their_texts(
    reader: Reader, stored: Callable[..., str], model_server: ModelServer
):
    model_server.script(generate=["Paris"] * 4)
    for capital in ("Paris", "Rome", "Oslo"):
        check = {"id": "right", "kind": "check", "check": {"kind": "contains", "value": capital}}
        stored(instruct=capital, iter_max=1, rubric=[check, words_at_most(3)])
    greeting = {"id": "greet", "kind": "check", "check": {"kind": "contains", "value": "Hello"}}
    stored(instruct="Bern", iter_max=1, rubric=[greeting])
    [greet, right, short] = rates(reader.go("/jobs/criteria"))
    # 1 of 1 comes before 2 of 3
    assert greet[1:] == ["1", "1", "0.0 %"]
    assert right[1:] == ["2", "3", "33.3 %"]
    assert right[0].startswith("right ")
    assert "3 different texts" in right[0]
    assert [right[0].count(f"{met} of 1 not met") for met in (1, 0)] == [2, 1]
    assert short[1:] == ["0", "3", "100.0 %"]
    assert "different texts" not in short[0]
    assert tasks(reader.click("right")) == ["Oslo", "Rome"]


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_jobs_with_checks_only_name_no_evaluator(reader: Reader, stored: Callable[..., str], model_server: ModelServer):
    model_server.script(generate=["short", "short"], evaluate=[found(river=True)])
    checked = stored(instruct="Checked", iter_max=1, rubric=[words_at_most(3)])
    stored(instruct="Evaluated", iter_max=1, rubric=[words_at_most(3), criterion("river")])
    page = reader.go("/jobs")
    models = [page.texts("td[@data-label='Models']", row)[0] for row in page.all("tbody/tr")]
    assert ["checks only" in each for each in models] == [False, True]
    assert ["openai:judge" in each for each in models] == [True, False]
    facts = reader.go(f"/jobs/{checked}").text
    assert "Evaluator checks only" in " ".join(facts.split())
    assert "openai:judge" not in facts
