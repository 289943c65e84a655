"""Means with bootstrap intervals.

The same values give the same interval in any order, because the seed is fixed and the values are sorted first.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import fsum, hypot
from random import Random

from redraft.domain.statistics.estimates import Z_95, Mean, read_quantile

DRAWS = 2000
SEED = 20261128
# Above this number of clusters, the normal interval hardly differs, and resampling would take seconds.
CLUSTERS_DRAWN_MAX = 1000

# Rounding makes 0.9 - 0.7 and 0.8 - 0.6 the same value.
_DIGITS = 12

_Total = tuple[float, int]


def mean_of(values: Sequence[float], *, clusters: Sequence[Hashable] | None = None, draws: int = DRAWS) -> Mean | None:
    """Return the mean with its percentile bootstrap interval (Efron 1979), or None without values.

    The bootstrap draws whole clusters with all their values (Davison and Hinkley 1997, 3.8). The mean is taken over all
    values, so a larger cluster has more weight. With fewer than about 20 clusters a percentile interval is too narrow
    (Hesterberg 2015): it contains the true mean in less than 95 % of the cases.

    Args:
        values: finite numbers.
        clusters: the group of each value, such as the row that it is a repeat of.
        draws: the number of resampled means.
    """
    if not values:
        return None
    totals = _totals(values, clusters)
    value = fsum(values) / len(values)
    if len(totals) < 2:
        return Mean(value, None, None, len(values), len(totals))
    if len(totals) > CLUSTERS_DRAWN_MAX:
        margin = Z_95 * hypot(*sorted(total - value * size for total, size in totals)) / len(values)
        low, high = max(value - margin, min(values)), min(value + margin, max(values))
    else:
        means = _resampled_means(totals, draws)
        low, high = min(read_quantile(means, 0.025), value), max(read_quantile(means, 0.975), value)
    return Mean(value, low, high, len(values), len(totals))


def mean_difference(
    pairs: Sequence[tuple[float, float]], *, clusters: Sequence[Hashable] | None = None, draws: int = DRAWS
) -> Mean | None:
    """Return the mean of (second - first) over the pairs with the interval of `mean_of`, or None without pairs."""
    return mean_of([after - before for before, after in pairs], clusters=clusters, draws=draws)


def _totals(values: Sequence[float], clusters: Sequence[Hashable] | None) -> list[_Total]:
    """Return the sum and the size of each cluster."""
    grouped: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, range(len(values)) if clusters is None else clusters, strict=True):
        grouped[cluster].append(value)
    return [(round(fsum(group), _DIGITS), len(group)) for group in grouped.values()]


def _resampled_means(totals: Sequence[_Total], draws: int) -> list[float]:
    """Return the means of resampled clusters in ascending order."""
    # The totals are sorted, so that the same values give the same means in any order.
    ordered = sorted(totals)
    if ordered[0] == ordered[-1]:
        return [ordered[0][0] / ordered[0][1]]
    rng = Random(SEED)  # noqa: S311 - not for secrets
    # Each complex number holds a sum and a size, so that one fast `sum` adds up both.
    both = [complex(total, size) for total, size in ordered]
    drawn = (sum(rng.choices(both, k=len(both))) for _ in range(draws))
    return sorted(each.real / each.imag for each in drawn)
