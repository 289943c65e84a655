"""Bootstrap intervals, checked against scipy, against all possible resamples, and against each other."""

import math
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redraft.domain.statistics.bootstrap import mean_difference, mean_of
from redraft.domain.statistics.estimates import Mean, quantile

VALUES = st.lists(st.integers(0, 20).map(lambda score: score / 20), max_size=40)


def ends(mean: Mean | None) -> tuple[float, float]:
    assert mean is not None
    assert mean.low is not None
    assert mean.high is not None
    return mean.low, mean.high


def drawn(seed: int, count: int, digits: int = 2) -> list[float]:
    rng = Random(seed)
    return [round(rng.betavariate(4, 2), digits) for _ in range(count)]


# scipy 1.17.1: stats.bootstrap((values,), numpy.mean, n_resamples=200000, method="percentile")
SCIPY_BOOTSTRAPS = [
    (drawn(5, 80), 0.6575, 0.618, 0.696875),
    ([0.0] * 30 + [0.5] * 5 + [1.0] * 5, 0.1875, 0.0875, 0.3),
]


@pytest.mark.parametrize(("values", "value", "low", "high"), SCIPY_BOOTSTRAPS)
def test_the_interval_is_that_of_scipy(values: list[float], value: float, low: float, high: float):
    found = mean_of(values, draws=20_000)
    assert found is not None
    assert (found.value, found.n, found.clusters) == (pytest.approx(value), len(values), len(values))
    # A percentile of 20,000 draws strays by about 0.02 standard errors; an interval is four of these wide.
    assert ends(found) == pytest.approx((low, high), abs=0.02 * (high - low))


def assert_exact(found: Mean | None, totals: list[tuple[float, int]]) -> None:
    """Among the means of all resamples there are, each as likely as another, the ends stand where they should.

    A percentile of 20,000 draws strays by 0.0011 in rank; between ranks so near the few means there are may jump.
    """
    low, high = ends(found)
    means = [sum(t for t, _ in each) / sum(s for _, s in each) for each in product(totals, repeat=len(totals))]
    bounds = [quantile(means, at) for at in (0.021, 0.029, 0.971, 0.979)]
    assert None not in bounds
    assert bounds[0] - 1e-9 <= low <= bounds[1] + 1e-9
    assert bounds[2] - 1e-9 <= high <= bounds[3] + 1e-9


def test_the_interval_is_that_of_all_resamples_there_are():
    values = [0.1, 0.35, 0.4, 0.75, 0.8, 1.0]
    assert_exact(mean_of(values, draws=20_000), [(value, 1) for value in values])


def test_clusters_are_drawn_whole():
    groups = {"a": [0.1, 0.2, 0.15], "b": [0.9], "c": [0.5, 0.7], "d": [0.95, 0.8, 0.9], "e": [0.3, 0.4]}
    values = [value for group in groups.values() for value in group]
    clusters = [name for name, group in groups.items() for _ in group]
    found = mean_of(values, clusters=clusters, draws=20_000)
    assert found is not None
    assert (found.value, found.n, found.clusters) == (pytest.approx(sum(values) / 11), 11, 5)
    assert_exact(found, [(sum(group), len(group)) for group in groups.values()])


def test_repeats_of_a_row_widen_the_interval():
    values = [value for value in drawn(1, 60) for _ in range(3)]
    rows = [number // 3 for number in range(180)]
    low, high = ends(mean_of(values, clusters=rows))
    low_alone, high_alone = ends(mean_of(values))
    assert high - low == pytest.approx((high_alone - low_alone) * math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("digits", [1, 15], ids=["few values", "many values"])
@pytest.mark.parametrize("repeats", [1, 3])
def test_of_many_rows_the_interval_is_that_of_the_normal_distribution(digits: int, repeats: int):
    rows = drawn(9, 4800, digits)
    values = [value for value in rows for _ in range(repeats)]
    mean = sum(rows) / len(rows)
    error = math.sqrt(sum((value - mean) ** 2 for value in rows)) / len(rows)
    found = mean_of(values, clusters=[number // repeats for number in range(len(values))])
    assert ends(found) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=0.2 * error)


def test_the_interval_of_many_rows_lies_among_their_values_in_any_order():
    values = [0.0, *[1.0] * 2000]
    low, high = ends(mean_of(values))
    assert 0.997 < low < 2000 / 2001 < high == 1
    assert mean_of(values) == mean_of(values[::-1])


def test_clusters_of_many_sizes_are_drawn_whole_in_long_runs_too():
    rng = Random(4)
    rows = [[rng.random() * (size > 1)] * size for size in (1, 2, 3) for _ in range(1600)]
    values = [value for row in rows for value in row]
    mean = sum(values) / len(values)
    pulls = [sum(row) - mean * len(row) for row in rows]
    error = math.sqrt(sum(pull**2 for pull in pulls)) / len(values)
    found = mean_of(values, clusters=[number for number, row in enumerate(rows) for _ in row])
    assert ends(found) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=0.2 * error)


def test_rows_of_many_sizes_without_variation_have_no_width():
    sizes = [number % 40 + 1 for number in range(4000)]
    rows = [number for number, size in enumerate(sizes) for _ in range(size)]
    found = mean_of([0.5] * len(rows), clusters=rows, draws=20)
    assert found == Mean(0.5, 0.5, 0.5, len(rows), 4000)


@given(VALUES, st.data())
def test_the_interval_holds_the_mean_and_lies_among_the_values(values: list[float], data: st.DataObject):
    rows = data.draw(st.lists(st.integers(0, 8), min_size=len(values), max_size=len(values)))
    found = mean_of(values, clusters=rows, draws=20)
    assert (found is None) == (not values)
    if found is None:
        return
    assert (found.low is None) == (found.high is None) == (len(set(rows)) < 2)
    if found.low is not None and found.high is not None:
        assert min(values) - 1e-9 <= found.low <= found.value <= found.high <= max(values) + 1e-9


@given(VALUES, st.randoms(use_true_random=False))
def test_the_same_values_give_the_same_interval_in_any_order(values: list[float], rng: Random):
    shuffled = rng.sample(values, len(values))
    assert mean_of(values, draws=20) == mean_of(shuffled, draws=20)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=40))
def test_turning_pairs_around_turns_the_difference_around(pairs: list[tuple[int, int]]):
    found, turned = mean_difference(pairs, draws=20), mean_difference([(b, a) for a, b in pairs], draws=20)
    assert (found is None) == (turned is None) == (not pairs)
    if found is not None and turned is not None:
        assert turned.value == -found.value


def test_turning_pairs_around_turns_their_interval_around():
    pairs = list(zip(drawn(1, 60), drawn(2, 60), strict=True))
    low, high = ends(mean_difference(pairs, draws=20_000))
    turned = ends(mean_difference([(b, a) for a, b in pairs], draws=20_000))
    assert turned == pytest.approx((-high, -low), abs=0.03 * (high - low))


def test_equal_values_give_an_interval_without_width_and_one_row_gives_none():
    assert mean_of([0.7] * 5) == Mean(0.7, 0.7, 0.7, 5, 5)
    assert mean_of([0.7]) == Mean(0.7, None, None, 1, 1)
    assert mean_of([0.5, 1.0], clusters=["a", "a"]) == Mean(0.75, None, None, 2, 1)
    assert mean_of([]) is None
    assert mean_difference([]) is None
