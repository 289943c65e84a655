"""Shares, kappa and other estimates, checked against statsmodels, scipy and numpy, and by their definitions."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redraft.domain.statistics.estimates import (
    Crossing,
    clustered_share,
    cohens_kappa,
    mcnemar_p,
    paired_share_difference,
    quantile,
    share,
    spearman,
)

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


# stats.contingency_tables.mcnemar(table, exact=True).pvalue of statsmodels 0.15.0; binomtest of scipy 1.17.1 agrees.
STATSMODELS_MCNEMARS = [
    (0, 1, 1.0),
    (0, 5, 0.0625),
    (0, 6, 0.03125),
    (1, 9, 0.021484375),
    (3, 12, 0.03515625),
    (10, 10, 1.0),
    (7, 8, 1.0),
    (2, 30, 2.4633482098579407e-07),
    (120, 90, 0.045114087864840696),
    (400, 500, 0.0009564441369189373),
]


@pytest.mark.parametrize(("one_way", "other_way", "p"), STATSMODELS_MCNEMARS)
def test_mcnemars_exact_test_is_that_of_statsmodels(one_way: int, other_way: int, p: float):
    assert mcnemar_p(one_way, other_way) == pytest.approx(p, rel=1e-9)


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemars_p_is_above_0_at_most_1_and_the_same_both_ways(one_way: int, other_way: int):
    p = mcnemar_p(one_way, other_way)
    assert 0 < p <= 1
    assert p == mcnemar_p(other_way, one_way)
    if one_way != other_way:
        assert mcnemar_p(max(one_way, other_way) + 1, min(one_way, other_way)) <= p


def test_mcnemars_p_is_1_without_flips_and_never_0():
    assert mcnemar_p(0, 0) == 1
    assert 0 < mcnemar_p(0, 20_000) < 1e-300


# numpy.quantile of numpy 2.4.6, with its default method, linear
NUMPY_QUANTILES = [(0, 0.3), (0.025, 0.45), (0.5, 4.4), (0.9, 12.5), (0.95, 36.25), (0.99, 55.25), (1, 60.0)]


@pytest.mark.parametrize(("at", "value"), NUMPY_QUANTILES)
def test_quantiles_are_those_of_numpy(at: float, value: float):
    assert quantile([0.3, 12.5, 1.1, 4.4, 4.4, 2.0, 9.7, 0.9, 3.3, 60.0, 7.2], at) == pytest.approx(value, abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), max_size=30), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_lie_among_the_values_and_rise(values: list[float], one: float, other: float):
    low, high = quantile(values, min(one, other)), quantile(values, max(one, other))
    if low is None or high is None:
        assert values == []
        return
    assert min(values) <= low <= high + 1e-9
    assert high <= max(values) + 1e-9


PAIRS = [(0.1, 0.3), (0.5, 0.4), (0.5, 0.9), (0.7, 0.7), (0.9, 0.9), (1.0, 0.8), (0.2, 0.1), (0.4, 0.6), (0.4, 0.2)]
PAIRS += [(0.8, 0.8), (0.6, 0.5), (0.3, 0.6)]


def test_spearman_is_that_of_scipy():
    # scipy 1.17.1: stats.spearmanr; the ends by numpy 2.4.6 from Bonett and Wright's formula
    found = spearman(PAIRS)
    assert found is not None
    assert found.value == pytest.approx(0.7336872080969778, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((0.19800783536832084, 0.9319045999962473), abs=1e-12)


def test_of_few_pairs_spearman_has_no_interval():
    enough = spearman(PAIRS[:10])
    assert enough is not None
    assert enough.low is not None
    found, falling = spearman(PAIRS[:6]), spearman([(1, 4), (2, 3), (3, 3), (4, 1)])
    assert found is not None
    assert falling is not None
    assert (found.value, found.low, found.high, found.n) == (pytest.approx(0.5735294117647058), None, None, 6)
    assert falling.value == pytest.approx(-0.9486832980505139)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_spearman_is_symmetric_and_follows_only_the_order(pairs: list[tuple[int, int]]):
    found = spearman(pairs)
    turned, stretched = spearman([(b, a) for a, b in pairs]), spearman([(a**3, 10 * b) for a, b in pairs])
    has_order = len({a for a, _ in pairs}) > 1 and len({b for _, b in pairs}) > 1
    assert (found is not None) == (turned is not None) == (stretched is not None) == has_order
    if found is None or turned is None or stretched is None:
        return
    assert found.value == pytest.approx(turned.value)
    assert found.value == pytest.approx(stretched.value)
    assert -1 <= found.value <= 1
    if found.low is not None and found.high is not None:
        assert -1 < found.low < found.value < found.high < 1


def test_a_perfect_order_has_no_interval():
    found = spearman([(number, number) for number in range(20)])
    assert found is not None
    assert (found.value, found.low, found.high) == (pytest.approx(1), None, None)


CLUSTERS = [(3, 3), (2, 3), (0, 3), (1, 3), (3, 3), (0, 3), (2, 2), (1, 2), (3, 3), (0, 1)]


def test_repeats_of_a_row_widen_the_interval_of_a_share():
    # statsmodels 0.15.0: the variance of OLS of a constant, fit(cov_type="cluster", use_correction=False), gives 13.197
    # effective values; the ends by stats.proportion.proportion_confint(method="wilson") of as many.
    found, as_if_independent = clustered_share(CLUSTERS), share(15, 26)
    assert found is not None
    assert as_if_independent is not None
    assert found.value == pytest.approx(15 / 26)
    assert (found.low, found.high) == pytest.approx((0.32435323961304185, 0.7948067988157878), abs=1e-9)
    assert found.low < as_if_independent.low < as_if_independent.high < found.high


@given(st.lists(st.booleans(), max_size=40))
def test_without_repeats_a_clustered_share_is_a_share(passes: list[bool]):
    assert clustered_share([(int(passed), 1) for passed in passes]) == share(sum(passes), len(passes))


@given(st.lists(st.integers(0, 3).flatmap(lambda whole: st.tuples(st.integers(0, whole), st.just(whole))), max_size=30))
def test_a_clustered_share_lies_within_its_interval(clusters: list[tuple[int, int]]):
    found = clustered_share(clusters)
    whole = sum(whole for _, whole in clusters)
    assert (found is None) == (whole == 0)
    if found is not None:
        assert found.value == pytest.approx(sum(part for part, _ in clusters) / whole)
        assert 0 <= found.low <= found.value <= found.high <= 1
        assert found.low < found.high


def test_repeats_that_all_say_the_same_count_as_one():
    assert clustered_share([(3, 3), (3, 3)]) == share(2, 2)
    found, rows = clustered_share([(3, 3), (0, 3), (3, 3)]), share(2, 3)
    assert found is not None
    assert rows is not None
    assert (found.value, found.low, found.high) == pytest.approx((rows.value, rows.low, rows.high))
    assert clustered_share([(3, 3)]) == share(1, 1)


# Bonett and Price's formula in numpy 2.4.6: rows that pass only in the first, only in the second, all; ends
PAIRED_SHARES = [
    (0, 5, 100, -0.000921416314404476, 0.09896063200067898),
    (0, 0, 50, -0.053303993244218376, 0.053303993244218376),
    (12, 3, 60, -0.2703937691209919, -0.019928811524169393),
    (1, 0, 1, -1.0, 0.7335359280789577),
    (9, 7, 40, -0.24508084040357628, 0.14984274516548104),
]


@pytest.mark.parametrize(("only_first", "only_second", "rows", "low", "high"), PAIRED_SHARES)
def test_the_difference_of_paired_shares_is_that_of_bonett_and_price(
    only_first: int, only_second: int, rows: int, low: float, high: float
):
    same = rows - only_first - only_second
    found = paired_share_difference([-1.0] * only_first + [1.0] * only_second + [0.0] * same)
    assert found is not None
    assert (found.value, found.n, found.clusters) == (pytest.approx((only_second - only_first) / rows), rows, rows)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1 / 3, 1.0]), max_size=40))
def test_turning_paired_shares_around_turns_their_difference_around(differences: list[float]):
    found, turned = paired_share_difference(differences), paired_share_difference([-each for each in differences])
    assert (found is None) == (turned is None) == (not differences)
    if found is None or turned is None or None in (found.low, found.high, turned.low, turned.high):
        return
    assert (turned.value, turned.low, turned.high) == pytest.approx((-found.value, -found.high, -found.low))
    assert -1 <= found.low <= found.value <= found.high <= 1
