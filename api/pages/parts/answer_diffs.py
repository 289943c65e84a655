"""Compares two answers as people read them: the words of the rendered Markdown, and the plain texts."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import groupby

from markupsafe import Markup, escape

from api.pages.parts.markdown import render_markdown, sanitize
from api.pages.parts.rendered_answers import RENDERED_CHARS_MAX
from redraft.domain.text.diffs import DiffPart, compare_words

_SAME_CHARS = 600
_DIFF_CHARS = 60_000
_SAME_BLOCKS = 4
# A tag of sanitized HTML. Its attributes are in double quotes, and texts have no "<"
_TAG = re.compile(r'(<[^<>"]*(?:"[^"]*"[^<>"]*)*>)')
_NAME = re.compile(r"<(/?)(\w+)")
_LINES = {*("p", "li", "h4", "h5", "h6", "blockquote", "pre", "ul", "ol", "table", "thead", "tbody", "tr", "br", "hr")}


@dataclass(frozen=True, slots=True)
class ShownDiff:
    """The differences of two answers.

    Attributes:
        rendered: the newer answer as HTML with `ins` and `del`; None for an answer that is too long to be rendered.
        parts: the plain texts, as (kind, text).
        is_same: the plain texts have the same words.
        reads_same: the rendered answers have the same words.
        is_cut: the comparison ignores the ends of long answers.
    """

    rendered: Markup | None
    parts: list[tuple[str, str]]
    is_same: bool
    reads_same: bool
    is_cut: bool


def compare_answers(old: str, new: str) -> ShownDiff:
    plain = compare_words(old, new)
    is_same = all(part.kind == "equal" for part in plain.parts)
    parts = list(readable(plain.parts))
    if max(len(old), len(new)) > RENDERED_CHARS_MAX:
        return ShownDiff(None, parts, is_same, is_same, plain.is_cut)
    before, after = _Document(render_markdown(old)), _Document(render_markdown(new))
    found = compare_words(before.text, after.text)
    reads_same = all(part.kind == "equal" for part in found.parts)
    html = sanitize(_Merge(before, after).merge(found.parts))
    return ShownDiff(_without_same_blocks(html), parts, is_same, reads_same, plain.is_cut)


def readable(parts: Sequence[DiffPart]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a diff as (kind, text). Long equal parts are shortened, and a long diff is cut."""
    room = _DIFF_CHARS
    for part in parts:
        if part.kind == "equal" and len(part.text) > _SAME_CHARS:
            half = _SAME_CHARS // 2
            yield "equal", part.text[:half]
            yield "gap", f"{len(part.text) - 2 * half:,} equal characters"
            yield "equal", part.text[-half:]
            room -= 2 * half
            continue
        yield part.kind, part.text[:room]
        if len(part.text) > room:
            yield "gap", "the rest is too long to be shown"
            return
        room -= len(part.text)


class _Document:
    """The visible text of sanitized HTML, one line for each block, and the place of each character.

    Attributes:
        pieces: the tags, and the texts between them.
        spans: (piece, start, end) of each visible text; start and end are positions in `text`.
        opened: by the position of a line, the (piece, name) of the blocks that begin with this line.
        kinds: by the words of a line, "li", "tr" or "pre" if it is of a list, a table or code, else "".
    """

    def __init__(self, html: str) -> None:
        self.pieces = _TAG.split(html)
        self.spans: list[tuple[int, int, int]] = []
        self.opened: dict[int, list[tuple[int, str]]] = {}
        self.kinds: dict[str, str] = {}
        self._texts: list[str] = []
        self._length = 0
        self._opening: list[tuple[int, str]] = []
        self._is_verbatim = False
        for at, piece in enumerate(self.pieces):
            if piece.startswith("<"):
                self._read_tag(at, piece)
            elif piece:
                self._read_text(at, piece)
        self.text = "".join(self._texts)
        start, kind = 0, ""
        for line in self.text.split("\n"):
            if blocks := self.opened.get(start):
                kind = next((name for _, name in blocks if name in {"tr", "li", "pre"}), "")
            self.kinds[line.strip()] = kind
            start += len(line) + 1

    def _read_tag(self, at: int, piece: str) -> None:
        found = _NAME.match(piece)
        closes, name = (found[1], found[2]) if found else ("", "")
        if name in _LINES:
            self._is_verbatim = name == "pre" and not closes
            self._end_line()
            if not closes:
                self._opening.append((at, name))
        elif closes and name in {"td", "th"}:
            self._add("\t")

    def _read_text(self, at: int, piece: str) -> None:
        text = unescape(piece)
        if not self._is_verbatim:
            # White space between blocks is not visible
            if not text.strip() and (not self._texts or self._texts[-1].endswith(("\n", "\t"))):
                return
            text = text.replace("\n", " ")
        if self._is_line_start() and self._opening:
            self.opened[self._length] = self._opening
            self._opening = []
        self.spans.append((at, self._length, self._length + len(text)))
        self._add(text)

    def _is_line_start(self) -> bool:
        return not self._texts or self._texts[-1].endswith("\n")

    def _end_line(self) -> None:
        if not self._is_line_start():
            self._add("\n")

    def _add(self, text: str) -> None:
        self._texts.append(text)
        self._length += len(text)


