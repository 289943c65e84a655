"""Builds SVG pictures from figures, without scripts, styles and texts of users. The page's CSS styles the pictures."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import ClassVar

from markupsafe import Markup, escape

WIDTH, HEIGHT = 420, 264


def tag(_name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """Return an element. In the names of attributes, `_` becomes `-`, and a `_` at the end is removed."""
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"' for name, value in attributes.items())
    inner = "".join(escape(child) for child in children)
    return Markup(f"<{_name}{written}>{inner}</{_name}>" if inner else f"<{_name}{written}/>")  # noqa: S704


def _value(value: str | float) -> str:
    # A tenth of a unit is not visible, so further digits would only enlarge the page
    return escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def label(text: str, x: float, y: float, anchor: str = "middle", class_: str = "label") -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def picture(key: str, title: str, description: str, *parts: Markup, height: int = HEIGHT) -> Markup:
    """Return a picture with a title and a description for screen readers."""
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", description, id=f"{key}-desc"),
        *parts,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
    )


@dataclass(frozen=True, slots=True)
class Plot:
    """The plot area. The x axis shows values from `x_min` to `x_max`, the y axis values from 0 to `y_max`."""

    x_max: float = 1
    y_max: float = 1
    x_min: float = 0
    height: int = HEIGHT
    left: int = 52
    right: ClassVar[int] = WIDTH - 14
    top: ClassVar[int] = 30

    @property
    def bottom(self) -> int:
        return self.height - 44

    def x(self, value: float) -> float:
        return self.left + (value - self.x_min) / (self.x_max - self.x_min) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - value / self.y_max * (self.bottom - self.top)

    def rows(self, ticks: list[float], say: Callable[[float], str]) -> list[Markup]:
        """Draw a horizontal line with a label for each tick."""
        parts: list[Markup] = []
        for tick in ticks:
            parts.append(line(self.left, self.y(tick), self.right, self.y(tick), "grid"))
            parts.append(label(say(tick), self.left - 6, self.y(tick) + 4, "end"))
        return parts

    def bar(self, middle: float, width: float, value: float, class_: str) -> Markup:
        top = self.y(value)
        return tag("rect", x=middle - width / 2, y=top, width=width, height=max(0.0, self.bottom - top), class_=class_)

    def name_x(self, text: str) -> Markup:
        return label(text, (self.left + self.right) / 2, self.height - 6, class_="axis")


def ticks_to(largest: float, wanted: int = 4) -> list[float]:
    """Return about `wanted` round numbers. The first is 0, and the last is not below the largest value."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / wanted
    power = 10.0 ** floor(log10(rough))
    # The tolerances absorb rounding errors: the float 3 * 0.1 / 0.1 is slightly above 3
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * (1 - 1e-9))
    return [step * at for at in range(ceil(largest / step - 1e-9) + 1)]
