"""Draws the pictures of a report: scores, pass rates, costs, first and returned scores, differences."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from markupsafe import Markup

from redraft.domain.bulk.comparison import Comparison
from redraft.domain.bulk.outcomes import SAME, ItemOutcome
from redraft.domain.bulk.phrases import count, percent
from redraft.domain.bulk.run_statistics import Bin
from redraft.domain.bulk.uplift import IterationYield
from redraft.domain.statistics.estimates import Mean
from redraft.reports.svg import WIDTH, Plot, label, line, picture, tag, ticks_to
from redraft.reports.wording import change, points, price

# Above this number of dots the page is slow, so scores are rounded to a coarser grid
_SPOTS_MAX = 600
_GRIDS = (1000, 50, 20)
_SMALLEST_SPOT, _LARGEST_SPOT = 2.5, 11.0
_HALF_CHAR = 4  # At least half the width of a character of a value
_TENTHS = [at / 5 for at in range(6)]


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with its caption and a legend of (class, meaning)."""

    drawing: Markup
    caption: str
    legend: tuple[tuple[str, str], ...] = ()


def draw_scores(first: Sequence[Bin], final: Sequence[Bin], threshold: float | None) -> Picture | None:
    """Draw a histogram of the scores of first and returned answers. Return None without scores."""
    largest = max((each.count for each in (*first, *final)), default=0)
    if not largest:
        return None
    # Numbers of items are integers, so ticks that are not integers are left out. The last tick can then be below the
    # largest bar
    ticks = [tick for tick in ticks_to(largest) if tick == int(tick)]
    plot = Plot(y_max=max(ticks[-1], largest))
    width = (plot.right - plot.left) / len(first) * 0.4
    bars = [
        plot.bar(plot.x((each.low + each.high) / 2) + side * width / 2, width, each.count, class_)
        for bins, side, class_ in ((first, -1, "first"), (final, 1, "returned"))
        for each in bins
        if each.count
    ]
    drawing = picture(
        "scores",
        "Distribution of the scores",
        f"Histogram of the scores of first and returned answers in {len(first)} bins from 0 to 1.",
        *plot.rows(ticks, lambda tick: f"{tick:,.0f}"),
        *bars,
        *_threshold(plot, threshold),
        *_tenths(plot),
        plot.name_x("score"),
    )
    return Picture(drawing, "Items by score.", (("first", "first answer"), ("returned", "returned answer")))


def _tenths(plot: Plot) -> list[Markup]:
    return [label(f"{tick:g}", plot.x(tick), plot.bottom + 16) for tick in _TENTHS]


def _threshold(plot: Plot, threshold: float | None) -> list[Markup]:
    if threshold is None:
        return []
    at = plot.x(threshold)
    return [
        line(at, plot.top, at, plot.bottom, "threshold"),
        # Beside a low threshold, a label on the left would leave the picture
        label(f"threshold {threshold:g}", at, plot.top - 14, "end" if threshold > 0.3 else "start"),
    ]


def draw_pass_rates(yields: Sequence[IterationYield]) -> Picture | None:
    """Draw the share of items accepted by each iteration, with its interval. Return None without iterations."""
    if not yields:
        return None
    plot = Plot(x_min=0.5, x_max=len(yields) + 0.5)
    parts: list[Markup] = []
    for each in yields:
        middle, rate = plot.x(each.number), each.pass_rate
        if rate is not None:
            parts.append(plot.bar(middle, _width(plot, yields), rate.value, "returned"))
            parts.append(line(middle, plot.y(rate.low), middle, plot.y(rate.high), "whisker"))
            parts.append(label(percent(rate.value), middle, plot.y(rate.high) - 5, class_="value"))
    drawing = picture(
        "pass-rates",
        "Pass rate by iteration",
        f"The share of items accepted in each of {count(len(yields), 'iteration')} or before, with 95 % intervals.",
        *plot.rows([0, 0.25, 0.5, 0.75, 1], lambda tick: f"{tick:.0%}"),
        *parts,
        *_numbers(plot, yields),
    )
    return Picture(drawing, "Accepted in this iteration or before, of all evaluated items, with the 95 % interval.")


def _width(plot: Plot, yields: Sequence[IterationYield]) -> float:
    return min(64.0, (plot.right - plot.left) / len(yields) * 0.6)


def _numbers(plot: Plot, yields: Sequence[IterationYield]) -> list[Markup]:
    names = [label(str(each.number), plot.x(each.number), plot.bottom + 16) for each in yields]
    return [*names, plot.name_x("iteration")]


