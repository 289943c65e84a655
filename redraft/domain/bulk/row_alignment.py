"""Pair the rows of two runs, and order the pairs by the size of their change."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from redraft.domain.bulk.comparison import RowVerdict, verdicts_of
from redraft.domain.bulk.outcomes import SAME, ItemOutcome, by_row


class Change(IntEnum):
    """The change of a row from the baseline to the new run, in the order in which pages list the rows."""

    NEWLY_FAILING = 0
    VERDICT_LOST = 1
    NEWLY_PASSING = 2
    VERDICT_WON = 3
    LOWER = 4
    HIGHER = 5
    ONLY_IN_BASELINE = 6
    ONLY_IN_NEW = 7
    SAME = 8
    NO_VERDICT = 9

    @property
    def is_change(self) -> bool:
        """Whether the row is in both runs and has changed."""
        return self < Change.ONLY_IN_BASELINE

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class RowPair:
    """A row of two runs. A side without a verdict is None. `has_answer`: at least one run has an answer of the row."""

    custom_id: str
    change: Change
    baseline: RowVerdict | None
    new: RowVerdict | None
    has_answer: bool

    @property
    def difference(self) -> float | None:
        """The difference of the scores, new minus baseline."""
        if self.baseline is None or self.new is None or self.baseline.score is None or self.new.score is None:
            return None
        return self.new.score - self.baseline.score


def align(baseline: Sequence[ItemOutcome], new: Sequence[ItemOutcome], *others: Sequence[ItemOutcome]) -> list[RowPair]:
    """Return all rows of the runs, ordered by kind of change, size of change, and name.

    Rows that occur only in `others` get `NO_VERDICT`.
    """
    before, after = by_row(baseline), by_row(new)
    evaluated_before, evaluated_after = verdicts_of(before), verdicts_of(after)
    pairs: list[RowPair] = []
    for name in before.keys() | after.keys() | {item.custom_id for other in others for item in other}:
        old, fresh = evaluated_before.get(name), evaluated_after.get(name)
        change = _change(old, fresh)
        if (name in before) != (name in after):
            change = Change.ONLY_IN_BASELINE if name in before else Change.ONLY_IN_NEW
        has_answer = any(item.iterations for run in (before, after) for item in run.get(name, ()))
        pairs.append(RowPair(name, change, old, fresh, has_answer))
    return sorted(pairs, key=lambda pair: (pair.change, -abs(pair.difference or 0), pair.custom_id))


def _change(old: RowVerdict | None, new: RowVerdict | None) -> Change:
    if old is None:
        return Change.NO_VERDICT if new is None else Change.VERDICT_WON
    if new is None:
        return Change.VERDICT_LOST
    if old.passes != new.passes:
        return Change.NEWLY_PASSING if new.passes else Change.NEWLY_FAILING
    gain = 0.0 if old.score is None or new.score is None else new.score - old.score
    if abs(gain) <= SAME:
        return Change.SAME
    return Change.HIGHER if gain > 0 else Change.LOWER
