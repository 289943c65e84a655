"""Merge intervals of time that may overlap, and measure the time that they cover."""

from collections.abc import Iterable

Interval = tuple[float, float]


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals without overlaps that cover the same time, in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def covered(intervals: Iterable[Interval]) -> float:
    """Return the total time that the intervals cover. Overlaps count once."""
    return sum(end - start for start, end in merged(intervals))
