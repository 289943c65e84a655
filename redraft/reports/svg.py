"""SVG, built from the server's own figures. No names, no scripts, no styles of its own: the page's classes paint it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup, escape

WIDTH, HEIGHT = 420, 264
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 30, 44


def tag(_name: str, *children: Markup | str, **attributes: str | float) -> Markup:
    """An element; `_` in the name of an attribute is `-`, one at its end falls off."""
    written = "".join(f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"' for name, value in attributes.items())
    inner = "".join(escape(child) for child in children)
    return Markup(f"<{_name}{written}>{inner}</{_name}>" if inner else f"<{_name}{written}/>")  # noqa: S704


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def label(text: str, x: float, y: float, anchor: str = "middle", class_: str = "label") -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def picture(key: str, title: str, description: str, *parts: Markup, height: int = HEIGHT) -> Markup:
    """A whole picture, named and described for those who do not see it."""
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
    """The area between the axes. `x_max` and `y_max` are what their ends stand for; both begin at `x_min` and 0."""

    x_max: float = 1
    y_max: float = 1
    x_min: float = 0
    height: int = HEIGHT
    left: int = _LEFT

    @property
    def right(self) -> int:
        return WIDTH - _RIGHT

    @property
    def top(self) -> int:
        return _TOP

    @property
    def bottom(self) -> int:
        return self.height - _BOTTOM

    def x(self, value: float) -> float:
        return self.left + (value - self.x_min) / (self.x_max - self.x_min) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - value / self.y_max * (self.bottom - self.top)

    def rows(self, ticks: list[float], say: Callable[[float], str]) -> list[Markup]:
        """Lines across, each with what it stands for."""
        return [
            part
            for tick in ticks
            for part in (
                line(self.left, self.y(tick), self.right, self.y(tick), "grid"),
                label(say(tick), self.left - 6, self.y(tick) + 4, "end"),
            )
        ]

    def bar(self, middle: float, width: float, value: float, class_: str) -> Markup:
        top = self.y(value)
        return tag("rect", x=middle - width / 2, y=top, width=width, height=max(0.0, self.bottom - top), class_=class_)

    def name_x(self, text: str) -> Markup:
        return label(text, (self.left + self.right) / 2, self.height - 6, class_="axis")


def ticks_to(largest: float, wanted: int = 4) -> list[float]:
    """Round numbers from 0 to the first at or above the largest; about as many as wanted."""
    if largest <= 0:
        return [0.0, 1.0]
    rough = largest / wanted
    power = 10.0 ** floor(log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * (1 - 1e-9))
    return [step * at for at in range(ceil(largest / step - 1e-9) + 1)]