def draw_costs(yields: Sequence[IterationYield]) -> Picture | None:
    """Draw the cost per newly accepted answer of each iteration. Return None if no such cost is known or above 0."""
    known = {each.number: each.cost_per_accepted_usd for each in yields if each.cost_per_accepted_usd is not None}
    if not any(known.values()):
        return None
    ticks = ticks_to(float(max(known.values())))
    # The axis is a little longer than the highest bar, because that bar has a label above it
    plot = Plot(x_min=0.5, x_max=len(yields) + 0.5, y_max=ticks[-1] * 1.08, left=64)
    parts: list[Markup] = []
    for each in yields:
        middle, cost = plot.x(each.number), known.get(each.number)
        if cost is not None:
            parts.append(plot.bar(middle, _width(plot, yields), float(cost), "cost"))
        words = price(cost) if cost is not None else "unknown" if each.newly_accepted else "none accepted"
        parts.append(label(words, middle, plot.y(float(cost or 0)) - 5, class_="value"))
    drawing = picture(
        "costs",
        "Cost per accepted answer, by iteration",
        "The cost of each iteration per answer that was accepted in it for the first time.",
        *plot.rows(ticks, lambda tick: f"${tick:.4g}"),
        *parts,
        *_numbers(plot, yields),
    )
    return Picture(drawing, "The cost of an iteration per answer newly accepted in it.")


def draw_pairs(items: Sequence[ItemOutcome], threshold: float | None) -> Picture | None:
    """Draw first scores against returned scores. Items with the same scores share one larger dot."""
    spots, grid = _spots(items)
    if not spots:
        return None
    plot = Plot(height=412)
    largest = max(spots.values())
    dots: list[Markup] = []
    # The largest dots are drawn first, so that they do not cover smaller dots
    for (first, final), number in spots.most_common():
        # The area of a dot is proportional to its number of items. Only dots that would be invisible are larger
        radius = max(_SMALLEST_SPOT, min(_LARGEST_SPOT, 4 * sqrt(largest)) * sqrt(number / largest))
        way = "unchanged" if abs(final - first) <= SAME else "helped" if final > first else "hurt"
        dots.append(tag("circle", cx=plot.x(first), cy=plot.y(final), r=radius, class_=way))
    total = sum(spots.values())
    drawing = picture(
        "pairs",
        "First score against returned score",
        f"Each of {count(total, 'item')} by the score of its first answer (across) and of its returned one (up).",
        *plot.rows(_TENTHS, lambda tick: f"{tick:g}"),
        line(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "diagonal"),
        *_threshold(plot, threshold),
        *dots,
        *_tenths(plot),
        plot.name_x("score of the first answer"),
        height=412,
    )
    rounded = "" if grid == _GRIDS[0] else f" Scores are rounded to {1 / grid:g} here."
    return Picture(
        drawing,
        f"Up: score of the returned answer. On the line: no change. Larger dots: more items.{rounded}",
        (("helped", "helped"), ("unchanged", "unchanged"), ("hurt", "hurt")),
    )


def _spots(items: Sequence[ItemOutcome]) -> tuple[Counter[tuple[float, float]], int]:
    """Count the items by first and returned score, on the finest grid with at most `_SPOTS_MAX` dots."""
    pairs = [
        (item.first_score, item.final_score)
        for item in items
        if item.has_verdict and item.first_score is not None and item.final_score is not None
    ]
    spots: Counter[tuple[float, float]] = Counter()
    for grid in _GRIDS:
        spots = Counter((round(first * grid) / grid, round(final * grid) / grid) for first, final in pairs)
        if len(spots) <= _SPOTS_MAX:
            return spots, grid
    return spots, _GRIDS[-1]


def draw_differences(found: Comparison) -> Picture | None:
    """Draw the differences of pass rate and mean score with their intervals. Return None without them."""
    kinds = (("pass rate", found.pass_rate, points), ("mean score", found.score, change))
    shown = [(name, mean, say(mean.value)) for name, mean, say in kinds if mean]
    if not shown:
        return None
    ends = [abs(end) for _, mean, _ in shown for end in (mean.value, mean.low or 0, mean.high or 0)]
    reach = ticks_to(max(ends), 2)[-1]
    # Both directions have the same scale, so the middle of the picture means 0
    plot = Plot(x_min=-reach, x_max=reach, height=176, left=86)
    rows = [part for at, row in enumerate(shown) for part in _interval(plot, 48 + 46 * at, *row)]
    scale = [-reach, -reach / 2, 0, reach / 2, reach]
    drawing = picture(
        "differences",
        "New run minus baseline",
        "The differences of pass rate and mean score with their 95 % intervals; 0 is no difference.",
        *(line(plot.x(at), plot.top, plot.x(at), plot.bottom, "zero" if at == 0 else "grid") for at in scale),
        *(label(f"{at:+.3g}" if at else "0", plot.x(at), plot.bottom + 16) for at in scale),
        *rows,
        plot.name_x("new run minus baseline (0.1 is 10 points)"),
        height=176,
    )
    return Picture(drawing, "Dot: the difference. Line: its 95 % interval. To the right the new run is higher.")


def _interval(plot: Plot, y: float, name: str, mean: Mean, value: str) -> list[Markup]:
    # A label in the middle of a dot at the right end would leave the picture
    middle = min(plot.x(mean.value), WIDTH - len(value) * _HALF_CHAR)
    parts = [label(name, plot.left - 6, y + 4, "end"), label(value, middle, y - 10, class_="value")]
    if mean.low is not None and mean.high is not None:
        parts.append(line(plot.x(mean.low), y, plot.x(mean.high), y, "whisker"))
    parts.append(tag("circle", cx=plot.x(mean.value), cy=y, r=5, class_="helped"))
    return parts
