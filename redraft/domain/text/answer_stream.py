"""Publish an answer while the model streams it, without thinking text (`redraft.domain.text.thinking`)."""

import re
from collections.abc import Callable

from redraft.domain.text.thinking import BLANKS, BLOCK, CLOSER, OPENER, answer_in, find_answer

# The longest closing tag, with the blanks and headings around it.
_CLOSER_CHARS = 200
# Each piece is tested with this cheap pattern first. Most pieces contain no tag, and skip the large pattern.
_HINT_OF_A_CLOSER = re.compile(r"[<\[◁#*]|done|final|response", re.IGNORECASE)
# Phrases that begin thinking. A text is not published as long as it may become such a phrase.
_LEAD_INS = ("thinking...", "thinking…", "here is my thought process:", "here's my thought process:", "analysis")
_UNCLEAR = re.compile(
    r"<[^<>\n]{0,300}|(?:<\|?[\w ]{0,40}\|?>?[\w ]{0,40}){1,6}|\[/?[\w ]{0,20}|◁/?\w{0,9}|\*|(?:\#|\*\*)[^\n]{0,60}"
    r"|<details\b[^<>]{0,200}>\s*(?:<[^<>\n]{0,60}(?:>[^<>]{0,100}(?:<[^<>\n]{0,20})?)?)?"
)
_MAY_END_THE_TURN = re.compile(r"(?:\s|</?[|\uff5c]?[\w\u2581]{0,30}[|\uff5c]?(?:>|\Z)|\[\|?[\w ]{0,30}\|?\]?)+\Z")
_END_CHARS = 200
# The repeated search for the beginning of the answer takes quadratic time, so it reads this much text at most. If
# the beginning is not found until then, the whole answer is published at the end.
_READ_CHARS_MAX = 1_000_000


class AnswerStream:
    """Publishes an answer in pieces. All pieces joined are the answer.

    An empty piece withdraws all earlier pieces. It is published after a closing tag without an opening tag, because
    this tag shows that the earlier pieces were thinking.
    """

    def __init__(self, publish: Callable[[str], None]) -> None:
        self._publish = publish
        self._text = ""
        self._start: int = 0
        self._chars = 0
        self._is_answer = False
        self._is_thinking = False
        self._read_chars = 0
        self._is_held = False

    def __call__(self, piece: str) -> None:
        """Take the next piece of the model's text."""
        before = len(self._text)
        self._text += piece
        is_open = not (self._is_answer or self._is_thinking) and bool(piece.strip())
        if self._read_chars < _READ_CHARS_MAX and (is_open or self._closes_in(before)):
            self._read_chars += len(self._text)
            self._read()
        if self._is_answer and not self._holds_thinking(before):
            self._advance()

    def finish(self, text: str) -> None:
        """Publish the rest of the answer from the complete text."""
        answer = answer_in(text)
        if not answer.startswith(self._text[self._start : self._start + self._chars]):
            self._withdraw()
        self._emit(answer[self._chars :])

    def _holds_thinking(self, before: int) -> bool:
        """Whether thinking may have begun in the middle of the text. If so, the rest is published at the end."""
        start = max(self._start, before - _CLOSER_CHARS)
        self._is_held = self._is_held or any(
            OPENER.match(line[0].lstrip()) for line in BLOCK.finditer(self._text, start)
        )
        return self._is_held

    def _closes_in(self, before: int) -> bool:
        """Whether a closing tag ends in the last piece."""
        start = max(0, before - _CLOSER_CHARS)
        if not _HINT_OF_A_CLOSER.search(self._text, start):
            return False
        return any(closer.end() > before for closer in CLOSER.finditer(self._text, start))

    def _read(self) -> None:
        """Find the beginning of the answer in the text so far."""
        position = find_answer(self._text)
        if self._chars and position.start != self._start:
            self._withdraw()
        self._start = position.start
        rest = BLANKS.sub("", self._text[position.start :], count=1)
        self._is_thinking = position.is_thinking or OPENER.match(rest) is not None
        self._is_answer = not self._is_thinking and bool(rest) and not _is_unclear(rest)

    def _advance(self) -> None:
        end = _MAY_END_THE_TURN.search(self._text, max(self._start, len(self._text) - _END_CHARS))
        sure = end.start() if end else len(self._text)
        self._emit(self._text[self._start + self._chars : sure])

    def _withdraw(self) -> None:
        if self._chars:
            self._publish("")
        self._chars = 0

    def _emit(self, piece: str) -> None:
        if piece:
            self._chars += len(piece)
            self._publish(piece)


def _is_unclear(text: str) -> bool:
    """Whether the text may still begin with thinking."""
    words = text.lower()
    is_lead_in = any(lead_in.startswith(words) or words.startswith(lead_in) for lead_in in _LEAD_INS)
    return is_lead_in or _UNCLEAR.fullmatch(text) is not None
