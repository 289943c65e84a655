"""Shares, agreement, rank correlation and their intervals. A figure that cannot be computed is None, never NaN."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import atanh, floor, fsum, sqrt, tanh
from statistics import NormalDist

Z_95 = NormalDist().inv_cdf(0.975)
# The interval of a correlation is an approximation, which is unreliable below this number of pairs.
RANKED_NEEDED = 10


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with the ends of its 95 % interval.

    Attributes:
        low: None, like `high`, for fewer than two clusters. If all clusters have the same mean, both ends equal it,
            which shows that nothing varies, not that the mean is certain.
        n: the number of values.
        clusters: the number of groups of related values, such as the repeats of a row. If there are no groups, this is
            equal to `n`.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    clusters: int


@dataclass(frozen=True, slots=True)
class Kappa(Estimate):
    """Agreement beyond chance, from -1 to 1: 0 is the agreement by chance, 1 is perfect."""

    standard_error: float


def share(part: float, whole: float) -> Estimate | None:
    """Return a share with its Wilson interval, or None if `whole` is 0."""
    return _wilson(part / whole, whole) if whole else None


def _wilson(value: float, whole: float) -> Estimate:
    weight = Z_95**2 / whole
    middle = (value + weight / 2) / (1 + weight)
    half = Z_95 * sqrt(value * (1 - value) / whole + weight / (4 * whole)) / (1 + weight)
    return Estimate(value, min(value, max(0.0, middle - half)), max(value, min(1.0, middle + half)))


def clustered_share(clusters: Sequence[tuple[float, float]]) -> Estimate | None:
    """Return a share over clusters, each (part, whole).

    A whole may be a fraction, because it can be an effective number of values.

    Repeats of a row carry less information than the same number of different rows.

    The interval is the Wilson interval for the effective sample size: the number of independent values that would vary
    as much as the clusters do (Kish 1965; Franco, Little, Louis and Slud 2019). If each cluster has one value, or if
    the values within each cluster are equal, the interval is that of `share` with each cluster counted as one value.
    """
    counted = [(part, whole) for part, whole in clusters if whole]
    values = sum(whole for _, whole in counted)
    if values in (0, len(counted)):
        return share(sum(part for part, _ in counted), values)
    value = sum(part for part, _ in counted) / values
    variance = fsum((part - value * whole) ** 2 for part, whole in counted) / values**2
    # The correlation of repeats is unknown if they do not vary, so they count as fully correlated.
    effective = value * (1 - value) / variance if variance else len(counted)
    return _wilson(value, min(float(values), max(1.0, effective)))


def paired_share_difference(differences: Sequence[float]) -> Mean | None:
    """Return the mean paired difference of two shares, or None without rows.

    The interval is the adjusted Wald interval of Bonett and Price (2012), which adds one imagined flip in each
    direction. A flip is a row that passes in only one of the two runs. Unlike a bootstrap interval, this interval is
    right for few flips, agrees with McNemar's test, and has a width even without any flip.

    Args:
        differences: for each row the second value minus the first: -1, 0 or 1, or between them for averaged repeats.
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
    """Return the quantile at `at` (0 to 1), or None without values.

    It interpolates between two values: definition 7 of Hyndman and Fan (1996), which is the default of numpy, pandas
    and R, and PERCENTILE.INC in spreadsheets.
    """
    return read_quantile(sorted(values), at) if values else None


def read_quantile(ordered: Sequence[float], at: float) -> float:
    """Return the `quantile` of sorted values; there must be at least one."""
    place = at * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mcnemar_p(one_way: int, other_way: int) -> float:
    """Return the two-sided p-value of McNemar's exact test, from the numbers of pairs that pass in only one run.

    The result is never below the smallest normal float, so that it does not underflow to 0.
    """
    flips = one_way + other_way
    ways = tail = 1
    for heads in range(1, min(one_way, other_way) + 1):
        ways = ways * (flips - heads + 1) // heads
        tail += ways
    return max(sys.float_info.min, min(1.0, 2 * tail / 2**flips))


@dataclass(frozen=True, slots=True)
class Correlation:
    """A rank correlation from -1 to 1. Its 95 % interval is None for few pairs and for a value of 1 or -1."""

    value: float
    low: float | None
    high: float | None
    n: int


def spearman(pairs: Sequence[tuple[float, float]]) -> Correlation | None:
    """Return Spearman's rank correlation, or None if all values of one side are equal. Ties share their mean rank.

    The interval is that of Bonett and Wright (2000): Fisher's z with a variance of (1 + r² / 2) / (n - 3).
    """
    ranks = [_ranks([pair[side] for pair in pairs]) for side in (0, 1)]
    middle = (len(pairs) + 1) / 2
    first, second = ([rank - middle for rank in side] for side in ranks)
    spread = sqrt(fsum(x * x for x in first)) * sqrt(fsum(y * y for y in second))
    if spread == 0:
        return None
    value = max(-1.0, min(1.0, fsum(x * y for x, y in zip(first, second, strict=True)) / spread))
    # Fisher's z of 1 and -1 is infinite.
    if len(pairs) < RANKED_NEEDED or 1 - abs(value) < 1e-12:
        return Correlation(value, None, None, len(pairs))
    half = Z_95 * sqrt((1 + value**2 / 2) / (len(pairs) - 3))
    return Correlation(value, tanh(atanh(value) - half), tanh(atanh(value) + half), len(pairs))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in values]


def cohens_kappa(table: Sequence[Sequence[int]]) -> Kappa | None:
    """Return Cohen's kappa of a square table of counts, or None if a rater has used a single category.

    The rows are the categories of one rater, the columns those of the other. The interval uses the asymptotic standard
    error of Fleiss, Cohen and Everitt (1969).
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
    """Return the variance of kappa, multiplied by the count and by (1 - agreement by chance) squared."""
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
    """A table of two verdicts: the number of answers that a person and an evaluator pass or fail."""

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
        return cohens_kappa([[self.both_pass, self.only_person_passes], [self.only_evaluator_passes, self.both_fail]])

    @property
    def sensitivity(self) -> Estimate | None:
        """Of the answers that the person passes, the share that the evaluator also passes."""
        return share(self.both_pass, self.person_passes)

    @property
    def specificity(self) -> Estimate | None:
        """Of the answers that the person fails, the share that the evaluator also fails."""
        return share(self.both_fail, self.n - self.person_passes)
