"""Draws the scores of a job by iteration, as chart and as sparkline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

from markupsafe import Markup

from api.pages.parts.filters import UNKNOWN, score
from redraft.operations.jobs.iterations import CriteriaMatrix, MatrixColumn
from redraft.reports.svg import Plot, label, line, picture, tag

CRITERIA_DRAWN_MAX = 6
_TICKS = [0, 0.25, 0.5, 0.75, 1.0]
_SPOTS = (("passed", "passed"), ("missed", "not passed"), ("other", "another candidate"))
_WIDTH, _HEIGHT, _EDGE = 96, 24, 4


@dataclass(frozen=True, slots=True)
class Chart:
    """An SVG drawing, and its legend as pairs of CSS class and words."""

    drawing: Markup
    legend: tuple[tuple[str, str], ...]

    @property
    def has_criteria(self) -> bool:
        return any(class_.startswith("crit") for class_, _ in self.legend)


def draw_scores(matrix: CriteriaMatrix, threshold: float) -> Chart | None:
    """Draw the scores of each iteration's best candidate and of its criteria. None before the first evaluation."""
    best = _best(matrix.iterations)
    if not any(column.score is not None for column in best):
        return None
    numbers = [column.number for column in best]
    plot = Plot(x_min=numbers[0] - 0.5, x_max=numbers[-1] + 0.5)
    scores = ", ".join(f"iteration {column.number}: {score(column.score)}" for column in best)
    drawing = picture(
        "score-curve",
        "Score by iteration",
        f"Threshold {threshold:g}; {scores}.",
        *plot.rows(_TICKS, lambda tick: f"{tick:g}"),
        *_criteria(plot, matrix, best),
        line(plot.left, plot.y(threshold), plot.right, plot.y(threshold), "threshold"),
        *_curve(plot, [(column.number, column.score) for column in best], "score"),
        *_spots(plot, matrix, best),
        *(label(str(number), plot.x(number), plot.bottom + 16) for number in numbers),
        plot.name_x("iteration"),
    )
    drawn = matrix.criteria[:CRITERIA_DRAWN_MAX] if len(best) > 1 else []
    names = [(f"crit{at}", row.text or row.id) for at, row in enumerate(drawn, 1)]
    spots = [(class_, words) for class_, words in _SPOTS if any(class_ == each for each, _ in _spotted(matrix, best))]
    return Chart(drawing, (("score", "score"), *spots, ("threshold", f"threshold {threshold:g}"), *names))


def _best(columns: Sequence[MatrixColumn]) -> list[MatrixColumn]:
    groups = groupby(columns, key=lambda column: column.number)
    return [max(group, key=lambda column: -1.0 if column.score is None else column.score) for _, group in groups]


def _criteria(plot: Plot, matrix: CriteriaMatrix, best: Sequence[MatrixColumn]) -> Iterator[Markup]:
    if len(best) < 2:
        return
    for at, row in enumerate(matrix.criteria[:CRITERIA_DRAWN_MAX], 1):
        found = [(column.number, {cell.id: cell.score for cell in column.cells}.get(row.id)) for column in best]
        # Curves are shifted a little, because most criteria are 0 or 1 and would hide each other
        shift = (at - (CRITERIA_DRAWN_MAX + 1) / 2) * 0.012
        shifted = [(number, None if value is None else min(1.0, max(0.0, value)) + shift) for number, value in found]
        yield from _curve(plot, shifted, f"crit crit{at}")


def _curve(plot: Plot, points: Sequence[tuple[int, float | None]], class_: str) -> Iterator[Markup]:
    # No line is drawn across a point without a value
    for (one, low), (other, high) in pairwise(points):
        if low is not None and high is not None:
            yield line(plot.x(one), plot.y(low), plot.x(other), plot.y(high), f"curve {class_}")


def _spotted(matrix: CriteriaMatrix, best: Sequence[MatrixColumn]) -> Iterator[tuple[str, MatrixColumn]]:
    for column in matrix.iterations:
        if column.score is not None:
            yield "other" if column not in best else "passed" if column.passed else "missed", column


def _spots(plot: Plot, matrix: CriteriaMatrix, best: Sequence[MatrixColumn]) -> Iterator[Markup]:
    for column in matrix.iterations:
        if column.score is None:
            yield label("no score", plot.x(column.number), plot.bottom - 6)
    for class_, column in _spotted(matrix, best):
        x, y = plot.x(column.number), plot.y(column.score or 0.0)
        yield tag("circle", cx=x, cy=y, r=3 if class_ == "other" else 5, class_=f"spot {class_}")
        if class_ != "other":
            yield label(score(column.score), x, y - 10, class_="value")


# A live list is rendered again and again
@lru_cache(maxsize=1024)
def sparkline(scores: tuple[tuple[int, float | None], ...], threshold: float | None) -> Markup | str:
    """Draw a point for each iteration, and the threshold as a line. Screen readers get the scores in words."""
    step = (_WIDTH - 2 * _EDGE) / max(1, len(scores) - 1)
    points = [(_EDGE + at * step, _y(value), value) for at, (_, value) in enumerate(scores) if value is not None]
    if not points:
        return UNKNOWN
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    goal = [line(0, _y(threshold), _WIDTH, _y(threshold), "threshold")] if threshold is not None else []
    # The loop has the same tolerance, because a score can be just below the threshold by rounding
    least = float("inf") if threshold is None else threshold - 1e-9
    dots = [tag("circle", cx=x, cy=y, r=2, class_="dot met" if value >= least else "dot") for x, y, value in points]
    curve = tag("polyline", points=at, class_="curve")
    words = f"Scores {', '.join(score(value) for _, value in scores)}"
    words += "" if threshold is None else f"; threshold {score(threshold)}"
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag("svg", *goal, curve, *dots, viewBox=box, class_="spark", role="img", aria_label=words)


def _y(value: float) -> float:
    return _EDGE + (1 - value) * (_HEIGHT - 2 * _EDGE)
