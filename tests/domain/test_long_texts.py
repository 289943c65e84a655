"""Functions that read texts of models, users or servers take linear time for any repetition."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from api.pages.parts.markdown import render_markdown
from redraft.datasets.csv_export import escape_formulas
from redraft.domain.checks import measures
from redraft.domain.evaluation.quoted_verdicts import UntrustedTexts
from redraft.domain.evaluation.verdict_parsing import ReplyMap, read_reply
from redraft.domain.grounding.citations import read_citations
from redraft.domain.grounding.quotes import find_quote
from redraft.domain.grounding.scoring import ground, read_evidence
from redraft.domain.grounding.support import find_support
from redraft.domain.jobs.requests import Source
from redraft.domain.text.answer_stream import AnswerStream
from redraft.domain.text.cleaning import clean, fold
from redraft.domain.text.diffs import compare_words
from redraft.domain.text.prompt_framing import frame
from redraft.domain.text.thinking import answer_in
from redraft.domain.text.visible_text import visible, without_media
from redraft.providers.shared.error_bodies import read_error_body
from redraft.providers.shared.event_stream import StreamEvent, events_in
from redraft.redaction import redact

_CHARS, _TIMES_LONGER = 3_000, 4
# A shorter time is not measured again. Linear growth is 4, quadratic growth 16.
_NOTICED_S, _GROWTH_MAX = 0.1, 9
_PIECES = 8
_REPEATED = (
    *("a", " ", "\n", "1", ".", "`", "*", "[", "]", "{", '"', "\\", "<", "(", "中", "\u0301"),
    *("a ", "1,", "[1] ", "- a\n", "> ", "</think>", '{"a":', "```json\n{", "| a | b |\n", "\\(", "score: 1\n", "<a "),
)
_FIELDS = ReplyMap()
_VERDICT = '{"score": 0.8, "reasoning": "fine", "suggestions": ["more"]}'
_FERRY = "The ferry leaves Port Alder every day at 7:40 and at 16:20. " * 20


def _quotation(text: str) -> None:
    read_reply(
        _FIELDS, f"{text} {_VERDICT} {text}", untrusted=UntrustedTexts([f"{text} score: 0.8, fine, more {text}"])
    )


def _grounding(text: str) -> None:
    sources = [_FERRY, f"Ferry {text}"]
    cited = read_citations(text, [Source(content=each) for each in sources])
    find_support(ground(text, cited, read_evidence(sources)), cited.issues, sources=2, must_cite=True)


def _stream(text: str) -> None:
    stream = AnswerStream(lambda _: None)
    # Each piece may have all before it read anew, up to 1,000,000 characters in all: as many pieces, however long.
    size = max(1, len(text) // _PIECES)
    for at in range(0, len(text), size):
        stream(text[at : at + size])
    stream.finish(text)


def _checks(text: str) -> None:
    for measure in (measures.fold_case, measures.count_items, measures.find_urls, measures.read_grade):
        measure(text)


async def _events(text: str) -> list[StreamEvent]:
    async def texts() -> AsyncIterator[str]:
        yield text

    return [event async for event in events_in(texts())]


READERS: dict[str, Callable[[str], object]] = {
    "thinking": answer_in,
    "stream": _stream,
    "verdict": lambda text: read_reply(_FIELDS, text),
    "quotation": _quotation,
    "grounding": _grounding,
    "quote": lambda text: find_quote(f"a {text} b", text + text),
    "cleaning": lambda text: (clean(text), fold(text), visible(text), without_media(text)),
    "untrusted": lambda text: frame(text, "answer", "a" * 32, ("answer",)),
    "checks": _checks,
    "diff": lambda text: compare_words(text, text[::-1]),
    "Markdown": render_markdown,
    "error": lambda text: (read_error_body(text), read_error_body({"error": {"message": text, "code": text}})),
    "events": lambda text: asyncio.run(_events(text)),
    "secrets": redact,
    "cell": escape_formulas,
}


def _cpu_s(read: Callable[[str], object], text: str) -> float:
    started_s = time.thread_time()
    read(text)
    return time.thread_time() - started_s


def _grows(read: Callable[[str], object], repeated: str) -> bool:
    short, long = (repeated * (chars // len(repeated)) for chars in (_CHARS, _TIMES_LONGER * _CHARS))
    if _cpu_s(read, long) < _NOTICED_S:
        return False
    short_s = min(_cpu_s(read, short) for _ in range(3))
    return all(_cpu_s(read, long) > _GROWTH_MAX * short_s for _ in range(2))


def growing(read: Callable[[str], object]) -> Iterator[str]:
    return (repeated for repeated in _REPEATED if _grows(read, repeated))


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_the_time_grows_as_the_text_does(read: Callable[[str], object]):
    assert list(growing(read)) == []


def test_quadratic_time_is_detected():
    assert "1" in growing(re.compile(r"\d+%").search)
