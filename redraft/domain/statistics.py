"""Shares, agreement and their intervals. A figure that cannot be told is None, never NaN."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

Z_95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Kappa(Estimate):
    """Agreement beyond chance, from -1 to 1: 0 is what chance gives, 1 is perfect."""

    standard_error: float


def share(part: int, whole: int) -> Estimate | None:
    """A share with its Wilson interval; None of nothing."""
    if whole == 0:
        return None
    value = part / whole
    weight = Z_95**2 / whole
    middle = (value + weight / 2) / (1 + weight)
    half = Z_95 * sqrt(value * (1 - value) / whole + weight / (4 * whole)) / (1 + weight)
    return Estimate(value, min(value, max(0.0, middle - half)), max(value, min(1.0, middle + half)))


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
