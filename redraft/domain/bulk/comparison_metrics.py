"""The main figures of a comparison of two runs, each with both values and their paired difference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from redraft.domain.bulk.comparison import Comparison, verdicts_of
from redraft.domain.bulk.outcomes import ItemOutcome, by_row, sum_costs
from redraft.domain.bulk.phrases import ROWS_NEEDED, SIGNIFICANT, count, direction_shown
from redraft.domain.statistics.bootstrap import mean_difference
from redraft.domain.statistics.estimates import Mean

Unit = Literal["share", "score", "usd", "seconds"]

# A difference of pass rates within this interval matters to few users
_SMALL = 0.05


@dataclass(frozen=True, slots=True)
class Metric:
    """A mean over the rows that have the figure in both runs, and the difference, new minus baseline."""

    name: str
    unit: Unit
    baseline: float
    new: float
    difference: Mean


def metrics_of(baseline: Sequence[ItemOutcome], new: Sequence[ItemOutcome], found: Comparison) -> tuple[Metric, ...]:
    """Return the pass rate, and a row's mean score, cost and time. A figure that no row has in both runs is missing."""
    before, after = by_row(baseline), by_row(new)
    old, fresh = verdicts_of(before), verdicts_of(after)
    shares = [(old[name].pass_share, fresh[name].pass_share) for name in sorted(old.keys() & fresh.keys())]
    scores = _pairs({name: each.score for name, each in old.items()}, {name: e.score for name, e in fresh.items()})
    made = [
        _metric("Pass rate", "share", shares, found.pass_rate),
        _metric("Mean score", "score", scores, found.score),
    ]
    measures: tuple[tuple[str, Unit, Callable[[ItemOutcome], float | None]], ...] = (
        ("Cost per job", "usd", lambda item: None if item.cost_usd is None else float(item.cost_usd)),
        ("Time per job", "seconds", lambda item: item.seconds),
    )
    for name, unit, measured in measures:
        both = _pairs(_means(before, measured), _means(after, measured))
        made.append(_metric(name, unit, both, mean_difference(both)))
    return tuple(each for each in made if each)


def _means(
    rows: Mapping[str, Sequence[ItemOutcome]], measured: Callable[[ItemOutcome], float | None]
) -> dict[str, float | None]:
    """Return the mean over the ended repeats of each row. The mean is None if one of these repeats has no figure."""
    found: dict[str, float | None] = {}
    for name, row in rows.items():
        values = [measured(item) for item in row if item.status in {"succeeded", "failed"}]
        known = [value for value in values if value is not None]
        found[name] = fsum(known) / len(known) if known and len(known) == len(values) else None
    return found


def _pairs(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> list[tuple[float, float]]:
    names = sorted(before.keys() & after.keys())
    pairs = [(before[name], after[name]) for name in names]
    return [(old, new) for old, new in pairs if old is not None and new is not None]


def _metric(name: str, unit: Unit, pairs: Sequence[tuple[float, float]], difference: Mean | None) -> Metric | None:
    if not pairs or difference is None:
        return None
    old, new = (fsum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
    return Metric(name, unit, old, new, difference)


def mean_cost(items: Sequence[ItemOutcome]) -> float | None:
    """Return the mean cost of the repeats of a row, or None if a cost is unknown."""
    total = sum_costs(item.cost_usd for item in items)
    return None if total is None or not items else float(total) / len(items)


def summarise(found: Comparison, new: str, baseline: str) -> str:
    """Say in one sentence whether the new run is better. An insignificant difference is never called equality."""
    if found.mcnemar_p is None or found.pass_rate is None:
        return f"{new} cannot be compared with {baseline}: no row has a verdict in both."
    rate = found.pass_rate
    passes = 0 if found.mcnemar_p >= SIGNIFICANT else 1 if rate.value > 0 else -1
    scores = {"higher": 1, "lower": -1, None: 0}[direction_shown(found.score)]
    if passes * scores < 0:
        words = f"{new} passes {'more' if passes > 0 else 'fewer'} rows than {baseline},"
        return f"{words} but its mean score moved in the other direction."
    if passes or scores:
        what = " and ".join(words for words, shown in (("pass rate", passes), ("mean score", scores)) if shown)
        return f"{new} is {'better' if passes + scores > 0 else 'worse'} than {baseline} by {what}."
    rows = count(found.n, "row")
    verb = "is" if found.n == 1 else "are"
    if found.n < ROWS_NEEDED or rate.low is None or rate.high is None or max(-rate.low, rate.high) > _SMALL:
        return f"{rows} {verb} too few to tell whether {new} is better or worse than {baseline}."
    return f"No difference between {new} and {baseline} is shown; a change of the pass rate above 5 points is unlikely."
