"""The figures of a run, checked against figures computed by hand."""

from dataclasses import fields, is_dataclass
from decimal import Decimal
from math import isfinite
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.domain.bulk.outcomes import ItemCriterion, ItemOutcome
from redraft.domain.bulk.run_statistics import (
    add_costs,
    compare_with_people,
    count_items,
    group_errors,
    histogram,
    measure_latency,
    pass_rate_of,
    rate_criteria,
    report_on,
)
from redraft.domain.statistics.estimates import clustered_share, share
from tests.domain.bulk.outcomes import RUNS, failed, looped, many

RUN = [
    looped("a", 0.9),
    looped("b", 0.5, 0.85),
    looped("c", 0.5, 0.6, 0.7),
    looped("d", None, stop_reason="evaluator_error", error_code="evaluator_invalid", error_words="No score."),
    failed("e", error_words="It took too long.", cost_usd=Decimal("0.02")),
    failed("f", error_words="It took too long."),
    failed("g", None),
    ItemOutcome("h", status="invalid", error_code="invalid_row", error_words="Line 9: instruct is missing."),
    ItemOutcome("i", status="canceled", cost_usd=Decimal(0), stop_reason="canceled"),
    ItemOutcome("j", status="running", cost_usd=Decimal("0.01"), input_tokens=50),
    ItemOutcome("k"),
]


def test_counts_add_up():
    found = count_items(RUN)
    states = (found.queued, found.running, found.succeeded, found.failed, found.canceled, found.invalid)
    assert states == (1, 1, 4, 3, 1, 1)
    assert (found.total, found.judged, found.accepted, found.rows) == (11, 3, 2, 11)


def test_failures_and_unevaluated_items_are_no_part_of_the_pass_rate():
    found = report_on(RUN)
    assert found.pass_rate == share(2, 3)
    assert found.final_score is not None
    assert (found.final_score.value, found.final_score.n) == (pytest.approx((0.9 + 0.85 + 0.7) / 3), 3)
    assert found.stop_reasons == {"error": 3, "accepted": 2, "canceled": 1, "evaluator_error": 1, "iteration_limit": 1}
    assert list(found.stop_reasons)[:2] == ["error", "accepted"]


def test_an_answer_that_nobody_was_asked_about_has_no_verdict():
    skipped = looped("a", None, success=None, stop_reason="evaluation_skipped")
    assert report_on([skipped]).pass_rate is None
    assert count_items([skipped]).judged == 0


def test_repeats_of_a_row_are_a_cluster():
    items = [looped(name, score, repeat=repeat) for name, score in (("a", 0.9), ("b", 0.5)) for repeat in (1, 2, 3)]
    assert pass_rate_of(items) == clustered_share([(3, 3), (0, 3)]) == share(1, 2)
    found = report_on(items).final_score
    assert found is not None
    assert (found.n, found.clusters) == (6, 2)


def test_cost_and_tokens_of_failures_are_paid_for_by_the_accepted():
    found = add_costs(RUN)
    assert (found.total_usd, found.known_usd, found.unpriced) == (Decimal("0.10"), Decimal("0.10"), 0)
    assert found.per_accepted_usd == Decimal("0.05")
    assert (found.input_tokens, found.output_tokens) == (750, 70)
    assert (found.input_tokens_per_accepted, found.output_tokens_per_accepted) == (375, 35)


def test_an_unknown_price_is_never_0():
    found = add_costs([looped("a", 0.9), looped("b", 0.9, price=None)])
    assert (found.total_usd, found.known_usd, found.unpriced) == (None, Decimal("0.01"), 1)
    assert found.per_accepted_usd is None


def test_without_an_accepted_answer_there_is_no_figure_per_accepted_answer():
    found = add_costs([looped("a", 0.5)])
    assert (found.per_accepted_usd, found.input_tokens_per_accepted, found.output_tokens_per_accepted) == (None,) * 3
    assert found.total_usd == Decimal("0.01")


def test_latency_is_that_of_answers():
    items = [looped(f"row {n}", 0.9, seconds=float(n)) for n in range(1, 12)] + [failed("z", seconds=900.0)]
    found = measure_latency(items)
    assert found is not None
    assert (found.n, found.p50, found.p90, found.p95, found.longest) == (11, 6, 10, 10.5, 11)
    assert found.p99 == pytest.approx(10.9)
    assert measure_latency([failed("z", seconds=900.0)]) is None


def test_errors_are_grouped_with_an_example():
    found = [(group.code, group.count, group.example_id, group.example_words) for group in group_errors(RUN)]
    assert found == [
        ("provider_timeout", 2, "e", "It took too long."),
        ("evaluator_invalid", 1, "d", "No score."),
        ("invalid_row", 1, "h", "Line 9: instruct is missing."),
        ("unknown", 1, "g", None),
    ]


def test_an_example_with_words_comes_before_one_without():
    (found,) = group_errors([failed("a"), failed("b", error_words="It took too long.")])
    assert (found.count, found.example_id) == (2, "b")


def test_the_evaluator_is_compared_with_people():
    items = [
        looped("a", 0.9, human_pass=True, human_score=1.0),
        looped("b", 0.9, human_pass=False, human_score=0.5),
        looped("c", 0.5, human_pass=True, human_score=0.7),
        looped("d", 0.4, human_pass=False, human_score=0.0),
        looped("e", 0.4, human_pass=False),
        looped("f", 0.4),
        failed("g", human_pass=True, human_score=1.0),
    ]
    found = compare_with_people(items)
    assert found is not None
    table = found.passes
    assert (table.both_pass, table.only_evaluator_passes, table.only_person_passes, table.both_fail) == (1, 1, 1, 2)
    assert found.error is not None
    assert found.bias is not None
    assert found.order is not None
    assert (found.scores, found.error.value) == (4, pytest.approx((0.1 + 0.4 + 0.2 + 0.4) / 4))
    assert found.bias.value == pytest.approx((-0.1 + 0.4 - 0.2 + 0.4) / 4)
    # scipy 1.17.1: stats.spearmanr([1.0, 0.5, 0.7, 0.0], [0.9, 0.9, 0.5, 0.4])
    assert found.order.value == pytest.approx(0.6324555320336759)


