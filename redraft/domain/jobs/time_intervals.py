"""Intervals of time that may overlap."""

from collections.abc import Iterable

Interval = tuple[float, float]


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge intervals into ones that do not overlap, in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def covered(intervals: Iterable[Interval]) -> float:
    """Sum up the time that the intervals cover. Overlaps count once."""
    return sum(end - start for start, end in merged(intervals))
