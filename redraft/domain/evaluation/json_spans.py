"""Locate the outermost JSON objects in a reply outside of its thinking text, with the text around each of them."""

import re
from collections import deque
from dataclasses import dataclass, replace

from redraft.caching import lazy_pattern
from redraft.domain.evaluation.lenient_json import JsonObject, load_json
from redraft.domain.evaluation.quoted_verdicts import UntrustedTexts
from redraft.domain.text.thinking import (
    CLOSER,
    CLOSER_PATTERN,
    OPENER,
    OPENER_PATTERN,
    SpellingKey,
    closes_alone,
    end_of_thought,
    key_of,
    last_end_of_thought,
    may_stay_open,
)

# Each object takes time, and no reply with a verdict has so many.
OBJECTS_MAX = 1_000

_NEARBY_CHARS = 500
# Code fences and tags around an object do not belong to a sentence about the object.
_WRAPPING = lazy_pattern(r"`{3,}\w*|<[^<>\n]{0,60}>")
_LEAD = lazy_pattern(r"(?<!\w)\w++\W++\w++[^\w:]*+\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a reply that begins like a JSON object.

    Attributes:
        is_closed: its closing brace exists; otherwise the part ends where the reply ends.
        is_alone: the reply contains nothing else.
        before: the text before the part, in the same line.
        after: the text after the part, up to a limit.
    """

    source: str
    is_closed: bool
    is_alone: bool = False
    before: str = ""
    after: str = ""

    @property
    def has_lead(self) -> bool:
        """Whether words without a colon precede the object in its line, as in a sentence about the object."""
        return bool(_LEAD.search(_WRAPPING.sub("", self.before)))

    @property
    def has_sequel(self) -> bool:
        """Whether words follow the object in its line."""
        return bool(re.search(r"\w", _WRAPPING.sub("", re.split(r"[\n{]", self.after)[0])))


_NEXT = lazy_pattern(
    rf"(?P<opener>{OPENER_PATTERN})|(?P<closer>{CLOSER_PATTERN})"
    r"""|(?P<object>\{(?=\s*+(?:["'“}/#]|[a-z_]\w{0,40}\s{0,9}:)))""",
    re.IGNORECASE,
)
_TOKEN = lazy_pattern(rf'"(?:[^"\\]++|\\.?)*+"?|[{{}}]|(?P<closer>{CLOSER_PATTERN})', re.DOTALL | re.IGNORECASE)


def find_spans(text: str, untrusted: UntrustedTexts) -> tuple[list[Span], bool]:
    """Return the spans, and whether the text ends within thinking text.

    The text is read once from left to right, because only this shows which thinking tags are within a string of an
    object. Tags within a string are plain text.
    """
    spans: list[Span] = []
    unclosed: set[SpellingKey] = set()
    at = start = 0
    while (found := _NEXT.search(text, at)) and len(spans) <= OBJECTS_MAX:
        at = max(found.end(), found.start() + 1)
        if found["object"]:
            at = _take_object(text, found.start(), spans, untrusted)
        elif found["closer"]:
            if _ends_thinking(text, found.start(), untrusted):
                # The opening tag was in the prompt, so all text before the closing tag is thinking.
                spans.clear()
                start = at
        elif (opener := OPENER.match(text, found.start())) and _begins_thinking(opener, untrusted):
            end = None if key_of(opener) in unclosed else _end_of_thought(text, opener, untrusted)
            if end is None and may_stay_open(opener):
                return spans, True
            if end is None:
                unclosed.add(key_of(opener))
            at = max(at, end or 0)
            start = at if end and not spans else start
    return _mark_alone(text[start:], spans), False


_AROUND = lazy_pattern(r"\A\s*(?:<\|?\w{1,20}\|?>\s*)?`{3,}\w*|`{3,}\s*\Z|(?:</?\|?\w{1,20}\|?>\s*){1,3}\Z")


def _end_of_thought(text: str, opener: re.Match[str], untrusted: UntrustedTexts) -> int | None:
    end = end_of_thought(text, opener, untrusted.closing)
    if end is not None or text[: opener.start()].strip():
        return end
    # If an untrusted text contains the closing tag, the thinking may quote it. Then the last closing tag counts, but
    # only if one object and nothing else follows the tag.
    last = last_end_of_thought(text, opener)
    is_last = last is not None and isinstance(load_json(_AROUND.sub("", text[last:]).strip()), JsonObject)
    return last if is_last else None


def _mark_alone(text: str, spans: list[Span]) -> list[Span]:
    if len(spans) != 1 or not spans[0].is_closed:
        return spans
    beside = _WRAPPING.sub("", text.replace(spans[0].source, "", 1))
    return spans if re.search(r"\w", beside) else [replace(spans[0], is_alone=True)]


def _begins_thinking(opener: re.Match[str], untrusted: UntrustedTexts) -> bool:
    """Return whether an opening tag is the evaluator's own, and not a quotation from an untrusted text."""
    return not opener.string[: opener.start()].strip() or key_of(opener) not in untrusted.opening


def _ends_thinking(text: str, at: int, untrusted: UntrustedTexts) -> bool:
    closer = CLOSER.match(text, at)
    return closer is not None and closes_alone(closer) and key_of(closer) not in untrusted.closing


def _take_object(text: str, start: int, spans: list[Span], untrusted: UntrustedTexts) -> int:
    """Append the object that begins at `start`, and return the position after it."""
    last = _object_end(text, start, untrusted)
    if last is None:
        spans.append(Span(text[start:], is_closed=False))
        return len(text)
    end = last.end()
    if last[0] == "}":
        before = re.split(r"[\n}]", text[max(0, start - _NEARBY_CHARS) : start])[-1]
        spans.append(Span(text[start:end], is_closed=True, before=before, after=text[end : end + _NEARBY_CHARS]))
    else:
        # A closing tag came before the closing brace: the object is within thinking that the prompt opened.
        spans.clear()
    return end


def _object_end(text: str, start: int, untrusted: UntrustedTexts) -> re.Match[str] | None:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth == 0 or (token["closer"] and _ends_thinking(text, token.start(), untrusted)):
            return token
    closers = (each for each in CLOSER.finditer(text, start) if _ends_thinking(text, each.start(), untrusted))
    return next(iter(deque(closers, maxlen=1)), None)