def test_people_who_score_on_another_scale_leave_an_order():
    found = compare_with_people([looped("a", 0.9, human_score=5), looped("b", 0.5, human_score=1)])
    assert found is not None
    assert (found.error, found.bias, found.passes.n, found.scores) == (None, None, 0, 2)
    assert found.order is not None
    assert found.order.value == pytest.approx(1)


def test_without_people_there_is_no_agreement():
    assert compare_with_people(RUN) is None


def test_a_histogram_holds_each_score_once():
    scores = [0.0, 0.1, 0.3, 0.6, 0.7, 0.1 + 0.2, 0.8 - 1e-10, 0.999, 1.0, None]
    found = histogram(scores)
    assert [each.count for each in found] == [1, 1, 0, 2, 0, 0, 1, 1, 1, 2]
    assert (found[0].low, found[2].high, found[-1].high) == (0, 0.3, 1)


@given(st.lists(st.floats(0, 1)), st.integers(1, 40))
def test_bins_add_up_and_contain_scores_of_their_range(scores: list[float], bins: int):
    found = histogram(scores, bins)
    assert len(found) == bins
    assert sum(each.count for each in found) == len(scores)
    for each in found:
        below = each.high + 1e-9 if each is found[-1] else each.high
        assert each.count <= sum(each.low - 1e-8 <= score < below for score in scores)


def floats_in(value: Any) -> list[float]:
    if is_dataclass(value):
        return [each for one in fields(value) for each in floats_in(getattr(value, one.name))]
    if isinstance(value, tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        return [each for part in parts for each in floats_in(part)]
    return [value] if isinstance(value, float) else []


@settings(max_examples=25)
@given(RUNS)
def test_counts_add_up_and_no_figure_is_nan(items: list[ItemOutcome]):
    found = report_on(items, threshold=0.8)
    counts = found.counts
    states = (counts.queued, counts.running, counts.succeeded, counts.failed, counts.canceled, counts.invalid)
    assert counts.total == sum(states) == len(items)
    assert counts.accepted <= counts.judged <= counts.succeeded
    assert (found.pass_rate is None) == (counts.judged == 0)
    if found.uplift.iterations:
        assert found.uplift.iterations[-1].pass_rate == found.pass_rate
    assert all(map(isfinite, floats_in(found)))


@settings(max_examples=25)
@given(RUNS, st.randoms(use_true_random=False))
def test_a_report_does_not_depend_on_the_order_in_which_items_end(items: list[ItemOutcome], rng: Random):
    unique = list({(item.custom_id, item.repeat): item for item in items}.values())
    assert report_on(unique) == report_on(rng.sample(unique, len(unique)))


def test_ten_thousand_rows_are_reported_at_once():
    items = many("once", 5000, 0.9) + many("twice", 4000, 0.5, 0.8) + many("never", 1000, 0.5, 0.6, 0.7)
    found = report_on(items)
    assert (found.counts.total, found.counts.accepted) == (10_000, 9000)
    assert found.iter_max_advice.value == 2


def test_an_empty_run_has_a_report():
    found = report_on([])
    assert (found.counts.total, found.pass_rate, found.final_score, found.latency) == (0, None, None, None)
    assert (found.costs.total_usd, found.costs.per_accepted_usd, found.errors) == (Decimal(0), None, ())
    assert (found.agreement, found.iter_max_advice.value, found.threshold_advice.value) == (None, None, None)


def test_the_criterion_with_the_largest_share_not_met_comes_first():
    def item(name: str, *met: tuple[bool | None, bool | None]) -> ItemOutcome:
        return looped(name, 0.9, criteria=tuple(ItemCriterion(f"c{n}", "True.", *each) for n, each in enumerate(met)))

    rates = rate_criteria(
        [item("a", (True, True), (False, False)), item("b", (None, None), (False, True)), looped("c", 1)]
    )
    assert [(rate.id, rate.judged, rate.not_met) for rate in rates] == [("c1", 2, 1), ("c0", 1, 0)]
    assert (rates[0].first, rates[0].returned) == (share(0, 2), share(1, 2))
    assert (rates[1].first, rates[1].returned) == (share(1, 1), share(1, 1))
    often = [item(str(n), (None, n > 6)) for n in range(12)]
    always = [item(f"always {n}", (None, None), (None, False)) for n in range(6)]
    assert [(rate.id, rate.not_met) for rate in rate_criteria(often + always)] == [("c1", 6), ("c0", 7)]


def test_a_criterion_whose_text_differs_by_row_is_one_criterion():
    items = [
        looped(str(n), 0.9, criteria=(ItemCriterion("right", f"Names {min(n, 58)}.", returned=n % 3 > 0),))
        for n in range(60)
    ]
    [rate] = rate_criteria(items)
    assert (rate.id, rate.text, rate.texts) == ("right", "Names 0.", 59)
    assert (rate.judged, rate.not_met) == (60, 20)


def test_a_criterion_has_a_weight_if_all_rows_give_it_the_same():
    def weights(*given: float) -> list[float | None]:
        items = [looped(str(n), 0.9, criteria=(ItemCriterion("a", "a", weight=each),)) for n, each in enumerate(given)]
        return [rate.weight for rate in rate_criteria(items)]

    assert (weights(2, 2), weights(1, 2)) == ([2], [None])
