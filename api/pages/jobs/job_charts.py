"""Draws the charts of a job: its scores by iteration, as chart and as sparkline, and the times of its calls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from markupsafe import Markup

from api.pages.parts.filters import UNKNOWN, duration, score
from redraft.domain.jobs.time_intervals import merged
from redraft.operations.jobs.iterations import CriteriaMatrix, MatrixColumn
from redraft.operations.jobs.resources import CallLine
from redraft.reports.svg import Plot, label, line, picture, tag

CRITERIA_DRAWN_MAX = 6
_TICKS = [0, 0.25, 0.5, 0.75, 1.0]
_SPOTS = (("passed", "passed"), ("missed", "not passed"), ("other", "another candidate"))
_WIDTH, _HEIGHT, _EDGE = 96, 24, 4
_TRACK = 1000
_SMALLEST_BAR = 6.0
# The longest pause that is drawn to scale, as a share of the time of all calls. If a pause of hours were drawn to
# scale, the bars of the calls would be too small to see
_GAP_SHARE = 1.0
_SMALLEST_GAP_S = 1.0


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


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A bar for each call on a common scale, the legend, and the total time of the calls in words.

    `waits` says for each repeated call how long the job waited before it, and after which error.
    """

    waits: Mapping[str, str]
    bars: Mapping[str, Markup]
    legend: tuple[tuple[str, str], ...]
    scale: tuple[str, ...]
    spans: str


def draw_waterfall(calls: Sequence[CallLine]) -> Waterfall:
    """Draw a bar for each call on a common time scale, on which long pauses between calls are shortened."""
    spans = {call.id: call.interval for call in calls}
    clock = _Clock(list(spans.values()))
    before = _attempts_before(calls)
    bars = {call.id: _bar(call, clock, *spans[call.id], before.get(call.id)) for call in calls}
    kinds = list(dict.fromkeys(map(_kind, calls))) + (["wait"] if before else [])
    legend = tuple((kind, "failed" if kind == "bad" else kind.replace("_", " ")) for kind in kinds)
    waits = {call.id: _wait_words(call, before[call.id]) for call in calls if call.id in before}
    return Waterfall(waits, bars, legend, clock.scale, clock.words)


def _attempts_before(calls: Sequence[CallLine]) -> dict[str, CallLine]:
    """Return for each repeated call its previous attempt, by the id of the repeated call."""
    known = {(call.type, call.iteration, call.candidate, call.model, call.attempt): call for call in calls}
    keys = {call.id: (call.type, call.iteration, call.candidate, call.model, call.attempt - 1) for call in calls}
    return {call_id: known[key] for call_id, key in keys.items() if key in known}


def _wait_words(call: CallLine, before: CallLine) -> str:
    waited_ms = max(0.0, call.interval[0] - before.interval[1]) * 1000
    reason = before.http_status or (before.error or {}).get("code") or "a failed attempt"
    return f"waited {duration(waited_ms)} after {reason}"


def _kind(call: CallLine) -> str:
    return "bad" if call.status == "failed" else call.type


class _Clock:
    """Maps times to positions on the time scale."""

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        busy = merged(spans)
        worked = sum(end - start for start, end in busy)
        longest = max(_SMALLEST_GAP_S, worked * _GAP_SHARE)
        self._starts: list[tuple[float, float]] = []
        shown = idle = 0.0
        for at, (start, end) in enumerate(busy):
            gap = start - busy[at - 1][1] if at else 0.0
            shown += min(gap, longest)
            idle += gap
            self._starts.append((start, shown))
            shown += end - start
        self._whole = max(shown, 0.001)
        self.scale = tuple(duration(self._whole * 1000 * part) for part in _TICKS)
        has_rested = idle >= _SMALLEST_GAP_S
        between = f", with {duration(idle * 1000)} between them" if has_rested else ""
        self.words = duration((worked if has_rested else shown) * 1000) + between

    def place(self, moment: float) -> float:
        start, shown = max((each for each in self._starts if each[0] <= moment), default=self._starts[0])
        return (shown + moment - start) / self._whole * _TRACK


def _bar(call: CallLine, clock: _Clock, start: float, end: float, before: CallLine | None) -> Markup:
    left, right = clock.place(start), clock.place(end)
    waited = [] if before is None else [line(clock.place(before.interval[1]), 10, left, 10, "bar wait")]
    width = max(_SMALLEST_BAR, right - left)
    bar = tag("rect", x=min(left, _TRACK - width), y=3, width=width, height=14, class_=f"bar {_kind(call)}")
    box = f"0 0 {_TRACK} 20"
    return tag("svg", *waited, bar, viewBox=box, preserveAspectRatio="none", aria_hidden="true", class_="fall")


def sparkline(scores: Sequence[tuple[int, float | None]], threshold: float | None) -> Markup | str:
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
