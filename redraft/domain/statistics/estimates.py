"""Shares, agreement, ranks, flips and their intervals. A figure that cannot be computed is None, never NaN."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import atanh, floor, fsum, sqrt, tanh
from statistics import NormalDist

Z_95 = NormalDist().inv_cdf(0.975)
RANKED_NEEDED = 10
"""Below this many pairs a correlation has no interval: its approximation is not to be trusted."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over rows, and the ends of its 95 % interval.

    Attributes:
        low: None, as `high`, where there are fewer than two clusters to resample. Where all clusters have the same
            mean both are the mean itself, which tells that there is no variation, not that there is no doubt.
        n: how many values.
        clusters: how many groups of values that belong together, such as the repeats of a row; without groups, as many
            as values.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int


@dataclass(frozen=True, slots=True)
class Kappa(Estimate):
    """Agreement beyond chance, from -1 to 1: 0 is what chance gives, 1 is perfect."""

    standard_error: float


def share(part: int, whole: int) -> Estimate | None:
    """A share with its Wilson interval; None of nothing."""
    if whole == 0:
        return None
    return _wilson(part / whole, whole)


def _wilson(value: float, whole: float) -> Estimate:
    weight = Z_95**2 / whole
    middle = (value + weight / 2) / (1 + weight)
    half = Z_95 * sqrt(value * (1 - value) / whole + weight / (4 * whole)) / (1 + weight)
    return Estimate(value, min(value, max(0.0, middle - half)), max(value, min(1.0, middle + half)))


def clustered_share(clusters: Sequence[tuple[int, int]]) -> Estimate | None:
    """A share over clusters, each (part, whole): the repeats of a row say less than as many rows.

    The Wilson interval of the effective number of values: that at which independent ones would vary as much as the
    clusters do (Kish 1965; Franco, Little, Louis and Slud 2019). With one value to a cluster, or repeats that all say
    the same, it is that of `share` over clusters.
    """
    counted = [(part, whole) for part, whole in clusters if whole]
    values = sum(whole for _, whole in counted)
    if values in (0, len(counted)):
        return share(sum(part for part, _ in counted), values)
    value = sum(part for part, _ in counted) / values
    variance = fsum((part - value * whole) ** 2 for part, whole in counted) / values**2
    # Without variation the correlation of repeats is unknown, so they count as fully correlated.
    effective = value * (1 - value) / variance if variance else len(counted)
    return _wilson(value, min(float(values), max(1.0, effective)))


def paired_share_difference(differences: Sequence[float]) -> Mean | None:
    """How much higher the second share is than the first, row by row; None of nothing.

    The interval is the adjusted Wald interval of Bonett and Price (2012): one imagined row that flips each way goes
    in. Unlike a bootstrap it is right for few flips, agrees with McNemar's test, and has a width where nothing flips.

    Args:
        differences: for each row the second less the first: -1, 0 or 1; between them where repeats were averaged, for
            which the same variance stands in.
    """
    rows = len(differences)
    if rows == 0:
        return None
    value = fsum(differences) / rows
    middle = fsum(differences) / (rows + 2)
    square = (fsum(each * each for each in differences) + 2) / (rows + 2)
    half = Z_95 * sqrt((square - middle**2) / (rows + 2))
    low, high = max(-1.0, middle - half), min(1.0, middle + half)
    return Mean(value, min(low, value), max(high, value), rows, rows)


def quantile(values: Sequence[float], at: float) -> float | None:
    """The value below which a share `at` (0 to 1) of the values lies; None of nothing.

    Between two values it is interpolated: definition 7 of Hyndman and Fan (1996), the default of numpy, pandas and R
    and the PERCENTILE.INC of spreadsheets.
    """
    return read_quantile(sorted(values), at) if values else None


def read_quantile(ordered: Sequence[float], at: float) -> float:
    """The `quantile` of values that are in order; of one at least."""
    place = at * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mcnemar_p(one_way: int, other_way: int) -> float:
    """The p-value of McNemar's exact test, two-sided: how often a fair coin is as lopsided as these flips are.

    Args:
        one_way: the pairs that pass only in the first.
        other_way: the pairs that pass only in the second. Those that are the same in both do not count.

    Returns:
        Above 0, at most 1; 1 without any flip. Where it is too small for a float it is the smallest normal one.
    """
    flips = one_way + other_way
    ways = tail = 1
    for heads in range(1, min(one_way, other_way) + 1):
        ways = ways * (flips - heads + 1) // heads
        tail += ways
    return max(sys.float_info.min, min(1.0, 2 * tail / 2**flips))


