"""Gates: the conditions under which they pass, and their messages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redraft.domain.bulk.comparison import compare
from redraft.domain.bulk.gates import check_gates, check_pass_rate, check_regression
from redraft.domain.bulk.outcomes import ItemOutcome
from tests.domain.bulk.outcomes import RUNS, failed, many


def test_a_pass_rate_is_held_against_the_share_itself():
    items = many("good", 17, 0.9) + many("bad", 3, 0.5)
    found = check_pass_rate(items, 0.85)
    assert found.passed
    assert found.words == "Passed: 17 of 20 items accepted, 85.0 %; 85.0 % is wanted."
    assert not check_pass_rate(items, 0.86).passed


def test_a_run_does_not_pass_by_failing():
    found = check_pass_rate([*many("good", 1, 0.9), failed("a"), ItemOutcome("b")], 0.5)
    assert not found.passed
    assert found.words == (
        "Not passed: 1 of 3 items accepted, 33.3 %; 50.0 % is wanted. 2 without a verdict count as not accepted; "
        "of the others 100.0 % (95 % interval 20.6 % to 100.0 %) passed."
    )
    assert not check_pass_rate([], 0.0).passed


def test_more_rows_that_newly_fail_than_chance_gives_are_a_regression():
    base, new = many("row", 40, 0.9), many("row", 34, 0.9) + many("row", 40, 0.79)[34:]
    found = check_regression(compare(base, new))
    assert not found.passed
    assert found.words.startswith(
        "Not passed: 6 rows newly failing (row0034, row0035, row0036, row0037, row0038 and 1 more), "
        "0 rows newly passing; McNemar's exact test: p = 0.031."
    )
    assert check_regression(compare(new, base)).passed


def test_a_single_newly_failing_row_passes_the_gate_and_is_named():
    base = many("row", 40, 0.9) + many("other", 1, 0.79)
    new = many("row", 39, 0.9) + many("row", 40, 0.79)[39:] + many("other", 1, 0.9)
    found = check_regression(compare(base, new))
    assert found.passed
    assert found.words == (
        "Passed: no regression shown in 41 rows. 1 row newly failing (row0039), 1 row newly passing (other0000); "
        "McNemar's exact test: p = 1.000."
    )


def test_lower_scores_are_a_regression_though_all_pass():
    found = check_regression(compare(many("row", 25, 0.9), many("row", 25, 0.85)))
    assert not found.passed
    assert found.words == (
        "Not passed: The mean score is lower than that of the baseline by 0.050 "
        "(95 % interval -0.050 to -0.050, 25 rows)."
    )


def test_a_passed_gate_also_describes_differences_that_are_not_significant():
    few = check_regression(compare(many("row", 19, 0.9), many("row", 19, 0.85)))
    assert few.passed
    assert "The mean score may or may not differ from that of the baseline: -0.050" in few.words
    base, new = many("row", 20, 0.9) + many("flip", 5, 0.8), many("row", 20, 0.95) + many("flip", 5, 0.79)
    flips = check_regression(compare(base, new))
    assert flips.passed
    assert "The pass rate may or may not differ from that of the baseline: -20.00 points" in flips.words
    assert "chance alone may cause this" in flips.words


def test_rows_that_lose_their_verdict_are_a_regression():
    base, new = many("row", 40, 0.9), many("row", 30, 0.9) + [failed(f"row{number:04}") for number in range(30, 40)]
    found = check_regression(compare(base, new))
    assert not found.passed
    assert found.words == (
        "Not passed: 10 rows lost their verdict (row0030, row0031, row0032, row0033, row0034 and 5 more), 0 won one; "
        "p = 0.002."
    )
    assert check_regression(compare(new, base)).passed


def test_without_a_row_to_compare_a_regression_cannot_be_ruled_out():
    assert check_regression(None).words == "Not passed: there is no baseline to compare with."
    found = check_regression(compare(many("a", 3, 0.9), many("b", 3, 0.9)))
    assert (found.passed, found.words) == (False, "Not passed: no row can be compared.")


def test_only_gates_that_were_asked_for_are_checked():
    items = many("a", 3, 0.9)
    assert check_gates(items) == []
    found = check_gates(items, compare(items, items), min_pass_rate=0.0, fail_on_regression=True)
    assert [(each.gate, each.passed) for each in found] == [("min_pass_rate", True), ("fail_on_regression", True)]


@settings(max_examples=40)
@given(RUNS, st.floats(0, 1), st.floats(0, 1))
def test_a_run_that_passes_a_gate_passes_each_lower_one(items: list[ItemOutcome], one: float, other: float):
    assert check_pass_rate(items, min(one, other)).passed >= check_pass_rate(items, max(one, other)).passed


@pytest.mark.parametrize("times", [1, 20, 60])
def test_a_run_is_no_regression_of_itself(times: int):
    items = many("row", times, 0.5, 0.9)
    assert check_regression(compare(items, items)).passed


def test_without_any_verdict_the_message_has_no_pass_rate():
    words = check_pass_rate([failed("a"), ItemOutcome("b")], 0.5).words
    assert words.endswith("50.0 % is wanted. 2 without a verdict count as not accepted.")
