"""Figures described in words."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.bulk.phrases import (
    describe_difference,
    direction_shown,
    dollars,
    format_names,
    format_p,
    format_score,
    format_share,
    format_threshold,
    grouped_lines,
    percent,
)
from redraft.domain.statistics.estimates import Mean, share


@pytest.mark.parametrize(
    ("cost", "words"),
    [("0", "$0.00"), ("0.8", "$0.80"), ("12.345", "$12.34"), ("0.0042", "$0.0042"), ("0.0000123", "$0.000012")],
)
def test_small_costs_keep_the_digits_that_count(cost: str, words: str):
    assert dollars(Decimal(cost)) == words


def test_a_difference_is_described_with_interval_and_count():
    found = Mean(0.0421, 0.0119, 0.0712, 240, 240)
    assert describe_difference("mean score", found, than="that of run_1") == (
        "The mean score is higher than that of run_1 by 0.042 (95 % interval +0.012 to +0.071, 240 rows)."
    )
    found = Mean(-0.0004, -0.031, 0.022, 480, 240)
    assert describe_difference("mean score", found, than="that of run_1") == (
        "No difference in the mean score shown against that of run_1: +0.000 (95 % interval -0.031 to +0.022, "
        "240 rows). Any within that interval is possible."
    )


def test_an_exact_test_decides_where_there_is_one():
    found = Mean(-0.05, -0.1, 0.001, 100, 100)
    said = {p: describe_difference("pass rate", found, than="before", unit="points", p=p) for p in (0.04, 0.0625)}
    assert said[0.04] == (
        "The pass rate is lower than before by 5.00 points (95 % interval -10.00 points to +0.10 points, 100 rows, "
        "p = 0.040). The exact test shows it; the interval, which holds 0, does not."
    )
    assert said[0.0625].startswith("No difference in the pass rate shown against before: -5.00 points")
    nothing = Mean(0.0, -0.1, 0.1, 100, 100)
    assert describe_difference("pass rate", nothing, than="before", p=0.01).startswith(
        "No difference in the pass rate shown"
    )


def test_few_rows_show_nothing_by_their_interval():
    found = Mean(-0.2, -0.3, 0.1, 19, 19)
    assert direction_shown(found) is None
    assert describe_difference("mean score", found, than="before").endswith(
        "19 rows). With fewer than 20 rows, only a large difference can be detected."
    )


def test_an_interval_without_0_is_never_called_no_difference():
    few = Mean(-0.2, -0.3, -0.1, 19, 19)
    assert direction_shown(few) is None
    assert describe_difference("mean score", few, than="before") == (
        "The mean score may or may not differ from before: -0.200 (95 % interval -0.300 to -0.100, 19 rows). The "
        "interval leaves out 0, but from fewer than 20 rows it is too narrow to rely on."
    )
    assert describe_difference("pass rate", few, than="before", unit="points", p=0.0625) == (
        "The pass rate may or may not differ from before: -20.00 points (95 % interval -30.00 points to -10.00 points, "
        "19 rows, p = 0.062). The interval leaves out 0, but the exact test, which decides, says that chance alone may "
        "cause this."
    )


@given(st.floats(-1, 1), st.floats(0, 0.5), st.integers(1, 100), st.none() | st.floats(0.001, 1))
def test_no_difference_is_called_equal_or_shown_against_its_interval(
    value: float, half: float, rows: int, p: float | None
):
    found = Mean(value, value - half, value + half, rows, rows)
    words = describe_difference("mean score", found, than="before", p=p)
    assert "equal" not in words
    assert "interval" in words or "Without variation" in words
    assert f"{rows} row" in words
    holds_0 = value - half <= 0 <= value + half
    if words.startswith("No difference"):
        assert holds_0
    elif p is None:
        assert not holds_0
    if p is not None and p >= 0.05 and not holds_0:
        assert words.startswith("The mean score may or may not differ from before")


def test_shares_names_and_p_values_are_formatted_shortly():
    assert format_share(None) == "no share (no items)"
    assert format_share(share(7, 10)) == "70.0 % (95 % interval 39.6 % to 89.2 %)"
    assert format_names(["a", "b"]) == "a, b"
    assert format_names([*"abcdefg"]) == "a, b, c, d, e and 2 more"
    assert (format_score(0.79999), format_score(0.58), format_score(1.0)) == ("0.79", "0.58", "1.00")
    assert [format_threshold(each) for each in (0, 0.8, 0.805, 1)] == ["0.00", "0.80", "0.805", "1.00"]
    assert [percent(each) for each in (0.7996, 0.29, 2 / 3, 1)] == ["79.9 %", "29.0 %", "66.6 %", "100.0 %"]
    assert (format_p(0.0004), format_p(0.0312)) == ("p < 0.001", "p = 0.031")


def test_equal_errors_are_paired_with_their_lines():
    errors = [(2, "a"), (3, "a"), (3, "b"), (4, "a"), (9, "a"), (9, "a"), (11, "c")]
    assert grouped_lines(errors) == [("lines 2 to 4, 9", "a"), ("line 3", "b"), ("line 11", "c")]
