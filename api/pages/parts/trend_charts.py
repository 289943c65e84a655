"""Draws small charts of figures over time, as bars or as points, for pages that also have the figures as a table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from markupsafe import Markup

from redraft.reports.svg import WIDTH, Plot, label, line, picture, tag, ticks_to

_HEIGHT = 170
_PARTS = [0, 0.25, 0.5, 0.75, 1.0]
# The width of a label below the axis. Labels of columns that are closer are left out
_LABEL_WIDTH = 44


@dataclass(frozen=True, slots=True)
class Column:
    """The figures of one place on the axis.

    Attributes:
        name: the words for the place, such as an hour, which also stand below the axis.
        words: the figures in words, shown when a pointer is over the column.
        values: the figures by CSS class, from the bottom up. A class without a figure is missing.
        note: a short text at the axis, which says why a figure is missing.
    """

    name: str
    words: str
    values: Mapping[str, float]
    note: str = ""


def draw_bars(
    key: str, title: str, columns: Sequence[Column], say: Callable[[float], str], *, is_whole: bool = False
) -> Markup:
    """Draw a stacked bar of the figures of each column. With `is_whole`, only whole numbers get a tick."""
    largest = max(sum(column.values.values()) for column in columns)
    ticks = [tick for tick in ticks_to(largest) if not is_whole or tick == int(tick)]
    plot = _plot(columns, y_max=max(ticks[-1], largest))
    width = (plot.right - plot.left) / len(columns) * 0.7
    bars = [_bar(plot, at, width, column) for at, column in enumerate(columns)]
    return _picture(key, title, plot, columns, plot.rows(ticks, say), bars)


def _bar(plot: Plot, at: int, width: float, column: Column) -> Markup:
    # The whole bar is drawn first, and each smaller one covers the lower part of it
    heights = list(zip(column.values, accumulate(column.values.values()), strict=True))
    bars = (plot.bar(plot.x(at), width, height, class_) for class_, height in reversed(heights) if height)
    return tag("g", tag("title", f"{column.name}: {column.words}"), *bars)


def draw_shares(key: str, title: str, columns: Sequence[Column], class_: str) -> Markup:
    """Draw a point for the share (0 to 1) of each column. No line crosses a column without a share."""
    plot = _plot(columns, y_max=1)
    values = [column.values.get(class_) for column in columns]
    marks = [
        line(plot.x(at), plot.y(low), plot.x(at + 1), plot.y(high), f"course {class_}")
        for at, (low, high) in enumerate(pairwise(values))
        if low is not None and high is not None
    ]
    for at, (column, value) in enumerate(zip(columns, values, strict=True)):
        if value is not None:
            words = tag("title", f"{column.name}: {column.words}")
            marks.append(tag("circle", words, cx=plot.x(at), cy=plot.y(value), r=3.5, class_=class_))
    return _picture(key, title, plot, columns, plot.rows(_PARTS, lambda tick: f"{tick:.0%}"), marks)


def _plot(columns: Sequence[Column], y_max: float) -> Plot:
    return Plot(x_min=-0.5, x_max=len(columns) - 0.5, y_max=y_max, height=_HEIGHT, left=60)


def _picture(
    key: str, title: str, plot: Plot, columns: Sequence[Column], rows: Sequence[Markup], marks: Sequence[Markup]
) -> Markup:
    description = f"{columns[0].name} to {columns[-1].name}; last: {columns[-1].words}. A table has all figures."
    return picture(key, title, description, *rows, *marks, *_names(plot, columns), height=_HEIGHT)


def _names(plot: Plot, columns: Sequence[Column]) -> Iterator[Markup]:
    step = -(-_LABEL_WIDTH * len(columns) // (WIDTH - plot.left))
    for at, column in enumerate(columns):
        # Counted from the end, so that the latest column has its name
        if (len(columns) - 1 - at) % step == 0:
            yield label(column.name, plot.x(at), plot.bottom + 16)
        if column.note:
            yield label(column.note, plot.x(at), plot.bottom - 4)