@dataclass(frozen=True, slots=True)
class Correlation:
    """How far two orders agree, from -1 to 1; the ends of the 95 % interval are None where it cannot be told."""

    value: float
    low: float | None
    high: float | None
    n: int


def spearman(pairs: Sequence[tuple[float, float]]) -> Correlation | None:
    """Spearman's rank correlation; ties share the mean of their ranks.

    The interval is that of Bonett and Wright (2000): Fisher's z with a variance of (1 + r² / 2) / (n - 3).

    Returns:
        None where one side has a single value: there is no order to agree on.
    """
    ranks = [_ranks([pair[side] for pair in pairs]) for side in (0, 1)]
    middle = (len(pairs) + 1) / 2
    first, second = ([rank - middle for rank in side] for side in ranks)
    spread = sqrt(fsum(x * x for x in first)) * sqrt(fsum(y * y for y in second))
    if spread == 0:
        return None
    value = max(-1.0, min(1.0, fsum(x * y for x, y in zip(first, second, strict=True)) / spread))
    if len(pairs) < RANKED_NEEDED or 1 - abs(value) < 1e-12:
        return Correlation(value, None, None, len(pairs))
    half = Z_95 * sqrt((1 + value**2 / 2) / (len(pairs) - 3))
    return Correlation(value, tanh(atanh(value) - half), tanh(atanh(value) + half), len(pairs))


def _ranks(values: Sequence[float]) -> list[float]:
    ranks = [0.0] * len(values)
    before = 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        places = list(group)
        for place in places:
            ranks[place] = before + (len(places) + 1) / 2
        before += len(places)
    return ranks


def cohens_kappa(table: Sequence[Sequence[int]]) -> Kappa | None:
    """Cohen's kappa of a square table of counts, one rater's categories in its rows, the other's in its columns.

    The interval rests on the asymptotic standard error of Fleiss, Cohen and Everitt (1969), and ends at -1 and 1.

    Returns:
        None where a rater has put everything into one category: there is no variation to agree on.
    """
    total = sum(map(sum, table))
    rows = [sum(row) for row in table]
    columns = [sum(column) for column in zip(*table, strict=True)]
    if total in (0, *rows, *columns):
        return None
    seen = [[count / total for count in row] for row in table]
    by_row, by_column = [n / total for n in rows], [n / total for n in columns]
    observed = sum(seen[i][i] for i in range(len(seen)))
    expected = sum(p * q for p, q in zip(by_row, by_column, strict=True))
    value = (observed - expected) / (1 - expected)
    error = sqrt(max(0.0, _spread(seen, by_row, by_column, value)) / total) / (1 - expected)
    half = Z_95 * error
    return Kappa(value, max(-1.0, value - half), min(1.0, value + half), error)


def _spread(
    seen: Sequence[Sequence[float]], by_row: Sequence[float], by_column: Sequence[float], kappa: float
) -> float:
    """The variance of kappa, times the count and the square of one minus the agreement by chance."""
    apart = 1 - kappa
    expected = sum(p * q for p, q in zip(by_row, by_column, strict=True))
    spread = -((kappa - expected * apart) ** 2)
    for i, row in enumerate(seen):
        for j, cell in enumerate(row):
            pull = (by_row[j] + by_column[i]) * apart
            spread += cell * ((1 - pull) ** 2 if i == j else pull**2)
    return spread


@dataclass(frozen=True, slots=True)
class Crossing:
    """Who passes what: how often a person and an evaluator agree, and which way they differ."""

    both_pass: int = 0
    only_evaluator_passes: int = 0
    only_person_passes: int = 0
    both_fail: int = 0

    @property
    def n(self) -> int:
        return self.both_pass + self.only_evaluator_passes + self.only_person_passes + self.both_fail

    @property
    def person_passes(self) -> int:
        return self.both_pass + self.only_person_passes

    @property
    def evaluator_passes(self) -> int:
        return self.both_pass + self.only_evaluator_passes

    @property
    def agreement(self) -> Estimate | None:
        return share(self.both_pass + self.both_fail, self.n)

    @property
    def kappa(self) -> Kappa | None:
        return cohens_kappa(
            [[self.both_pass, self.only_person_passes], [self.only_evaluator_passes, self.both_fail]],
        )

    @property
    def sensitivity(self) -> Estimate | None:
        """Of what the person passes, the share that the evaluator passes."""
        return share(self.both_pass, self.person_passes)

    @property
    def specificity(self) -> Estimate | None:
        """Of what the person fails, the share that the evaluator fails."""
        return share(self.both_fail, self.n - self.person_passes)
