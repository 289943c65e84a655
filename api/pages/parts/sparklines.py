"""A job's scores on the width of a word: one point an iteration, the threshold as a line."""

from collections.abc import Sequence

from markupsafe import Markup

from api.pages.parts.filters import UNKNOWN, score
from redraft.reports.svg import line, tag

WIDTH, HEIGHT = 96, 24
_EDGE = 4


def sparkline(scores: Sequence[tuple[int, float | None]], threshold: float | None) -> Markup | str:
    """The picture, with its figures in words for those who do not see it."""
    points = _points(scores)
    if not points:
        return UNKNOWN
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    goal = [line(0, _y(threshold), WIDTH, _y(threshold), "threshold")] if threshold is not None else []
    dots = [tag("circle", cx=x, cy=y, r=2, class_=_class(value, threshold)) for x, y, value in points]
    curve = tag("polyline", points=at, class_="curve")
    words = _words(scores, threshold)
    return tag(
        "svg", *goal, curve, *dots, viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="spark", role="img", aria_label=words
    )


def _points(scores: Sequence[tuple[int, float | None]]) -> list[tuple[float, float, float]]:
    step = (WIDTH - 2 * _EDGE) / max(1, len(scores) - 1)
    return [(_EDGE + at * step, _y(value), value) for at, (_, value) in enumerate(scores) if value is not None]


def _y(value: float) -> float:
    return _EDGE + (1 - value) * (HEIGHT - 2 * _EDGE)


def _class(value: float, threshold: float | None) -> str:
    return "dot met" if threshold is not None and value >= threshold - 1e-9 else "dot"


def _words(scores: Sequence[tuple[int, float | None]], threshold: float | None) -> str:
    told = ", ".join(score(value) for _, value in scores)
    return f"Scores {told}" + ("" if threshold is None else f"; threshold {score(threshold)}")
