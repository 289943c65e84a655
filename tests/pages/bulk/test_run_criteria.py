"""Criteria of runs: the rubric in the form, and the rates in the report."""

import json

from redraft.operations.bulk import runs
from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import dataset, rows, start, work_off
from tests.operations.driving import Driver
from tests.operations.rubrics import criterion, found, words_at_most
from tests.support.html_pages import Reader, text_of, value_of


def test_a_run_is_started_with_a_rubric_of_lines(reader: Reader, services: Services):
    reader.go(f"/runs/new?dataset={dataset(services, rows(2))}")
    page = reader.press("Start", {"#rubric": "max_wrds=60"})
    assert page.status == 422
    [error] = page.all("li", page.by_id("form-errors"))
    assert text_of(error).startswith(
        "Rubric: criterion 1, 'max_wrds=60': 'max_wrds=60' is no check; did you mean max_w"
    )
    assert "criterion 1, 'max_wrds=60'" in page.described(page.by_id("rubric"))
    lines = "! Names the river.\nscale: How vivid it is\nmax_words=60"
    reader.press("Start", {"#rubric": lines})
    reader.press("Start")
    run = runs.list_runs(services, cursor=None, limit=5)[0][0]
    assert [(each["id"], each["kind"]) for each in run.defaults["rubric"]] == [
        ("names-the-river", "binary"),
        ("how-vivid-it-is", "scale"),
        ("max-words", "check"),
    ]
    page = reader.click("Run again")
    assert value_of(page.by_id("rubric")) == lines


def test_a_variable_that_no_row_has_is_an_error_of_the_text_that_names_it(reader: Reader, services: Services):
    page = reader.go("/datasets/new")
    assert "vars.word=expected" in page.described(page.by_id("mapping"))
    reader.go(f"/runs/new?dataset={dataset(services, rows(2))}")
    page = reader.press("Start", {"#eval_crit": "Names {{ word }}."})
    assert page.status == 422
    [error] = page.all("li", page.by_id("form-errors"))
    assert text_of(error).startswith("Criteria: Lines 1 to 2: eval_crit: 'word' is undefined; the vars are: none")
    assert "vars.NAME=COLUMN" in page.described(page.by_id("eval_crit"))


def test_the_report_names_the_criterion_that_most_answers_do_not_meet(
    reader: Reader, services: Services, model_server: ModelServer
):
    better = [found(river=False, vivid=False, rude=False), found(river=True, vivid=False, rude=False)]
    model_server.script(generate=["one", "two"], evaluate=better, case="r0")
    model_server.script(generate=["three"], evaluate=[found(river=True, vivid=True, rude=False)], case="r1")
    rubric = [criterion("river", weight=8), criterion("vivid"), criterion("rude", weight=-1)]
    driver = Driver(services)
    run = work_off(driver, start(driver, rows(2, iter_max=2), defaults={"rubric": rubric}, name="mine"))
    page = reader.go(f"/runs/{run.id}")
    [section] = page.all("section[h2='Criteria']")
    assert [[text_of(cell) for cell in row][:5] for row in page.all("tbody/tr", section)] == [
        ["vivid", "TEXT-vivid", "1", "1 of 2", "50.0 %"],
        ["river", "TEXT-river", "8", "0 of 2", "50.0 %"],
        ["rude", "it must not be true that: TEXT-rude", "-1", "0 of 2", "100.0 %"],
    ]
    [accepted] = page.all("section[h2='Accepted, although a criterion is not met']")
    assert [[text_of(cell) for cell in row] for row in page.all("tbody/tr", accepted)] == [["r0", "0.88", "vivid"]]
    assert page.texts("tbody/tr/th/a", accepted) == ["r0"]
    # Only a criterion that failed is a link to the items
    assert page.texts("tbody/tr/th/a", section) == ["vivid"]
    items = reader.click("vivid")
    assert items.texts("tbody/tr/th") == ["r0"]
    assert "does not meet vivid" in items.text


def test_a_comparison_shows_each_criterion_of_both_runs_and_the_rows_that_changed(
    reader: Reader, services: Services, model_server: ModelServer
):
    # By row, the verdicts on river and vivid in the first and in the second run
    verdicts = {
        "r0": [(True, True), (True, False)],
        "r1": [(True, True), (False, True)],
        "r2": [(False, True), (True, True)],
    }
    for case, pairs in verdicts.items():
        said = [found(river=river, vivid=vivid) for river, vivid in pairs]
        model_server.script(generate=["one"], evaluate=said, case=case)
    defaults = {"rubric": [criterion("river"), criterion("vivid")], "iter_max": 1}
    driver = Driver(services)
    ids = [work_off(driver, start(driver, rows(3), defaults=defaults, name=name)).id for name in ("old", "new")]
    page = reader.go(f"/runs/compare?baseline={ids[0]}&run={ids[1]}")
    lines = [[text_of(cell) for cell in row] for row in page.all("tbody/tr", page.region("Criterion by criterion"))]
    assert [line[0] for line in lines] == ["vivid TEXT-vivid", "river TEXT-river"]
    assert lines[0][1] == "100.0 % met3 evaluated"
    assert lines[0][2].startswith("66.6 % met1 of 3 not met · -33.33 points (")
    assert [line[3] for line in lines] == ["1 newly not met", "1 newly not met1 newly met"]
    rows_shown = "Rows side by side"
    page = reader.click("1 newly not met")
    assert page.texts("tbody/tr/th/a", page.region(rows_shown)) == ["r0"]
    assert "newly not met: vivid" in page.text
    page = reader.click("1 newly met")
    assert page.texts("tbody/tr/th/a", page.region(rows_shown)) == ["r2"]
    items = reader.click("1 of 3 not met", page.region("Criterion by criterion"))
    assert items.texts("tbody/tr/th") == ["r0"]


def test_the_criterion_that_fails_most_is_named_although_each_row_has_its_own_check_value(
    reader: Reader, services: Services, model_server: ModelServer
):
    model_server.script(generate=["Paris"] * 3)
    capitals = ["Paris", "Rome", "Oslo"]
    lines = [
        {
            "custom_id": capital,
            "instruct": f"The capital? {capital}",
            "rubric": [
                words_at_most(3),
                {"id": "right", "kind": "check", "check": {"kind": "contains", "value": capital}},
            ],
        }
        for capital in capitals
    ]
    driver = Driver(services)
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    ids = [work_off(driver, start(driver, data, defaults={"iter_max": 1}, name=name)).id for name in ("old", "new")]
    page = reader.go(f"/runs/{ids[0]}")
    first, second = page.all("tbody/tr", page.all("section[h2='Criteria']")[0])
    assert [text_of(cell) for cell in first][0:3:2] == ["right", "2 of 3"]
    assert text_of(first[1]).endswith("(one of 3 texts)")
    assert [text_of(cell) for cell in second][0:3:2] == ["short", "0 of 3"]
    assert reader.click("right").texts("tbody/tr/th") == ["Rome", "Oslo"]
    page = reader.go(f"/runs/compare?baseline={ids[0]}&run={ids[1]}")
    lines_shown = page.texts("tbody/tr/th", page.region("Criterion by criterion"))
    assert [line.split()[0] for line in lines_shown] == ["right", "short"]
    page = reader.go(f"/runs/compare/row?baseline={ids[0]}&run={ids[1]}&row=Rome")
    assert [line.split()[0] for line in page.texts("tbody/tr/th", page.region("Criteria"))] == ["short", "right"]
