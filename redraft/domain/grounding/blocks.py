"""Split an answer into blocks: prose, headings, code, rows of tables, notes.

This is not a CommonMark parser. It finds only the blocks that sentences and citations need. It takes linear time and
never raises. docs/decisions/0023-less-analysis-of-grounded-text.md has the reasons against a library.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from redraft.caching import lazy_pattern
from redraft.domain.grounding.reference_lists import (
    DEFINITION,
    Entry,
    Known,
    find_reference_lists,
    heads_a_list,
    is_title,
    list_in_one_line,
)
from redraft.domain.text.markdown_lines import Line, read_lines

Kind = Literal["prose", "heading", "code", "row", "note"]

_FENCE = lazy_pattern(r"(?P<fence>`{3,}+(?=[^`]*$)|~{3,}+)(?P<info>.*)")
_HEADING = lazy_pattern(r"#{1,6}(?:[ \t]+|$)")
_UNDERLINE = lazy_pattern(r"(?:=+|-{2,})\s*")
_RULE = lazy_pattern(r"([-*_])(?:[ \t]*\1){2,}[ \t]*")
_BOLD = lazy_pattern(r"(\*\*|__)(?!\s)[^*_]{1,120}(?<![\s.!?。\uff01\uff1f])\1[:\uff1a]?\s*")
_TABLE_RULE = lazy_pattern(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
_VALUE = r"\"[^\"<>]{0,200}\"|'[^'<>]{0,200}'|[^\s<>\"']{1,200}"
_TAGS = lazy_pattern(
    rf"(?:</?(?!source)[a-z][a-z0-9]{{0,20}}(?:\s+[\w:-]{{1,30}}=(?:{_VALUE}))*\s*/?>\s*)+", re.IGNORECASE
)
_DESTINATION = r"<?(?:[a-z][a-z0-9+.-]{1,20}:|www\.|[/#.]|[\w-]{1,60}\.)\S*"
_LINK = lazy_pattern(
    rf"\[(?P<label>[^\]]{{1,200}})\]:[ \t]*{_DESTINATION}(?:[ \t]+[\"'(](?P<title>.*))?[ \t]*$", re.IGNORECASE
)
_TICKS = lazy_pattern("`+")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines of one kind. `is_quote`: the lines are in a block quote."""

    start: int
    end: int
    kind: Kind
    is_quote: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A text with its blocks, the entries of its reference lists, and the sources if they are known."""

    text: str
    blocks: tuple[Block, ...]
    entries: tuple[Entry, ...]
    known: Known | None = None


class _Reader:
    """Reads the lines once, in order.

    Each `_take_…` method reads one block that begins at line `at`, and returns False if another block begins there.
    """

    def __init__(self, text: str, known: Known | None) -> None:
        self.known = known
        self.lines = read_lines(text)
        self.reference_lists = find_reference_lists(text, self.lines, known)
        self.at = 0
        self.blocks: list[Block] = []
        self.entries: list[Entry] = []
        self.prose: list[Line] = []
        self.in_list = False

    def read(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.text:
                self._end_prose()
                self.at += 1
            elif not (
                self._take_fence(line)
                or self._take_indented(line)
                or self._take_underline(line)
                or self._take_table(line)
                or self._take_endnotes(line)
                or self._take_line(line)
            ):
                self._take_prose(line)
        self._end_prose()

    def _take_prose(self, line: Line) -> None:
        if line.starts_block or (self.prose and self.prose[-1].is_quote != line.is_quote):
            self._end_prose()
        if line.starts_block:
            self.in_list = True
        elif line.indent == 0 and not self.prose:
            self.in_list = False
        self.prose.append(line)
        self.at += 1

    def _end_prose(self) -> None:
        prose, self.prose = self.prose, []
        if prose:
            is_heading = len(prose) == 1 and _BOLD.fullmatch(prose[0].text)
            self._add(prose[0], prose[-1], "heading" if is_heading else "prose")

    def _add(self, first: Line, last: Line, kind: Kind, skipped: int = 0) -> None:
        """Add a block of the lines from `first` to `last`, without the first `skipped` characters."""
        self._end_prose()
        self.blocks.append(Block(min(first.start + skipped, last.end), last.end, kind, first.is_quote))

    @cached_property
    def _closers(self) -> dict[str, list[int]]:
        """For each fence character and each line, the length of the longest closing fence at or after that line.

        Without this table, the search for the closing fence of each open fence would take quadratic time.
        """
        longest: dict[str, list[int]] = {"`": [0], "~": [0]}
        for line in reversed(self.lines):
            bare = _FENCE.fullmatch(line.text)
            for char, lengths in longest.items():
                length = len(bare["fence"]) if bare and not bare["info"].strip() and bare["fence"][0] == char else 0
                lengths.append(max(lengths[-1], length))
        return {char: lengths[::-1] for char, lengths in longest.items()}

    def _take_fence(self, line: Line) -> bool:
        found = _FENCE.match(line.text)
        if not found:
            return False
        fence = found["fence"]
        end = self.at + 1
        if self._closers[fence[0]][end] >= len(fence):
            while not _closes(self.lines[end].text, fence):
                end += 1
            end += 1
        else:
            # An unclosed fence must not hide the rest of the answer from the grounding rule, so its block ends at the
            # next blank line.
            while end < len(self.lines) and self.lines[end].text:
                end += 1
        self._add(line, self.lines[end - 1], "code")
        self.at = end
        return True

    def _take_indented(self, line: Line) -> bool:
        # In CommonMark, an indented line within a paragraph or a list is no code.
        if line.indent < 4 or self.prose or self.in_list or line.starts_block or line.is_quote:
            return False
        end = self.at + 1
        while end < len(self.lines) and self.lines[end].indent >= 4 and self.lines[end].text:
            end += 1
        self._add(line, self.lines[end - 1], "code")
        self.at = end
        return True

    def _take_underline(self, line: Line) -> bool:
        if len(self.prose) == 1 and not line.starts_block and _UNDERLINE.fullmatch(line.text):
            title = self.prose.pop()
            self._add(title, title, "heading")
        elif not _RULE.fullmatch(line.text) and not _TAGS.fullmatch(line.text):
            return False
        else:
            self._end_prose()
        self.at += 1
        return True

    def _take_table(self, line: Line) -> bool:
        if "|" not in line.text:
            return False
        is_rule, is_head = _is_table_rule(line.text), _is_table_rule(self._text_at(self.at + 1))
        before = self._text_at(self.at - 1)
        is_behind_row = bool(self.blocks) and self.blocks[-1].kind == "row" and not self.prose and "|" in before
        if not (is_rule or is_head or line.text.startswith("|") or is_behind_row or _is_table_rule(before)):
            return False
        if is_rule:
            self._end_prose()
        else:
            text = line.text.rstrip("| \t")
            skipped = len(text) - len(text.lstrip("| \t"))
            self._add(line, replace(line, end=line.start + len(text)), "heading" if is_head else "row", skipped)
        self.at += 1
        return True

    def _text_at(self, at: int) -> str:
        return self.lines[at].text if 0 <= at < len(self.lines) else ""

    def _take_endnotes(self, line: Line) -> bool:
        reference_list = self.reference_lists.get(self.at)
        if reference_list is None:
            return self._take_listed(line) or self._take_lone_heading(line)
        if reference_list.first > self.at:
            self._add(line, line, "heading")
        for each in self.lines[reference_list.first : reference_list.end]:
            if each.text:
                self._add(each, each, "note")
        self.entries.extend(reference_list.entries)
        self.at = reference_list.end
        return True

    def _take_listed(self, line: Line) -> bool:
        entries = list_in_one_line(line.text, line.start, self.known)
        if not entries:
            return False
        self._add(line, line, "note")
        self.entries.extend(entries)
        self.at += 1
        return True

    def _take_lone_heading(self, line: Line) -> bool:
        """Read a heading such as "Notes" that no reference list follows."""
        if self.prose or not heads_a_list(line.text):
            return False
        is_marked = line.text.endswith((":", "**", "#")) or line.text.startswith(("#", "*"))
        if not is_marked and self._text_at(self.at + 1) and not self.lines[self.at + 1].starts_block:
            return False
        self._add(line, line, "heading", len(line.text) - len(line.text.lstrip("# \t")))
        self.at += 1
        return True

    def _take_line(self, line: Line) -> bool:
        heading = _HEADING.match(line.text)
        if heading:
            self._add(line, line, "heading", heading.end())
            self.in_list = False
        elif _defines_link(line.text):
            self._add(line, line, "note")
        elif label := DEFINITION.match(line.text):
            self._add(line, line, "prose", label.end() if label["name"] else 0)
        else:
            return False
        self.at += 1
        return True


def _defines_link(text: str) -> bool:
    found = _LINK.match(text)
    return found is not None and is_title(found["label"].strip("^ 0123456789")) and is_title(found["title"] or "")


def _closes(text: str, fence: str) -> bool:
    found = _FENCE.fullmatch(text)
    return found is not None and found["fence"].startswith(fence) and not found["info"].strip()


def _is_table_rule(text: str) -> bool:
    return "|" in text and _TABLE_RULE.fullmatch(text) is not None


def read_layout(text: str, known: Known | None = None) -> Layout:
    """Read the blocks of a text. Known sources help to distinguish a reference list from other lists."""
    reader = _Reader(text, known)
    reader.read()
    return Layout(text, tuple(reader.blocks), tuple(reader.entries), known)


def code_spans(layout: Layout) -> Iterator[tuple[int, int]]:
    """Yield the positions of code in order: code blocks and inline code."""
    for block in layout.blocks:
        if block.kind == "code":
            yield block.start, block.end
        elif block.kind != "note":
            yield from _inline_code(layout.text, block.start, block.end)


def _inline_code(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    # In CommonMark, inline code ends at the next run of as many backticks. The index by length keeps the time linear.
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(text, start, end)]
    by_length: dict[int, list[int]] = {}
    for at, (first, last) in enumerate(runs):
        by_length.setdefault(last - first, []).append(at)
    at = 0
    while at < len(runs):
        first, last = runs[at]
        same = by_length[last - first]
        after = bisect_right(same, at)
        if after < len(same):
            yield first, runs[same[after]][1]
            at = same[after]
        at += 1
