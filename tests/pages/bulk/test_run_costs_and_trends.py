"""What a run would cost before it starts, the models of runs, and the trend of a dataset's runs."""

from collections.abc import Callable

import pytest

from redraft.operations.bulk import run_listing
from redraft.operations.bulk.report_tables import run_tables
from redraft.operations.bulk.run_results import stream_results
from redraft.operations.services import Services
from redraft.reports.run_report import run_report
from redraft.settings import ModelPrice
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import DEFAULTS, dataset, rows, start, work_off
from tests.operations.driving import Driver
from tests.operations.rubrics import words_at_most
from tests.support.api_server import ApiServer
from tests.support.html_pages import Reader, text_of, value_of

HOSTILE = "openai:<b>x</b>"


def test_the_form_shows_the_maximum_cost_before_it_starts_anything(
    make_services: Callable[..., Services], start_api: Callable[..., ApiServer]
):
    price = ModelPrice(input=1.0, output=10.0)
    prices = {"openai:writer": price, "openai:judge": price}
    services = make_services(prices=prices)
    reader = Reader.of(start_api(prices=prices))
    costs: list[str] = []
    for repeat in ("1", "2"):
        reader.go(f"/runs/new?dataset={dataset(services, rows(3))}")
        fields = {"Criteria": "Good.", "#name": "mine", "#repeat": repeat, "#max_cost_usd": "5"}
        page = reader.press("Show the cost" if repeat == "1" else "Start", fields)
        assert value_of(page.by_id("name")) == "mine"
        costs.append(text_of(page.by_id("cost")))
    assert costs[0].startswith("3 jobs. This costs at most $")
    assert costs[1].startswith("6 jobs. This costs at most $")
    assert cost_in(costs[1]) == pytest.approx(2 * cost_in(costs[0]), abs=0.02)
    assert costs[0].endswith("The run stops at its budget. Nothing is started yet.")
    assert run_listing.list_runs(services, cursor=None, limit=5)[0] == []
    # The cost of another run has not been seen
    page = reader.press("Start", {"#repeat": "3"})
    assert text_of(page.by_id("cost")).startswith("9 jobs. This costs at most $")
    assert run_listing.list_runs(services, cursor=None, limit=5)[0] == []
    assert "/runs/run_" in reader.press("Start").path


def test_the_form_folds_the_fields_that_rows_set_themselves(reader: Reader, services: Services):
    own = dataset(services, rows(2, rubric=[words_at_most(3)]), "own.jsonl")
    own_fields = "Fields that rows of this dataset set themselves: Instruction, Criteria, Rubric"
    page = reader.go(f"/runs/new?dataset={own}")
    [folded] = page.all(f"details[summary='{own_fields}']")
    assert page.texts("label", folded)[:3] == ["Instruction", "Criteria", "Rubric"]
    assert "own.jsonl that does not set the field" in text_of(folded)
    assert folded.get("open") is None
    # A field with an error is in sight
    page = reader.press("Show the cost", {"#rubric": "max_wrds=60"})
    [folded] = page.all(f"details[summary='{own_fields}']")
    assert folded.get("open") is not None
    # The rows have only checks, so no evaluator needs a price
    page = reader.press("Show the cost", {"#rubric": ""})
    assert "because there is no price for openai:writer." in text_of(page.by_id("cost"))


def test_runs_can_be_told_apart_by_their_resolved_models(reader: Reader, services: Services, model_server: ModelServer):
    model_server.script(generate=["short"] * 3, evaluate=[0.9])
    driver = Driver(services)
    checked = work_off(driver, start(driver, rows(1, rubric=[words_at_most(3)]), defaults={"iter_max": 1}, name="same"))
    evaluated = work_off(driver, start(driver, rows(1), name="same"))
    page = reader.go("/runs")
    assert page.texts("td[@data-label='Models']") == [
        "openai:writer evaluated by openai:judge",
        "openai:writer evaluated by checks only",
    ]
    page = reader.go(f"/runs/compare?run={evaluated.id}")
    choices = page.texts("option")
    assert len(set(choices)) == 2
    assert all("openai:writer · 100.0 % of 1 accepted" in each for each in choices)
    assert ("Evaluator", "checks only") in run_report(run_tables(services, checked.id)).facts
    assert {each["evaluator_model"] for each in stream_results(services, checked.id)} == {None}
    page = reader.go(f"/datasets/{checked.dataset_id}")
    page = reader.click("Run again …")
    assert page.path == f"/runs/new?like={checked.id}"


def cost_in(words: str) -> float:
    return float(words.partition("$")[2].partition(";")[0])


def test_a_cost_that_nobody_knows_and_a_run_that_cannot_start_are_named(reader: Reader, services: Services):
    reader.go(f"/runs/new?dataset={dataset(services, rows(3))}")
    refused = reader.press("Show the cost", {"#iter_max": "99"})
    assert refused.status == 422
    page = reader.press("Show the cost", {"Criteria": "Good.", "#iter_max": "2"})
    assert "The maximum cost is unknown, because there is no price for openai:writer" in text_of(page.by_id("cost"))


def test_runs_name_their_models_and_a_dataset_shows_its_runs_over_time(
    reader: Reader, services: Services, model_server: ModelServer
):
    driver = Driver(services)
    older = work_off(driver, start(driver, rows(2, iter_max=1), name="older"))
    page = reader.go(f"/datasets/{older.dataset_id}")
    # One run is no trend
    assert page.all("figure") == []
    model_server.script(evaluate=[0.1], case="r0")
    newer = start(driver, rows(2, iter_max=1), name="newer", defaults={**DEFAULTS, "model": ["openai:writer", HOSTILE]})
    assert newer.dataset_id == older.dataset_id
    work_off(driver, newer)
    page = reader.go(f"/datasets/{older.dataset_id}")
    [figure] = page.all("figure")
    assert "2 of 2 accepted" in text_of(figure)
    lines = [text_of(row) for row in page.all("tbody/tr", page.region("Runs of this dataset"))]
    assert [line.split()[0] for line in lines] == ["newer", "older"]
    assert f"openai:writer, {HOSTILE}" in lines[0]
    assert "openai:writer evaluated by openai:judge" in " ".join(lines[1].split())
    listed = reader.go("/runs")
    assert f"openai:writer, {HOSTILE}" in text_of(listed.by_id(newer.id))
