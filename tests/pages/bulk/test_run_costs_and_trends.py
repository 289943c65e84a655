"""What a run would cost before it starts, the models of runs, and the trend of a dataset's runs."""

from collections.abc import Callable

import pytest

from redraft.operations.bulk import run_listing
from redraft.operations.services import Services
from redraft.settings import ModelPrice
from tests.model_server import ModelServer
from tests.operations.bulk.test_runs import DEFAULTS, dataset, rows, start, work_off
from tests.operations.driving import Driver
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
    assert "default evaluated by default" in " ".join(lines[1].split())
    listed = reader.go("/runs")
    assert f"openai:writer, {HOSTILE}" in text_of(listed.by_id(newer.id))
