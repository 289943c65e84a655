"""Shares and kappa, beside what statsmodels says and what follows from their definitions."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redraft.domain.statistics import Crossing, cohens_kappa, share

COUNTS = st.integers(0, 60)
TABLES = st.integers(2, 4).flatmap(
    lambda size: st.lists(st.lists(COUNTS, min_size=size, max_size=size), min_size=size, max_size=size)
)

# kappa, std_kappa, kappa_low and kappa_upp of statsmodels 0.15.0: stats.inter_rater.cohens_kappa
STATSMODELS_KAPPAS = [
    ([[45, 15], [25, 15]], 0.13043478260869554, 0.0986615376234396, -0.06293827779258965, 0.3238078430099807),
    ([[88, 14], [10, 88]], 0.7600959616153539, 0.04590197477894765, 0.6701297442293506, 0.8500621790013572),
    ([[20, 5], [10, 15]], 0.3999999999999999, 0.12699606293110033, 0.151092290476661, 0.6489077095233389),
    ([[3, 40], [37, 5]], -0.8105117565698479, 0.0638995543739404, -0.93575258177093, -0.6852709313687657),
    ([[61, 2], [7, 30]], 0.8014121800529568, 0.0626722626759077, 0.6785768023785438, 0.9242475577273698),
    (
        [[10, 2, 1], [3, 12, 4], [0, 5, 13]],
        *(0.5443499392466585, 0.09979956334064335, 0.34874638942617364, 0.7399534890671434),
    ),
]
# The ends by statsmodels 0.15.0: stats.proportion.proportion_confint(part, whole, method="wilson")
STATSMODELS_SHARES = [
    (0, 10, 0.0, 0.27753279986288926),
    (10, 10, 0.7224672001371106, 1.0),
    (7, 10, 0.39677814746114537, 0.8922087325936989),
    (27, 30, 0.7437891742081592, 0.9654001112526659),
    (1, 200, 0.0008831687156009797, 0.027773704397892937),
    (91, 130, 0.6164118937305151, 0.7721074817917123),
]


@pytest.mark.parametrize(("table", "value", "error", "low", "high"), STATSMODELS_KAPPAS)
def test_kappa_is_that_of_statsmodels(table: list[list[int]], value: float, error: float, low: float, high: float):
    found = cohens_kappa(table)
    assert found is not None
    assert (found.value, found.standard_error) == pytest.approx((value, error), abs=1e-12)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("part", "whole", "low", "high"), STATSMODELS_SHARES)
def test_shares_have_the_wilson_interval_of_statsmodels(part: int, whole: int, low: float, high: float):
    found = share(part, whole)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((part / whole, low, high), abs=1e-12)


@given(COUNTS, COUNTS)
def test_a_share_lies_within_its_interval_and_the_interval_within_0_and_1(part: int, rest: int):
    found = share(part, part + rest)
    assert (found is None) == (part + rest == 0)
    if found is not None:
        assert 0 <= found.low <= found.value <= found.high <= 1
        mirrored = share(rest, part + rest)
        assert mirrored is not None
        assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high), abs=1e-12)


@given(TABLES)
def test_kappa_is_the_same_whoever_is_named_first_and_lies_within_its_interval(table: list[list[int]]):
    found = cohens_kappa(table)
    turned = cohens_kappa([list(column) for column in zip(*table, strict=True)])
    assert (found is None) == (turned is None)
    if found is None or turned is None:
        return
    figures = (found.value, found.low, found.high, found.standard_error)
    assert figures == pytest.approx((turned.value, turned.low, turned.high, turned.standard_error), abs=1e-9)
    assert all(map(math.isfinite, figures))
    assert -1 - 1e-12 <= found.low <= found.value <= found.high <= 1 + 1e-12


@given(COUNTS, COUNTS)
def test_perfect_agreement_is_1(passed: int, failed: int):
    assume(passed and failed)
    found = cohens_kappa([[passed, 0], [0, failed]])
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((1, 1, 1), abs=1e-7)


@pytest.mark.parametrize("table", [[[0, 0], [0, 0]], [[9, 0], [0, 0]], [[0, 9], [0, 0]], [[5, 4], [0, 0]]])
def test_without_variation_there_is_no_kappa(table: list[list[int]]):
    assert cohens_kappa(table) is None
    assert cohens_kappa([list(column) for column in zip(*table, strict=True)]) is None


def test_empty_cells_leave_figures_out():
    nothing = Crossing()
    assert (nothing.agreement, nothing.kappa, nothing.sensitivity, nothing.specificity) == (None, None, None, None)
    passed_only = Crossing(both_pass=3, only_person_passes=1)
    assert passed_only.specificity is None
    assert passed_only.sensitivity is not None
    assert passed_only.sensitivity.value == 0.75
