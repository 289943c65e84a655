"""Recommendations and their reasons, word by word."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.recommendations import recommend_iter_max, recommend_threshold
from tests.domain.bulk.outcomes import RUNS, looped, many

AT_ONCE = many("at once", 60, 0.9)
AT_SECOND = many("second", 20, 0.5, 0.9)
NONE_ACCEPTED = (
    "Nothing can be recommended for iter_max: none of 40 items was accepted in 3 iterations. "
    "Look at the criteria, the threshold or the model first."
)
NONE_WENT_ON = (
    "Nothing can be recommended for iter_max: no item went beyond iteration 1, so the effect of a second one on the "
    "5 items not accepted is unknown. Run them with iter_max 2 or more."
)


def test_it_ends_the_loop_where_a_further_iteration_hardly_brings_anything():
    items = [*AT_ONCE, *AT_SECOND, looped("third", 0.5, 0.6, 0.9, price=None), *many("never", 39, 0.5, 0.6, 0.6)]
    found = recommend_iter_max(items)
    assert found.value == 2
    assert found.words == (
        "iter_max 2: iteration 3 was reached by 40 items and brought 1 more accepted at an unknown price."
    )
    priced = [item for item in items if item.custom_id != "third"] + [looped("third", 0.5, 0.6, 0.9)]
    assert recommend_iter_max(priced).words == (
        "iter_max 2: iteration 3 was reached by 40 items and brought 1 more accepted for $0.40."
    )


def test_it_adds_up_the_cost_of_all_iterations_without_enough_gain():
    found = recommend_iter_max([*AT_ONCE, *many("never", 40, 0.5, 0.5, 0.5)])
    assert found.value == 1
    assert found.words == (
        "iter_max 1: iterations 2 to 3 were reached by 40 items and brought none more accepted for $0.80."
    )


def test_it_keeps_a_late_iteration_with_enough_gain_after_one_without():
    found = recommend_iter_max([*AT_ONCE, *many("late", 20, 0.5, 0.5, 0.9), *many("never", 20, 0.5, 0.5, 0.5)])
    assert found.value == 3
    assert found.words == (
        "iter_max 3: iteration 3 was reached by 40 items and brought 20 more accepted; it was the last, and 20 items "
        "stayed unaccepted, so one more may help."
    )


def test_it_says_so_if_all_were_accepted_in_the_end():
    found = recommend_iter_max([*AT_ONCE, *AT_SECOND])
    assert found.value == 2
    assert found.words == (
        "iter_max 2: iteration 2 was reached by 20 items and brought 20 more accepted, so that all items were accepted."
    )


def test_it_says_so_if_too_few_went_further():
    found = recommend_iter_max([*AT_ONCE, *AT_SECOND, *many("further", 3, 0.5, 0.5, 0.9)])
    assert found.value == 2
    assert found.words == (
        "iter_max 2: iteration 2 was reached by 23 items and brought 20 more accepted; "
        "too few items went on (3) to know the effect of more."
    )


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([], "Nothing can be recommended: 0 rows have a verdict, 30 are needed."),
        ([looped("a", 0.9)], "Nothing can be recommended: 1 row has a verdict, 30 are needed."),
        (
            [looped(f"row {n}", 0.5, 0.9, repeat=r) for n in range(10) for r in range(5)],
            "Nothing can be recommended: 10 rows have a verdict, 30 are needed.",
        ),
        (
            many("a", 40, 0.5, 0.6, 0.7),
            NONE_ACCEPTED,
        ),
        (
            AT_ONCE,
            "Nothing to recommend for iter_max: all 60 items were accepted at iteration 1, so no more were made.",
        ),
        (
            [*AT_ONCE, *many("b", 5, 0.5)],
            NONE_WENT_ON,
        ),
        (
            [*AT_ONCE, *many("b", 5, 0.5, 0.9)],
            "Nothing can be recommended for iter_max: iteration 2 was reached by 5 items, 10 are needed.",
        ),
    ],
)
def test_without_a_recommendation_there_is_a_reason(items: list[ItemOutcome], words: str):
    assert (recommend_iter_max(items).value, recommend_iter_max(items).words) == (None, words)


def test_verdicts_of_people_decide_the_threshold():
    items = many("good", 40, 0.9, human_pass=True) + many("so so", 20, 0.7, human_pass=False)
    items += many("fine", 20, 0.8, human_pass=True, audit_passed=False)
    found = recommend_threshold(items)
    assert found.value == 0.8
    assert found.words == (
        "Threshold 0.8: people accept 100.0 % (95 % interval 93.9 % to 100.0 %) of 60 answers with a score of 0.8 or "
        "higher. At any lower threshold, the share is below 90.0 %."
    )


def test_without_people_the_independent_evaluator_decides():
    found = recommend_threshold(many("bad", 40, 0.9, audit_passed=False))
    assert found.value is None
    assert found.words == (
        "Nothing can be recommended for the threshold: at any score, the independent evaluator accepts less than "
        "90.0 % of the answers with that score or a higher one (40 evaluated)."
    )


def test_the_loops_own_scores_recommend_no_threshold():
    items = [*AT_ONCE, *many("near", 4, 0.75), *many("far", 4, 0.7)]
    found = recommend_threshold(items, threshold=0.8)
    assert found.value is None
    assert found.words.startswith("Nothing can be recommended for the threshold: fewer than 30 returned answers have")
    assert found.words.endswith(" 4 items ended at most 0.05 below the present one, 0.8.")
    assert "below the present one" not in recommend_threshold(items).words
    assert recommend_threshold([]).words == "Nothing can be recommended: 0 rows have a verdict, 30 are needed."


@settings(max_examples=40)
@given(RUNS)
def test_there_is_always_a_reason(items: list[ItemOutcome]):
    for found in (recommend_iter_max(items), recommend_threshold(items, threshold=0.8)):
        assert found.words.endswith(".")
        assert "nan" not in found.words.split()


def test_a_threshold_that_few_answers_reach_is_not_recommended():
    low = [replace(item, human_pass=False) for item in many("low", 40, 0.5)]
    high = [replace(item, human_pass=True) for item in many("high", 5, 0.95)]
    found = recommend_threshold([*low, *high])
    assert found.value is None
    assert found.words == (
        "Nothing can be recommended for the threshold: people accept 90.0 % of 5 answers with a score of 0.95 or "
        "higher, but these are too few answers for a recommendation."
    )
