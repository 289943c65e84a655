"""The gains of iterations, checked against figures computed by hand."""

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings

from redraft.domain.bulk.outcomes import CallTotals, ItemOutcome
from redraft.domain.bulk.uplift import UNBACKED, measure_uplift, yields_of
from redraft.domain.statistics.estimates import share
from tests.domain.bulk.outcomes import RUNS, failed, looped, many

RUN = [
    looped("accepted at once", 0.9),
    looped("helped", 0.5, 0.7, 0.85),
    looped("helped, not enough", 0.4, 0.6, 0.5),
    looped("of no use", 0.6, 0.4, 0.6),
    looped("accepted at the second", 0.7, 0.8),
    # Only the second met all required criteria.
    looped("hurt", 0.75, 0.65, final_score=0.65, best_iteration=2),
    looped("judged by nobody", None, stop_reason="evaluator_error"),
    failed("failed"),
    ItemOutcome("waits"),
]


def test_it_compares_first_and_returned_answers_of_the_same_items():
    found = measure_uplift(RUN)
    assert (found.n, found.revised) == (6, 5)
    assert found.first == pytest.approx((0.9 + 0.5 + 0.4 + 0.6 + 0.7 + 0.75) / 6)
    assert found.returned == pytest.approx((0.9 + 0.85 + 0.6 + 0.6 + 0.8 + 0.65) / 6)
    assert found.gain is not None
    assert found.gain.value == pytest.approx((0.35 + 0.2 + 0.1 - 0.1) / 6)
    assert (found.helped.count, found.hurt.count, found.unchanged.count) == (3, 1, 2)
    assert found.helped.share == share(3, 6)


def test_it_reports_gain_and_cost_of_each_iteration():
    first, second, third = yields_of(RUN)
    assert (first.reached, first.newly_accepted, first.accepted) == (6, 1, 1)
    assert (first.better, first.worse, first.mean_gain, first.mean_change) == (None, None, None, None)
    assert (first.cost_usd, first.cost_per_accepted_usd) == (Decimal("0.06"), Decimal("0.06"))
    assert (second.reached, second.newly_accepted, second.accepted) == (5, 1, 2)
    assert (second.better, second.worse) == (3, 2)
    assert second.mean_gain == pytest.approx((0.2 + 0.2 + 0.1) / 5)
    assert second.mean_change == pytest.approx((0.2 + 0.2 - 0.2 + 0.1 - 0.1) / 5)
    assert (third.reached, third.newly_accepted, third.accepted) == (3, 1, 3)
    assert (third.better, third.worse) == (1, 1)
    assert third.mean_gain == pytest.approx(0.15 / 3)
    assert third.mean_change == pytest.approx((0.15 - 0.1 + 0) / 3)
    assert third.cost_per_accepted_usd == Decimal("0.03")
    assert [each.pass_rate for each in (first, second, third)] == [share(passed, 6) for passed in (1, 2, 3)]


@pytest.mark.parametrize(("best", "at"), [(2, 2), (None, 3)])
def test_an_accepted_item_without_passed_iterations_is_accepted_at_its_best_or_last_one(best: int | None, at: int):
    item = looped("a", 0.5, 0.9, 0.6, passed_by_iteration=(), best_iteration=best)
    assert item.accepted_at == at
    assert [each.newly_accepted for each in yields_of([item])] == [int(number == at) for number in (1, 2, 3)]


def test_an_unknown_price_is_unknown_only_where_it_was_paid():
    first, second = yields_of([looped("known", 0.5, 0.9), looped("unknown", 0.9, price=None)])
    assert (first.cost_usd, first.cost_per_accepted_usd) == (None, None)
    assert second.cost_per_accepted_usd == Decimal("0.01")
    (told,) = yields_of([looped("not told by iteration", 0.9, cost_by_iteration=())])
    assert told.cost_usd is None


def test_revisions_without_a_score_are_counted_and_named():
    items = [*many("cut", 2, 0.5, None, None), *many("whole", 2, 0.5, 0.6, 0.9)]
    found = measure_uplift(items)
    assert [(each.reached, each.evaluated) for each in found.iterations] == [(4, 4), (4, 2), (4, 2)]
    [words] = [each for each in found.words if "no score" in each]
    assert words.startswith("4 of 8 revisions have no score: the answer was cut off at the output limit")
    assert "raise sampling.max_output_tokens" in words
    assert "no score" not in " ".join(measure_uplift(many("whole", 2, 0.5, 0.6)).words)


def test_an_iteration_that_brings_nothing_has_no_price_for_it():
    _, second = yields_of([looped("a", 0.5, 0.5)])
    assert (second.newly_accepted, second.cost_usd, second.cost_per_accepted_usd) == (0, Decimal("0.01"), None)


