"""Figures as cells of a table."""

from decimal import Decimal

import pytest

from redraft.domain.statistics.estimates import Mean
from redraft.reports import wording
from redraft.reports.svg import ticks_to
from redraft.reports.wording import DASH


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "0.50 s"), (12.34, "12.3 s"), (125, "2 min 5 s"), (5400, "1.5 h"), (3599.9, "1.0 h")]
)
def test_times_have_the_unit_that_fits(seconds, words):
    assert wording.seconds(seconds) == words


@pytest.mark.parametrize(
    ("cost", "words"),
    [("0", "$0.00"), ("1.234", "$1.23"), ("0.0148", "$0.0148"), ("0.80", "$0.800"), ("0.00001234", "$0.0000123")],
)
def test_near_prices_can_be_told_apart(cost, words):
    assert wording.price(Decimal(cost)) == words


def test_what_cannot_be_told_is_a_dash_or_unknown():
    bare = Mean(0.5, None, None, 1, 1)
    assert {wording.span(bare), wording.span(bare, wording.change), wording.row("", None)[1], wording.moment(None)} == {
        DASH
    }
    assert {wording.score(None), wording.change(None), wording.points(None), wording.number(None)} == {DASH}
    assert wording.price(None) == wording.money(None) == "unknown"


def test_nothing_has_no_sign_of_less():
    assert (wording.score(-1e-12), wording.change(-0.0001), wording.points(-0.00001)) == (
        "0.00",
        "+0.000",
        "+0.00 points",
    )


@pytest.mark.parametrize(
    ("largest", "ticks"), [(0, [0, 1]), (4, [0, 1, 2, 3, 4]), (75, [0, 20, 40, 60, 80]), (0.025, [0, 0.01, 0.02, 0.03])]
)
def test_ticks_are_round_and_reach_the_largest(largest, ticks):
    assert ticks_to(largest) == pytest.approx(ticks)
