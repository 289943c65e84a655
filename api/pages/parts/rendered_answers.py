"""Renders whole answers from Markdown to HTML. Code blocks and tables get copy buttons, long answers get an outline."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import cycle

from markupsafe import Markup

from api.pages.parts.markdown import CitationMarker, render_markdown
from redraft.operations.jobs.iterations import Evaluation

# A browser needs too much time to lay out longer answers
RENDERED_CHARS_MAX = 40_000
_OUTLINED_CHARS_MIN = 1_500
_OUTLINED_HEADINGS_MIN = 3
# These patterns are reliable for sanitized HTML: such elements are not nested in it, and its texts have no "<"
_HEADING = re.compile(r"<h([456])>(.*?)</h\1>", re.DOTALL)
_BLOCK = re.compile(r"(<(pre|table)>.*?</\2>)", re.DOTALL)
_TAG = re.compile("<[^<>]*>")
_COLUMN = re.compile(r"<th\b[^<>]*>(.*?)</th>", re.DOTALL)
_CELL = re.compile(r"<td\b")
_COPY = '<button type="button" class="quiet" data-copy="">Copy {}</button>'


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of an answer. `depth` is 1 for the headings of the highest level."""

    id: str
    words: str
    depth: int


@dataclass(frozen=True, slots=True)
class RenderedAnswer:
    """An answer as HTML. `outline` has its headings if the answer is long."""

    html: Markup
    outline: list[Heading]


def render_answer(
    text: str, name: str, cited: Sequence[CitationMarker] = (), evidence: Iterable[str] = ()
) -> RenderedAnswer:
    """Render an answer. `name` begins the ids of its headings, and is unique on the page."""
    html = render_markdown(text, cited, evidence)
    headings: list[Heading] = []

    def with_id(found: re.Match[str]) -> str:
        words = unescape(_TAG.sub("", found[2])).strip()
        headings.append(Heading(f"{name}-part-{len(headings) + 1}", words or "…", int(found[1]) - 3))
        return f'<h{found[1]} id="{headings[-1].id}" tabindex="-1">{found[2]}</h{found[1]}>'

    html = _BLOCK.sub(_copyable, _HEADING.sub(with_id, html))
    is_long = len(text) >= _OUTLINED_CHARS_MIN and len(headings) >= _OUTLINED_HEADINGS_MIN
    return RenderedAnswer(Markup(html), headings if is_long else [])  # noqa: S704 - only our own elements are added


def evidence_of(evaluation: Evaluation | None) -> list[str]:
    """Return the texts in which an evaluator quotes the answer."""
    if evaluation is None:
        return []
    return [*(each.evidence for each in evaluation.criteria), evaluation.evaluation_reasoning]


def _copyable(found: re.Match[str]) -> str:
    if found[2] == "pre":
        return f'<div class="copyable">{_COPY.format("code")}{found[1]}</div>'
    # Several elements with the role `group` may have the same name, because a group is not a landmark
    scrolled = f'<div class="table" tabindex="0" role="group" aria-label="Table">{_name_columns(found[1])}</div>'
    return f'<div class="copyable">{_COPY.format("table")}{scrolled}</div>'


def _name_columns(table: str) -> str:
    """Add the name of the column to each cell, for phones, which show each row as a card.

    All rows have the same number of cells.
    """
    names = cycle([_TAG.sub("", each).replace('"', "&quot;") for each in _COLUMN.findall(table)])
    return _CELL.sub(lambda _: f'<td data-label="{next(names)}"', table)
