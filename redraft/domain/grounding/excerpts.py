"""Shorten sources to excerpts if they are too long for an evaluator; `[…]` stands for omitted parts."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from redraft.domain.grounding.citations import cited_numbers
from redraft.domain.text.cleaning import preview
from redraft.domain.text.content_words import read_content

GAP = "[…]"
_PASSAGE_CHARS = 800
_BREAK = re.compile(r"\n\s*\n|(?<=[.!?\u3002\uff01\uff1f])\s+|\n")


@dataclass(frozen=True, slots=True)
class _Passage:
    """A part of a source; `worth` is the number of different words and numbers that it shares with the answer."""

    source: int
    start: int
    end: int
    worth: int


def excerpts(contents: Sequence[str], answer: str, chars: int) -> list[str]:
    """Cut the sources to `chars` characters in total.

    If all sources together fit, they stay whole. Otherwise the passages most similar to the answer are chosen: first a
    passage of each cited source, then a passage of each other source, then further passages. The chosen passages keep
    their order. A source of which no passage stays becomes `[…]`.
    """
    if sum(map(len, contents)) <= chars:
        return list(contents)
    wanted = _words(answer)
    passages = [
        _Passage(at, start, end, len(wanted & _words(content[start:end])))
        for at, content in enumerate(contents)
        for start, end in _spans(content)
    ]
    spans: list[list[tuple[int, int]]] = [[] for _ in contents]
    chars_left = chars
    for each in _ranked(passages, cited_numbers(answer, len(contents))):
        # A passage that does not fit is skipped, so that a shorter one can use the space.
        if each.end - each.start <= chars_left:
            spans[each.source].append((each.start, each.end))
            chars_left -= each.end - each.start
    return [_joined(content, sorted(kept)) for content, kept in zip(contents, spans, strict=True)]


def _ranked(passages: Sequence[_Passage], cited: Collection[int]) -> list[_Passage]:
    """Order the passages so that no source displaces all other sources, not even a source that was written to do so."""
    by_worth = sorted(passages, key=lambda passage: (-passage.worth, passage.source, passage.start))
    first: dict[int, _Passage] = {}
    for each in by_worth:
        first.setdefault(each.source, each)
    leading = sorted(first.values(), key=lambda passage: (passage.source + 1 not in cited, -passage.worth))
    return [*leading, *(each for each in by_worth if first[each.source] is not each)]


def _words(text: str) -> frozenset[str]:
    read = read_content(text)
    return frozenset(read.stems) | {str(value) for _, values in read.numbers for value in values}


def _spans(content: str) -> Iterator[tuple[int, int]]:
    """Split a source at paragraphs and sentences, and join them up to the length of a passage."""
    start = at = 0
    for end in [*(found.end() for found in _BREAK.finditer(content)), len(content)]:
        if end - start > _PASSAGE_CHARS and at > start:
            yield start, at
            start = at
        while end - start > 2 * _PASSAGE_CHARS:
            cut = start + (len(preview(content[start:end], _PASSAGE_CHARS)) - 1 or _PASSAGE_CHARS)
            yield start, cut
            start = cut
        at = end
    if start < len(content):
        yield start, len(content)


def _joined(content: str, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start > at:
            parts.append(GAP)
        parts.append(content[start:end].strip())
        at = end
    if at < len(content):
        parts.append(GAP)
    return "\n".join(parts)