class _Merge:
    """Puts the differences into the HTML of the newer answer."""

    def __init__(self, old: _Document, new: _Document) -> None:
        self._old, self._new = old, new
        self._shown: dict[int, list[str]] = {at: [] for at, _, _ in new.spans}
        self._before: dict[int, list[str]] = {}
        self._end: list[str] = []

    def merge(self, parts: Sequence[DiffPart]) -> str:
        at = 0
        spans = iter(self._new.spans)
        span = next(spans, None)
        for part in parts:
            if part.kind == "delete":
                self._delete(part.text, at, span)
                continue
            end = at + len(part.text)
            while span and span[1] < end:
                text = self._new.text[max(at, span[1]) : min(end, span[2])]
                self._shown[span[0]].append(_marked("ins", text) if part.kind == "insert" else escape(text))
                if span[2] > end:
                    break
                span = next(spans, None)
            at = end
        pieces = (
            "".join((*self._before.get(number, ()), *self._shown.get(number, (piece,))))
            for number, piece in enumerate(self._new.pieces)
        )
        return "".join((*pieces, *self._end)).replace("</del></pre><pre><del>", "\n")

    def _delete(self, text: str, at: int, span: tuple[int, int, int] | None) -> None:
        """Show a deleted text at a position of the newer answer; `span` is the first span that ends after it."""
        is_line_start = at == 0 or self._new.text[at - 1] == "\n"
        lines = [line for line in text.split("\n") if line.strip()]
        kinds = [self._old.kinds.get(line.strip()) for line in lines]
        blocks = self._new.opened.get(at, [])
        is_code = set(kinds) == {"pre"} and "pre" in {name for _, name in blocks}
        if not is_line_start or None in kinds or is_code or (not blocks and span):
            self._delete_within(text, at, span)
        elif blocks:
            for line in lines:
                place, name = self._place(line, blocks)
                self._before.setdefault(place, []).append(self._block(line, name))
        else:
            self._end += (self._block(line, self._old.kinds[line.strip()] or "p", is_alone=True) for line in lines)

    def _delete_within(self, text: str, at: int, span: tuple[int, int, int] | None) -> None:
        if span and span[1] <= at:
            self._shown[span[0]].append(_marked("del", text))
            return
        # At the end of a line, the deleted text belongs to that line
        before = bisect_left(self._new.spans, at, key=lambda each: each[1])
        place = self._shown[self._new.spans[before - 1][0]] if before else self._end
        place.append(" " + _marked("del", text.replace("\n", " ").replace("\t", " ").strip()))

    def _place(self, line: str, blocks: Sequence[tuple[int, str]]) -> tuple[int, str]:
        """Return the piece before which a deleted line is shown, and the element that it becomes there."""
        kind = self._old.kinds[line.strip()]
        for place, name in blocks:
            if name in {kind, "tr"} or (name == "li" and place == blocks[0][0]):
                return place, name
        return blocks[0][0], "pre" if kind == "pre" else "p"

    def _block(self, line: str, name: str, *, is_alone: bool = False) -> str:
        cells = [_marked("del", cell) for cell in line.rstrip("\t").split("\t")]
        if name == "tr":
            row = f"<tr><td>{'</td><td>'.join(cells)}</td></tr>"
            return f"<table>{row}</table>" if is_alone else row
        block = f"<{name}>{' '.join(cells)}</{name}>"
        return f"<ul>{block}</ul>" if is_alone and name == "li" else block


def _marked(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>" if text.strip() else str(escape(text))


def _without_same_blocks(html: str) -> Markup:
    """Hide unchanged blocks behind a switch, except those beside changes."""
    shown: list[str] = []
    for is_same, group in groupby(_blocks(html), key=lambda block: "<ins>" not in block and "<del>" not in block):
        blocks = list(group)
        if is_same and len(blocks) >= _SAME_BLOCKS:
            first, last = (blocks[:1] if shown else []), blocks[-1:]
            hidden = "".join(blocks[len(first) : -1])
            number = len(blocks) - len(first) - 1
            hidden = f'<details class="same"><summary>{number} unchanged parts</summary>{hidden}</details>'
            shown += [*first, hidden, *last]
        else:
            shown += blocks
    return Markup("".join(shown))  # noqa: S704 - only our own elements are added


def _blocks(html: str) -> Iterator[str]:
    """Split sanitized HTML into its outermost blocks."""
    block, depth = "", 0
    for piece in _TAG.split(html):
        block += piece
        if found := _NAME.match(piece):
            depth += -1 if found[1] else int(found[2] not in {"br", "hr"})
            if depth == 0:
                yield block
                block = ""
    if block.strip():
        yield block
