"""Pairs of rows of two runs, and their order."""

from hypothesis import given

from redraft.domain.bulk.comparison import compare
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.row_alignment import Change, align
from tests.domain.bulk.outcomes import RUNS, failed, looped


def test_rows_with_the_largest_change_come_first():
    old = [looped("a", 0.9), looped("b", 0.5), looped("c", 0.6), looped("d", 0.6), looped("e", 0.6), looped("f", 0.9)]
    new = [looped("a", 0.5), looped("b", 0.9), looped("c", 0.5), looped("d", 0.1), looped("e", 0.6), failed("f")]
    found = align([*old, failed("g"), failed("h")], [*new, looped("g", 0.1), failed("h"), looped("i", 0.9)])
    assert [(pair.custom_id, pair.change.words) for pair in found] == [
        ("a", "newly failing"),
        ("f", "verdict lost"),
        ("b", "newly passing"),
        ("g", "verdict won"),
        ("d", "lower"),
        ("c", "lower"),
        ("i", "only in new"),
        ("e", "same"),
        ("h", "no verdict"),
    ]
    assert [pair.custom_id for pair in found if pair.change.is_change] == ["a", "f", "b", "g", "d", "c"]
    assert [found[4].difference, found[1].difference] == [-0.5, None]


@given(RUNS, RUNS)
def test_rows_change_as_the_comparison_counts_them(old: list[ItemOutcome], new: list[ItemOutcome]):
    found, counted = align(old, new), compare(old, new)

    def named(change: Change) -> tuple[str, ...]:
        return tuple(sorted(pair.custom_id for pair in found if pair.change is change))

    assert named(Change.NEWLY_FAILING) == counted.newly_failing
    assert named(Change.NEWLY_PASSING) == counted.newly_passing
    assert named(Change.VERDICT_LOST) == counted.verdicts.lost
    assert named(Change.VERDICT_WON) == counted.verdicts.won
    assert named(Change.NO_VERDICT) == counted.verdicts.neither
    assert named(Change.ONLY_IN_BASELINE) == counted.only_in_baseline
    assert named(Change.ONLY_IN_NEW) == counted.only_in_new
