"""Marks of citations as links to their sources.

A mark is framed in the text before it is rendered, and the frames become links in what came of it: so a link stands
where the mark does, whatever the rendering has made of the text around it.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from redraft.domain.text.screens import reveal

# Punctuation that nobody writes: Markdown reads what is beside it as beside punctuation, which marks are.
_OPEN, _CLOSE, _END = "\u2e4a", "\u2e4b", "\u2e4c"
_WITHOUT = dict.fromkeys(map(ord, (_OPEN, _CLOSE, _END)), "\ufffd")
_FRAME = re.compile(rf"([{_OPEN}{_CLOSE}])(\d+){_END}")


@dataclass(frozen=True, slots=True)
class CitationMarker:
    """A stretch of the answer that points to sources, by their numbers from 1 on."""

    number: int
    start: int
    end: int
    sources: tuple[int, ...]


def markers_of(citations: Sequence[Mapping[str, Any]], length: int) -> list[CitationMarker]:
    """The citations in the first `length` characters; those of one place, or that overlap, are one mark."""
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
    """Frames for the marks of one text, by numbers that its author could not know."""

    def __init__(self, marks: Sequence[CitationMarker]) -> None:
        self._marks = {str(secrets.randbits(60)): mark for mark in marks}

    def put(self, text: str) -> str:
        """The text with a frame around each mark."""
        plain = text.translate(_WITHOUT)
        parts: list[str] = []
        at = 0
        for key, mark in self._marks.items():
            parts += plain[at : mark.start], _OPEN, key, _END, plain[mark.start : mark.end], _CLOSE, key, _END
            at = mark.end
        return "".join((*parts, plain[at:]))

    def link(self, html: str) -> Markup:
        """Clean HTML, in whose texts alone there may be frames, with links for them."""
        return Markup(_FRAME.sub(self._tag, html))  # noqa: S704 - of marks, numbers alone are added

    def _tag(self, found: re.Match[str]) -> str:
        mark = self._marks.get(found[2])
        if mark is None:
            return ""
        return _opening(mark) if found[1] == _OPEN else _closing(mark)


def without_frames(text: str) -> str:
    return _FRAME.sub("", text).translate(_WITHOUT)


def link_plain(text: str, marks: Sequence[CitationMarker]) -> Markup:
    """A text as it is, with links."""
    frames = Frames(marks)
    return frames.link(escape(reveal(frames.put(text))))


def _opening(mark: CitationMarker) -> str:
    return f'<a class="cite" id="cite-{mark.number}" href="#source-{mark.sources[0]}">'


def _closing(mark: CitationMarker) -> str:
    others = "".join(f' <a class="cite" href="#source-{each}">{each}</a>' for each in mark.sources[1:])
    return f"</a>{others}"
