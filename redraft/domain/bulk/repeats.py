"""Measure how reliably the rows of a run pass when each row is repeated: pass@k, pass^k, and flaky rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb

from redraft.domain.bulk.outcomes import ItemOutcome, by_row
from redraft.domain.statistics.estimates import Estimate, clustered_share, share

# Reports show each k up to this number. Of the larger k, they show only the values of the next line and the largest
_ALL_UP_TO = 5
_LARGE_KS = (10, 20, 50)
_FLAKY_LISTED = 20


@dataclass(frozen=True, slots=True)
class PassAtK:
    """The chance that a row passes in at least one (pass@k) and in all (pass^k) of `k` repeats."""

    k: int
    rows: int  # The number of rows with at least `k` evaluated repeats, from which both chances are estimated
    pass_at_k: Estimate | None
    pass_hat_k: Estimate | None


@dataclass(frozen=True, slots=True)
class FlakyRow:
    """A row of which some repeats are accepted and others are not."""

    custom_id: str
    accepted: int
    evaluated: int
    lowest: float | None  # The lowest and the highest score of its repeats
    highest: float | None


@dataclass(frozen=True, slots=True)
class Repeats:
    """The rows with two or more evaluated repeats."""

    rows: int
    flaky: int
    flaky_share: Estimate | None
    by_k: tuple[PassAtK, ...]
    flaky_rows: tuple[FlakyRow, ...]  # At most 20 rows; those with nearly equal numbers of both verdicts come first


def measure_repeats(items: Iterable[ItemOutcome]) -> Repeats | None:
    """Return the figures of the rows with repeats, or None if no row has two evaluated repeats."""
    rows = by_row(item for item in items if item.has_verdict)
    repeated = {name: row for name, row in rows.items() if len(row) > 1}
    if not repeated:
        return None
    tallies = [(_accepted(row), len(row)) for row in repeated.values()]
    flaky = [_flaky_row(name, row) for name, row in repeated.items() if 0 < _accepted(row) < len(row)]
    flaky.sort(key=lambda row: (abs(row.accepted / row.evaluated - 0.5), row.custom_id))
    return Repeats(
        rows=len(repeated),
        flaky=len(flaky),
        flaky_share=share(len(flaky), len(repeated)),
        by_k=tuple(_pass_at(k, tallies) for k in _ks(max(evaluated for _, evaluated in tallies))),
        flaky_rows=tuple(flaky[:_FLAKY_LISTED]),
    )


def _accepted(row: Sequence[ItemOutcome]) -> int:
    return sum(item.is_accepted for item in row)


def _flaky_row(name: str, row: Sequence[ItemOutcome]) -> FlakyRow:
    scores = [item.final_score for item in row if item.final_score is not None]
    return FlakyRow(name, _accepted(row), len(row), min(scores, default=None), max(scores, default=None))


def _ks(most: int) -> list[int]:
    """Return the values of k to estimate. k = 1 is left out, because pass@1 and pass^1 are the pass rate."""
    return sorted({*range(2, min(most, _ALL_UP_TO) + 1), *(k for k in _LARGE_KS if k < most), most})


def _pass_at(k: int, tallies: Sequence[tuple[int, int]]) -> PassAtK:
    """Estimate pass@k and pass^k without bias, from all choices of k repeats (Chen et al. 2021; Yao et al. 2024).

    A row with n repeats has the weight n / k, the number of separate groups of k repeats. With these weights, the
    result for k = 1 is the pass rate.
    """
    usable = [(accepted, evaluated) for accepted, evaluated in tallies if evaluated >= k]
    some = [(1 - comb(n - passed, k) / comb(n, k), n / k) for passed, n in usable]
    every = [(comb(passed, k) / comb(n, k), n / k) for passed, n in usable]
    at, hat = (clustered_share([(chance * size, size) for chance, size in each]) for each in (some, every))
    return PassAtK(k, len(usable), at, hat)
