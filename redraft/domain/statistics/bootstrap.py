"""Means and their bootstrap intervals, in plain Python, and fast enough for runs of many thousand rows.

The same values give the same interval, in whatever order they come: the seed is fixed and values are sorted first.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from random import Random
from typing import NamedTuple

from redraft.domain.statistics.estimates import Mean, read_quantile

DRAWS = 2000
SEED = 20261128

# Drawing how often a group comes up costs as much as drawing about this many clusters one by one.
_CLUSTERS_PER_COUNT = 120
# So many that what is left within each is some thousandths of the variance.
_GROUPS = 32
# So that 0.9 - 0.7 and 0.8 - 0.6 are one value.
_DIGITS = 12

_Total = tuple[float, int]


class _Group(NamedTuple):
    """Clusters that are drawn together.

    Attributes:
        times: how many they are.
        total: the sum of the values of one of them; of different ones, on average. `size` likewise: how many values.
        spread: the variance of what one of them adds to the deviation from the mean; 0 where all are the same.
    """

    times: int
    total: float
    size: float
    spread: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Clusters (pull, total, size), ordered by how much each pulls the mean, with the mean and variation of that."""

    clusters: Sequence[tuple[float, float, int]]
    mean: float
    deviation: float

    @classmethod
    def of(cls, clusters: Sequence[tuple[float, float, int]]) -> "_Part":
        mean = fsum(pull for pull, _, _ in clusters) / len(clusters)
        return cls(clusters, mean, fsum((pull - mean) ** 2 for pull, _, _ in clusters))

    def as_group(self) -> _Group:
        times = len(self.clusters)
        total, size = (fsum(each[at] for each in self.clusters) / times for at in (1, 2))
        return _Group(times, total, size, self.deviation / times)


def mean_of(
    values: Sequence[float], *, clusters: Sequence[Hashable] | None = None, seed: int = SEED, draws: int = DRAWS
) -> Mean | None:
    """The mean with its percentile bootstrap interval (Efron 1979); None of nothing.

    Whole clusters are drawn, with all their values, as many as there are (Davison and Hinkley 1997, 3.8); the mean is
    that of all values, so that a cluster counts by its size. With few clusters, below 20 or so, percentile intervals
    are too narrow (Hesterberg 2015): they hold the truth less often than 95 % of the time.

    Of some thousand clusters with many different values, those that are alike are drawn as a group by the mean of the
    group, and how far they differ from it as one normal deviate of the same variance: the time no longer grows with
    the number of rows, and the interval moves less than with another seed.

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
    """In order."""
    kinds = Counter(totals)
    if len(kinds) == 1:
        (total, size), *_ = kinds
        return [total / size]
    if len(kinds) * _CLUSTERS_PER_COUNT <= len(totals):
        groups = [_Group(count, total, size) for (total, size), count in kinds.items()]
    elif len(totals) >= _GROUPS * _CLUSTERS_PER_COUNT:
        groups = _neighbours(totals)
    else:
        groups = []
    draw = _by_groups(groups, rng) if groups else _one_by_one(totals, rng)
    return sorted(draw() for _ in range(draws))


def _one_by_one(totals: Sequence[_Total], rng: Random) -> Callable[[], float]:
    ordered = sorted(totals)
    if len({size for _, size in ordered}) == 1:
        sums = [total for total, _ in ordered]
        values = len(sums) * ordered[0][1]
        return lambda: sum(rng.choices(sums, k=len(sums))) / values
    # Sum and size in one number, so that `sum` adds both of them up.
    both = [complex(total, size) for total, size in ordered]

    def draw() -> float:
        drawn = sum(rng.choices(both, k=len(both)))
        return drawn.real / drawn.imag

    return draw


def _neighbours(totals: Sequence[_Total]) -> list[_Group]:
    """Groups of clusters that pull the mean about as much; what they differ by is their `spread`.

    The group that varies most is split at its mean, again and again, so that the few far out are not lost in a crowd.
    """
    mean = fsum(total for total, _ in totals) / sum(size for _, size in totals)
    parts = [_Part.of(sorted((total - mean * size, total, size) for total, size in totals))]
    while len(parts) < _GROUPS:
        widest = max(parts, key=lambda part: part.deviation)
        if widest.deviation == 0:
            break
        parts.remove(widest)
        pulls = [pull for pull, _, _ in widest.clusters]
        cut = bisect_right(pulls, widest.mean, lo=1, hi=len(pulls) - 1)
        parts += (_Part.of(widest.clusters[:cut]), _Part.of(widest.clusters[cut:]))
    return [part.as_group() for part in parts]


def _by_groups(groups: Sequence[_Group], rng: Random) -> Callable[[], float]:
    """Draws how often each group comes up: a multinomial, as a chain of binomials, the likely ones first."""
    clusters = left_over = sum(group.times for group in groups)
    chain: list[tuple[_Group, float]] = []
    for group in sorted(groups, key=lambda group: (-group.times, group)):
        chain.append((group, group.times / left_over))
        left_over -= group.times

    def draw() -> float:
        left, total, size, spread = clusters, 0.0, 0.0, 0.0
        for group, chance in chain:
            times = binomial(rng, left, chance)
            total += times * group.total
            size += times * group.size
            spread += times * group.spread
            left -= times
        return (total + rng.gauss(0, sqrt(spread)) if spread else total) / size

    return draw


def binomial(rng: Random, tries: int, chance: float) -> int:
    """How many of a number of tries succeed, each with a chance of 0 to 1.

    Each try compares a random binary fraction with the chance, bit by bit, until they differ: all tries at once, a
    random integer holding the next bit of each that is still undecided.
    """
    successes = 0
    while tries and chance > 0:
        chance *= 2
        zeros = rng.getrandbits(tries).bit_count()  # a bit set stands for a 0: as likely as not
        if chance >= 1:
            chance -= 1
            successes += zeros
            tries -= zeros
        else:
            tries = zeros
    return successes
