"""Renders untrusted Markdown. The HTML runs no scripts, loads nothing, and links citations to sources.

Each citation marker is enclosed in a frame of rare characters before the text is rendered. The frames become links in
the HTML. So a link stays at its marker, even if rendering changes the text around it.
"""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markupsafe import Markup, escape

from api.pages.parts.code_colors import CLASSES, color_code
from redraft.domain.text.control_characters import reveal

# Rare punctuation characters. Citation markers begin and end with punctuation, too, so a frame does not change how
# Markdown interprets adjacent characters
_OPEN, _CLOSE, _END = "\u2e4a", "\u2e4b", "\u2e4c"
_WITHOUT = dict.fromkeys(map(ord, (_OPEN, _CLOSE, _END)), "\ufffd")
_FRAME = re.compile(rf"([{_OPEN}{_CLOSE}])(\d+){_END}")
# A browser takes seconds to lay out a larger table, so its lines are shown as plain text
_CELLS_MAX = 3_000
# Colours of code cost about 5 ms per 1,000 characters
_COLORED_CHARS_MAX = 16_000
_TAGS = {
    *("a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ins", "li", "ol", "p"),
    *("pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}


@dataclass(frozen=True, slots=True)
class CitationMarker:
    """A part of the answer that cites sources. Source numbers start at 1."""

    number: int
    start: int
    end: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Highlight:
    """A part of the answer that an evaluator quotes as evidence."""

    start: int
    end: int


_QUOTE = re.compile(r"(?!\d+[.)])[^\W_][^\n*_`~\[\]<>|\\&]{9,400}")
_MARKED = re.compile("<mark>([^<]*)</mark>")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]+)[\"“”»]")


def highlights_of(text: str, evidence: Iterable[str], cited: Sequence[CitationMarker] = ()) -> list[Highlight]:
    """Return the quotes in the evidence that are exactly once in the text. Quotes that overlap others are left out."""
    found: list[Highlight] = []
    for quote in (quote for each in evidence for quote in (each.strip(), *_QUOTED.findall(each))):
        start = text.find(quote)
        end = start + len(quote)
        if start < 0 or not _QUOTE.fullmatch(quote) or text.find(quote, start + 1) >= 0:
            continue
        if all(end <= each.start or each.end <= start for each in (*found, *cited)):
            found.append(Highlight(start, end))
    return found


def markers_of(citations: Sequence[Mapping[str, Any]], length: int) -> list[CitationMarker]:
    """Return the markers in the first `length` characters. Citations that overlap share one marker."""
    spans: list[tuple[int, int, list[int]]] = []
    for each in sorted(citations, key=lambda citation: (citation["start_pos"], citation["end_pos"])):
        start, end, source = each["start_pos"], each["end_pos"], each["source_number"]
        if end > length:
            continue
        if spans and start < spans[-1][1]:
            before_start, before_end, sources = spans[-1]
            spans[-1] = before_start, max(before_end, end), [*sources, source]
        else:
            spans.append((start, end, [source]))
    return [
        CitationMarker(number, start, end, tuple(dict.fromkeys(sources)))
        for number, (start, end, sources) in enumerate(spans, 1)
    ]


class Frames:
    """The frames of the citation markers and highlights of one text."""

    def __init__(self, markers: Iterable[CitationMarker | Highlight]) -> None:
        # The keys are random, so that the author of the text cannot forge a frame
        ordered = sorted(markers, key=lambda marker: marker.start)
        self._markers = {str(secrets.randbits(60)): marker for marker in ordered}

    def put(self, text: str) -> str:
        """Return the text with a frame around each marker."""
        plain = text.translate(_WITHOUT)
        parts: list[str] = []
        at = 0
        for key, marker in self._markers.items():
            parts += plain[at : marker.start], _OPEN, key, _END, plain[marker.start : marker.end], _CLOSE, key, _END
            at = marker.end
        return "".join((*parts, plain[at:]))

    def link(self, html: str) -> Markup:
        """Replace the frames in sanitized HTML by links. Attributes must not contain frames."""
        return Markup(_FRAME.sub(self._tag, html))  # noqa: S704 - only numbers of markers are added

    def _tag(self, found: re.Match[str]) -> str:
        marker = self._markers.get(found[2])
        if marker is None:
            return ""
        if isinstance(marker, Highlight):
            return "<mark>" if found[1] == _OPEN else "</mark>"
        if found[1] == _OPEN:
            return f'<a class="cite" id="cite-{marker.number}" href="#source-{marker.sources[0]}">'
        others = "".join(f' <a class="cite" href="#source-{each}">{each}</a>' for each in marker.sources[1:])
        return f"</a>{others}"


def without_frames(text: str) -> str:
    return _FRAME.sub("", text).translate(_WITHOUT)


def link_plain(text: str, markers: Sequence[CitationMarker]) -> Markup:
    """Return an escaped text whose citation markers are links."""
    frames = Frames(markers)
    return frames.link(escape(reveal(frames.put(text))))


def render_markdown(text: str, cited: Sequence[CitationMarker] = (), evidence: Iterable[str] = ()) -> Markup:
    """Render Markdown as HTML of allowed elements, without images and scripts.

    The `cited` markers become links. Quotes of the `evidence` are highlighted.
    """
    plain = _render(text, cited)
    highlights = highlights_of(text, evidence, cited)
    marked = _render(text, (*cited, *highlights)) if highlights else plain
    # A frame can change how Markdown interprets the text, or stand in an attribute. Then nothing is highlighted
    is_within_texts = len(_MARKED.findall(marked)) == marked.count("<mark>") == marked.count("</mark>")
    return marked if is_within_texts and _MARKED.sub(r"\1", marked) == plain else plain


def _render(text: str, markers: Sequence[CitationMarker | Highlight]) -> Markup:
    frames = Frames(markers)
    with_tables, with_colors = text.count("|") <= _CELLS_MAX, len(text) <= _COLORED_CHARS_MAX
    html = _parser(with_tables=with_tables, with_colors=with_colors).render(reveal(frames.put(text)))
    return frames.link(sanitize(html))


def sanitize(html: str) -> str:
    """Keep the allowed elements and attributes only. The result is well-formed."""
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        allowed_classes={"span": CLASSES},
        attribute_filter=lambda _element, _name, value: without_frames(value),
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    # A character that affects the display can also be written as an entity, such as &#x202e;
    return reveal(clean)


def _demote_headings(state: StateCore) -> None:
    # The page has headings of levels 1 to 3 itself, so those of an answer come below. No level is skipped,
    # because people with screen readers move from level to level
    above: list[str] = []
    for token in state.tokens:
        if token.type == "heading_open":
            above = [*(level for level in above if level < token.tag), token.tag]
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, 3 + len(above))}"


def _highlight(code: str, language: str, _attributes: str) -> str:
    # The links of citation markers must not overlap with the elements of colours
    return "" if _OPEN in code else color_code(code, language)


@lru_cache(maxsize=4)
def _parser(*, with_tables: bool, with_colors: bool) -> MarkdownIt:
    more = ["strikethrough", "table"] if with_tables else ["strikethrough"]
    parser = (
        MarkdownIt("commonmark", {"html": False, "highlight": _highlight if with_colors else None})
        .enable(more)
        .disable("image")
    )
    parser.core.ruler.push("demote_headings", _demote_headings)
    return parser
