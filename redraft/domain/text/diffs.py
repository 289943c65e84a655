"""Compare two answers word by word.

White space is ignored, and unchanged text is shown as in the new answer. The time is limited: a part that exceeds the
limit counts as replaced, without a comparison of its words.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Literal

from redraft.caching import lazy_pattern

# Longer answers are cut before the comparison.
CHARS_MAX = 200_000
# The maximum number of compared pairs of words or lines, which bounds the time.
_WORK_MAX = 4_000_000
# A short unchanged word such as "the" between two changes makes a diff harder to read, so it counts as changed.
_ISLAND_CHARS = 3
_EAST_ASIAN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_TOKEN = lazy_pattern(rf"(?:[{_EAST_ASIAN}]|[^\W{_EAST_ASIAN}]+|[^\w\s])\s*|\s+")

Kind = Literal["equal", "delete", "insert"]
_Span = tuple[bool, int, int, int, int]


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A part of the text: in both answers, only in the old one, or only in the new one."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Diff:
    """The parts in order; `is_cut`: the comparison ignores the ends of long answers."""

    parts: tuple[DiffPart, ...]
    is_cut: bool = False


def compare_words(old: str, new: str) -> Diff:
    """Compare two answers: lines first, then the words of lines that differ."""
    is_cut = max(len(old), len(new)) > CHARS_MAX
    parts = _Comparison().compare(old[:CHARS_MAX], new[:CHARS_MAX])
    return Diff(tuple(_joined(parts)), is_cut)


class _Comparison:
    def __init__(self) -> None:
        self._room = _WORK_MAX

    def compare(self, old: str, new: str) -> Iterator[DiffPart]:
        before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
        for is_same, i1, i2, j1, j2 in self._spans(before, after):
            if is_same:
                yield DiffPart("equal", "".join(after[j1:j2]))
            else:
                yield from self._compare_words("".join(before[i1:i2]), "".join(after[j1:j2]))

    def _compare_words(self, old: str, new: str) -> Iterator[DiffPart]:
        before, after = _TOKEN.findall(old), _TOKEN.findall(new)
        for is_same, i1, i2, j1, j2 in _without_islands(list(self._spans(before, after)), before):
            if not is_same:
                yield DiffPart("delete", "".join(before[i1:i2]))
            yield DiffPart("equal" if is_same else "insert", "".join(after[j1:j2]))

    def _spans(self, before: Sequence[str], after: Sequence[str]) -> Iterator[_Span]:
        """Yield (is equal, start and end in the old text, start and end in the new text) in order."""
        old, new = [each.strip() for each in before], [each.strip() for each in after]
        head = _common(old, new)
        tail = _common(old[head:][::-1], new[head:][::-1])
        yield True, 0, head, 0, head
        old_end, new_end = len(old) - tail, len(new) - tail
        for is_same, i1, i2, j1, j2 in self._matched(old[head:old_end], new[head:new_end]):
            yield is_same, i1 + head, i2 + head, j1 + head, j2 + head
        yield True, old_end, len(old), new_end, len(new)

    def _matched(self, old: Sequence[str], new: Sequence[str]) -> list[_Span]:
        work = len(old) * len(new)
        if work > self._room:
            return [(False, 0, len(old), 0, len(new))]
        self._room -= work
        opcodes = SequenceMatcher(None, old, new).get_opcodes()
        return [(tag == "equal", i1, i2, j1, j2) for tag, i1, i2, j1, j2 in opcodes]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the length of the common beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _without_islands(spans: Sequence[_Span], words: Sequence[str]) -> Iterator[_Span]:
    """Join changes that only a short word separates."""
    filled = [span for span in spans if span[1] < span[2] or span[3] < span[4]]
    last = len(filled) - 1

    def is_kept(at: int) -> bool:
        is_same, start, end, _, _ = filled[at]
        return is_same and (at in {0, last} or len("".join(words[start:end]).strip()) > _ISLAND_CHARS)

    for is_same, group in groupby(range(len(filled)), key=is_kept):
        run = [filled[at] for at in group]
        yield is_same, run[0][1], run[-1][2], run[0][3], run[-1][4]


def _joined(parts: Iterable[DiffPart]) -> Iterator[DiffPart]:
    """Drop empty parts and join neighbours of the same kind."""
    for kind, group in groupby((part for part in parts if part.text), key=attrgetter("kind")):
        yield DiffPart(kind, "".join(part.text for part in group))
