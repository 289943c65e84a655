"""JSON: stable names, nothing rounded, null where a figure cannot be told."""

import json
from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings

from redraft.domain.bulk.examples import Examples
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.reports.figures import figures_of, render_json
from tests.domain.bulk.outcomes import RUNS, looped, many
from tests.reports.sheets import HOSTILE, attempt, comparison_tables, example, hostile_sheet, run_tables


def test_the_names_are_stable():
    figures = figures_of(run_tables())
    assert list(figures) == [
        *("object", "run", "gates", "counts", "stop_reasons", "pass_rate", "final_score", "uplift"),
        *("iter_max_advice", "threshold_advice", "costs", "latency", "errors", "agreement"),
        *("first_scores", "final_scores", "criteria", "repeats", "examples"),
    ]
    assert list(figures["run"]) == [
        *("id", "name", "status", "dataset_name", "created_at", "dataset_version", "finished_at", "models"),
        *("evaluator_models", "has_only_checks", "score_threshold", "iter_max", "cost_usd", "unpriced_models"),
        *("deleted_jobs", "saved_usd", "rounds_s", "ratings", "evaluator_warnings", "settings"),
    ]
    assert list(figures["pass_rate"]) == ["value", "low", "high"]
    assert list(figures["costs"]) == [
        *("total_usd", "known_usd", "unpriced", "per_accepted_usd", "input_tokens", "output_tokens"),
        *("input_tokens_per_accepted", "output_tokens_per_accepted"),
    ]
    assert list(figures["uplift"]["iterations"][0]) == [
        *("number", "reached", "evaluated", "newly_accepted", "accepted", "pass_rate", "better", "worse"),
        *("mean_gain", "mean_change", "cost_usd", "cost_per_accepted_usd"),
    ]
    compared = figures_of(comparison_tables([], []))
    assert list(compared) == [
        *("object", "baseline", "new", "gates", "n", "score", "pass_rate", "mcnemar_p", "wins", "ties", "losses"),
        *("newly_passing", "newly_failing", "verdicts", "only_in_baseline", "only_in_new", "words"),
    ]


@settings(max_examples=25)
@given(RUNS)
def test_figures_are_those_of_the_report(items):
    tables = run_tables(items)
    report, read = tables.report, json.loads(render_json(tables))
    assert read["counts"]["accepted"] == report.counts.accepted
    assert read["pass_rate"] == (
        report.pass_rate and {n: getattr(report.pass_rate, n) for n in ("value", "low", "high")}
    )
    assert (read["final_score"] or {}).get("value") == (report.final_score.value if report.final_score else None)
    assert [each["count"] for each in read["final_scores"]] == [each.count for each in report.final_scores]
    assert read["uplift"]["words"] == list(report.uplift.words)
    assert Decimal(read["costs"]["known_usd"]) == report.costs.known_usd


def test_money_is_a_decimal_string_and_unknown_is_null():
    costs = figures_of(run_tables(many("a", 3, 0.9, price=Decimal("0.000001"))))["costs"]
    assert (costs["total_usd"], costs["per_accepted_usd"]) == ("0.000003", "0.000001")
    third = figures_of(run_tables([looped("a", 0.9), looped("b", 0.9), looped("c", 0.9, price=Decimal("0.02"))]))
    assert third["costs"]["per_accepted_usd"] == "0.013333333"
    assert figures_of(run_tables([looped("a", 0.9, price=None)]))["costs"]["total_usd"] is None
    assert figures_of(run_tables([ItemOutcome("a")]))["costs"]["total_usd"] == "0"
    assert figures_of(run_tables(many("a", 10, 0.9, price=Decimal(10))))["costs"]["total_usd"] == "100"


def test_times_are_utc_and_gates_are_told():
    figures = figures_of(run_tables())
    assert figures["run"]["created_at"] == "2026-11-28T01:02:03.000Z"
    assert figures["gates"][0]["gate"] == "min_pass_rate"
    assert figures["gates"][0]["passed"] is False


def test_examples_have_their_texts_and_the_length_of_cut_ones():
    figures = figures_of(replace(run_tables(), examples=Examples(helped=(example("a", attempt(1, 0.5, "x" * 50)),))))
    [shown] = figures["examples"]["helped"]
    assert (shown["custom_id"], shown["question"]) == ("a", {"text": "Which river?", "length": 12})
    [answer] = shown["attempts"]
    assert answer["answer"] == {"text": "x" * 40, "length": 50}
    assert answer["gaps"][0]["criterion"]["text"] == "Gives the length"


def test_agreement_has_its_derived_figures():
    passes = figures_of(run_tables(many("a", 4, 0.9, human_pass=True)))["agreement"]["passes"]
    assert (passes["n"], passes["both_pass"], passes["agreement"]["value"], passes["kappa"]) == (4, 4, 1, None)


def test_texts_come_back_as_they_were():
    assert json.loads(render_json(hostile_sheet()))["run"]["name"] == HOSTILE


def test_a_comparison_names_all_rows():
    read = json.loads(render_json(comparison_tables(many("a", 90, 0.9), many("a", 90, 0.1))))
    assert len(read["newly_failing"]) == 90
    assert read["verdicts"]["lost"] == []
