"""What names a run in its reports: the limits in force, and the models without a price."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from redraft.domain.evaluation.calibration import Verdict
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.bulk import runs
from redraft.operations.bulk.report_tables import facts_of, run_tables
from redraft.operations.evaluation import ratings
from redraft.operations.jobs import lifecycle
from redraft.reports.tables import RunFacts
from redraft.reports.text import render_text
from redraft.settings import ModelPrice
from tests.model_server import ModelServer, Reply
from tests.operations.bulk.test_runs import DEFAULTS, rows, start, under_way, work_off
from tests.operations.driving import Driver


def named(driver: Driver, data: bytes, **fields: Any) -> RunFacts:
    return facts_of(driver.services, start(driver, data, **fields))


@pytest.mark.parametrize(
    ("data", "fields", "limits"),
    [
        (rows(2), {}, (3, 0.8)),
        (rows(2), {"defaults": {**DEFAULTS, "iter_max": 2, "score_threshold": 0}}, (2, 0)),
        (rows(2, iter_max=4), {"defaults": {**DEFAULTS, "iter_max": 2}}, (4, 0.8)),
        (rows(2, iter_max=4), {"overrides": {"iter_max": 5}}, (5, 0.8)),
        (rows(1) + rows(1, iter_max=4).replace(b"r0", b"x"), {}, (None, 0.8)),
        (rows(2, answer="GIVEN", score_threshold=0.5), {}, (None, 0.5)),
    ],
)
def test_the_limits_in_force_are_told(driver: Driver, data: bytes, fields: dict[str, Any], limits: tuple[Any, Any]):
    facts = named(driver, data, **fields)
    assert (facts.iter_max, facts.score_threshold) == limits


def test_a_continuation_of_an_item_changes_no_limit_of_the_run(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.1])
    run = start(driver, rows(1), defaults={**DEFAULTS, "iter_max": 1})
    (job_id,) = under_way(driver, run)
    work_off(driver, run)
    lifecycle.continue_job(driver.services, job_id, ContinueJob(iter_max=7))
    assert facts_of(driver.services, runs.get_run(driver.services, run.id)).iter_max == 1


def test_the_latest_rating_of_each_person_is_counted(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    run = start(driver, rows(2))
    first, second = under_way(driver, run)
    work_off(driver, run)
    other = driver.run_new().id
    assert "Nobody has rated a verdict of this run." in render_text(run_tables(driver.services, run.id))
    given: list[tuple[str, Verdict, str]] = [
        *((first, "disagree", "ana"), (first, "agree", "ana"), (first, "unsure", "ben")),
        *((second, "agree", "ana"), (other, "disagree", "ana")),
    ]
    for job_id, verdict, rater in given:
        ratings.rate(driver.services, job_id, 1, RateEvaluation(verdict=verdict), rater)
    tables = run_tables(driver.services, run.id)
    assert tables.facts.ratings == {"agree": 2, "unsure": 1}
    assert "People gave 3 ratings of verdicts of this run: 2 agree, 1 cannot tell." in render_text(tables)


def test_models_without_a_price_are_named(make_driver: Callable[..., Driver], model_server: ModelServer):
    driver = make_driver(prices={"openai:judge": ModelPrice(input=1.0, output=1.0)})
    model_server.script(generate=["a"], evaluate=[0.9])
    run = work_off(driver, start(driver, rows(2)))
    tables = run_tables(driver.services, run.id)
    assert tables.facts.unpriced_models == ("openai:writer",)
    assert "no price is known of openai:writer" in render_text(tables)


def test_calls_of_unknown_outcome_are_blamed_on_no_price(make_driver: Callable[..., Driver], model_server: ModelServer):
    price = ModelPrice(input=1.0, output=1.0)
    driver = make_driver(prices={"openai:judge": price, "openai:writer": price})
    model_server.script(generate=[Reply(fault="reset"), "a"], evaluate=[0.9])
    run = work_off(driver, start(driver, rows(1)))
    tables = run_tables(driver.services, run.id)
    assert (tables.facts.cost_usd, tables.facts.unpriced_models) == (None, ())
    assert "the prices of some calls are unknown" in render_text(tables)


def test_the_headline_counts_the_rows_that_are_left_out(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["a"], evaluate=[0.9])
    model_server.script(generate=[Reply(status=401)], case="r0")
    bad = b"nonsense\n" + json.dumps({"instruct": "Q", "iter_max": 99}).encode()
    run = work_off(driver, start(driver, rows(3) + bad))
    figures = " ".join(render_text(run_tables(driver.services, run.id)).split())
    assert "Items counted 2 of 5 left out: 2 invalid, 1 failed" in figures