def test_without_independent_verdicts_it_warns_that_the_gain_may_be_chance():
    words = measure_uplift(many("row", 40, 0.5, 0.7)).words
    assert UNBACKED in words
    assert words[1].startswith(
        "The mean score of the returned answers is higher than that of the first answers by 0.200"
    )


def test_scores_of_checks_have_no_noise_to_warn_of():
    assert UNBACKED not in measure_uplift(many("row", 40, 0.5, 0.7), has_only_checks=True).words


def test_the_calls_of_revisions_are_told_in_all_and_per_newly_accepted_answer():
    items = [*many("new", 2, 0.5, 0.9, price=Decimal(0)), *many("same", 2, 0.5, 0.5, price=Decimal(0))]
    found = measure_uplift(items, has_only_checks=True)
    assert found.revisions.calls == CallTotals(8, 440, 4.0)
    assert found.words[-1] == (
        "The iterations after the first brought 2 more accepted answers (2 instead of 0). They cost $0.00 and took "
        "8 calls, 440 tokens, 4 s of model time. That is $0.00, 4.0 calls, 220 tokens for each newly accepted answer."
    )
    unknown = measure_uplift([looped("a", 0.5, 0.9, calls_by_iteration=())], has_only_checks=True)
    assert unknown.revisions.calls is None
    assert unknown.words[-1].endswith("They cost $0.01.")


def test_an_audit_confirms_a_share_of_the_accepted_answers():
    items = many("good", 15, 0.5, 0.9, audit_score=0.9, audit_passed=True)
    items += many("bad", 15, 0.5, 0.9, audit_score=0.5, audit_passed=False)
    found = measure_uplift(items)
    (backing,) = found.backings
    assert (backing.who, backing.n) == ("the independent evaluator", 30)
    assert backing.gap is not None
    assert backing.gap.value == pytest.approx(0.2)
    assert backing.confirmed == share(15, 30)
    assert UNBACKED not in found.words
    assert found.words[-1].startswith(
        "The independent evaluator evaluated 30 returned answers. Of the accepted answers they accept 50.0 %"
    )
    assert "The loop's own score is higher than theirs by 0.200" in found.words[-1]


def test_people_may_score_on_a_scale_of_their_own():
    (backing,) = measure_uplift([looped("a", 0.5, 0.9, human_score=4, human_pass=None)]).backings
    assert (backing.who, backing.n, backing.gap, backing.confirmed) == ("people", 1, None, None)


@pytest.mark.parametrize("items", [[], [failed("a")], [ItemOutcome("a")], [looped("a", None)]])
def test_without_items_there_are_no_figures(items: list[ItemOutcome]):
    found = measure_uplift(items)
    assert (found.n, found.first, found.returned, found.gain, found.iterations) == (0, None, None, None, ())
    assert (found.helped.count, found.helped.share) == (0, None)
    assert found.words == ("No item has both a first and a final score: the effect of the loop is unknown.",)


def test_of_one_row_there_is_a_difference_without_an_interval():
    found = measure_uplift([looped("a", 0.5, 0.75)])
    assert found.gain is not None
    assert (found.gain.value, found.gain.low, found.gain.high) == (0.25, None, None)
    assert "of 1 row: from so few no interval can be computed" in found.words[1]


@pytest.mark.parametrize(
    ("items", "answer"),
    [
        (many("row", 30, 0.5, 0.9), "Yes, the scores rose."),
        (many("row", 30, 0.5, 0.5, 0.5), "No effect on the scores is shown."),
        ([looped("a", 0.5, 0.75)], "There are too few items to tell whether iterating helped."),
    ],
)
def test_the_first_sentence_answers_whether_iterating_helped(items: list[ItemOutcome], answer: str):
    assert measure_uplift(items).words[0].startswith(f"{answer} {len(items)} of ")


def test_without_a_revision_there_is_no_gain_to_measure():
    assert measure_uplift(many("row", 50, 0.9)).words == (
        "None of 50 items went beyond iteration 1: there is no revision to evaluate.",
    )


@settings(max_examples=40)
@given(RUNS)
def test_parts_and_iterations_add_up(items: list[ItemOutcome]):
    found = measure_uplift(items)
    assert found.helped.count + found.hurt.count + found.unchanged.count == found.n
    assert sum(each.newly_accepted for each in found.iterations) == sum(item.is_accepted for item in items)
    for before, after in zip(found.iterations, found.iterations[1:], strict=False):
        assert before.reached >= after.reached
        assert after.accepted == before.accepted + after.newly_accepted
    for each in found.iterations:
        assert each.cost_usd is None or each.cost_usd >= 0
        assert each.mean_gain is None or (math.isfinite(each.mean_gain) and each.mean_gain >= (each.mean_change or 0))
