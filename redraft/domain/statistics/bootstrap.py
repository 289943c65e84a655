"""Means and their bootstrap intervals, in plain Python.

The same values give the same interval, in whatever order they come: the seed is fixed and values are sorted first.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import fsum, hypot
from random import Random

from redraft.domain.statistics.estimates import Mean, read_quantile

DRAWS = 2000
SEED = 20261128
CLUSTERS_DRAWN_MAX = 1000
"""Of more clusters the interval is the normal one: the two hardly differ there, and draws would take seconds."""

_NORMAL_QUANTILE = 1.959964
# So that 0.9 - 0.7 and 0.8 - 0.6 are one value.
_DIGITS = 12

_Total = tuple[float, int]


def mean_of(
    values: Sequence[float], *, clusters: Sequence[Hashable] | None = None, seed: int = SEED, draws: int = DRAWS
) -> Mean | None:
    """Return the mean with its percentile bootstrap interval (Efron 1979), or None without values.

    Whole clusters are drawn, with all their values, as many as there are (Davison and Hinkley 1997, 3.8); the mean is
    that of all values, so that a cluster counts by its size. With few clusters, below 20 or so, percentile intervals
    are too narrow (Hesterberg 2015): they hold the truth less often than 95 % of the time.

    Args:
        values: finite.
        clusters: what each value belongs to, such as the row that it is a repeat of.
        seed: of the draws.
        draws: how many resampled means the interval is read from.
    """
    if not values:
        return None
    totals = _totals(values, clusters)
    value = fsum(values) / len(values)
    if len(totals) < 2:
        return Mean(value, None, None, len(values), len(totals))
    if len(totals) > CLUSTERS_DRAWN_MAX:
        margin = _NORMAL_QUANTILE * hypot(*sorted(total - value * size for total, size in totals)) / len(values)
        low, high = max(value - margin, min(values)), min(value + margin, max(values))
        return Mean(value, low, high, len(values), len(totals))
    means = _resampled_means(totals, Random(seed), draws)  # noqa: S311  # not for secrets
    low, high = (read_quantile(means, at) for at in (0.025, 0.975))
    return Mean(value, min(low, value), max(high, value), len(values), len(totals))


def mean_difference(
    pairs: Sequence[tuple[float, float]],
    *,
    clusters: Sequence[Hashable] | None = None,
    seed: int = SEED,
    draws: int = DRAWS,
) -> Mean | None:
    """The mean of the second less the first, pair by pair, with the interval of `mean_of`; None of nothing."""
    return mean_of([after - before for before, after in pairs], clusters=clusters, seed=seed, draws=draws)


def _totals(values: Sequence[float], clusters: Sequence[Hashable] | None) -> list[_Total]:
    """Each cluster's sum and size."""
    if clusters is None:
        return [(round(value, _DIGITS), 1) for value in values]
    grouped: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        grouped[cluster].append(value)
    return [(round(fsum(group), _DIGITS), len(group)) for group in grouped.values()]


def _resampled_means(totals: Sequence[_Total], rng: Random, draws: int) -> list[float]:
    """The means of resampled clusters, in ascending order."""
    # Sorted, so that the same values draw the same means in any order.
    ordered = sorted(totals)
    if ordered[0] == ordered[-1]:
        return [ordered[0][0] / ordered[0][1]]
    # Sum and size in one number, so that `sum` adds up both of them in C.
    both = [complex(total, size) for total, size in ordered]
    drawn = (sum(rng.choices(both, k=len(both))) for _ in range(draws))
    return sorted(each.real / each.imag for each in drawn)
