"""Criteria of runs: the rubric in the form."""

from redraft.operations.bulk import runs
from redraft.operations.services import Services
from tests.operations.bulk.test_runs import dataset, rows
from tests.support.html_pages import Reader, value_of


def test_a_run_is_started_with_a_rubric_of_lines(reader: Reader, services: Services):
    reader.go(f"/runs/new?dataset={dataset(services, rows(2))}")
    page = reader.press("Start", {"#rubric": "max_wrds=60"})
    assert page.status == 422
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


def test_a_rubric_that_is_given_twice_is_refused(reader: Reader, services: Services):
    reader.go(f"/runs/new?dataset={dataset(services, rows(2))}")
    given = {"#rubric": "Names the river.", "#more": '{"rubric": [{"id": "a", "text": "True."}]}'}
    page = reader.press("Start", given)
    assert "Given twice, here and in a field of their own: rubric" in page.described(page.by_id("more"))
