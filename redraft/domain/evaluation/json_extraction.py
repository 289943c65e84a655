"""The one JSON object in a model's reply, whatever surrounds it, or a plain statement of why there is none.

No text raises, nothing is invented, and what a message says is for people and the record: it never goes back
to a generator.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, cast

from redraft.domain.calls.finish_reasons import Finish, classify_finish
from redraft.domain.evaluation.json_objects import JsonObject, load_json, mend_json
from redraft.domain.evaluation.untrusted import NOTHING_UNTRUSTED, Statement, Untrusted, tokens
from redraft.domain.evaluation.verdict_places import NOWHERE, WRAPPING, Place, place_of
from redraft.domain.text.cleaning import clean, fold, preview
from redraft.domain.text.thinking import (
    CLOSER,
    CLOSER_PATTERN,
    OPENER,
    OPENER_PATTERN,
    SpellingKey,
    answer_in,
    closes_alone,
    end_of_thought,
    key_of,
    last_end_of_thought,
    may_stay_open,
)

T = TypeVar("T")

UnusableKind = Literal[
    "no_verdict", "invalid_json", "missing_score", "invalid_score", "ambiguous", "truncated", "incomplete"
]

OBJECTS_MAX = 1_000
# json-repair takes quadratic time on hostile text: beyond this much per reply it is not asked.
REPAIR_CHARS_MAX = 30_000
REPAIR_MARKS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Unusable:
    """A reply without a verdict: a kind for programs, a message for people."""

    kind: UnusableKind
    message: str


@dataclass(frozen=True, slots=True)
class Found:
    """The one object of a reply.

    Attributes:
        value: the object, its texts not yet cleaned.
        repaired: it was not valid JSON.
        repeated: the keys that it names more than once with different values.
        source: how it is written.
        is_closed: it has its end.
        is_alone: the reply holds nothing beside it.
        place: what stands around it.
    """

    value: Mapping[str, Any]
    repaired: bool
    repeated: frozenset[str]
    source: str = field(default="", compare=False)
    is_closed: bool = field(default=True, compare=False)
    is_alone: bool = field(default=False, compare=False)
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def lost_text(self) -> bool:
        """Whether words of what was written are missing in a mended object."""
        return self.repaired and bool(_words(self.source) - _words(_as_json(self.value)))


def _words(text: str) -> Counter[str]:
    return Counter(tokens(text).split())


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """How the one verdict in a reply is recognised and read.

    Attributes:
        is_verdict: whether an object is one.
        read: what it says, or why that cannot be read.
        state: its decisions and words, by which a quoted one is recognised.
    """

    is_verdict: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Found], T | Unusable]
    state: Callable[[T], Statement] = lambda _: Statement((), ())


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of text that begins like a JSON object; not closed = it runs to the end of the text."""

    source: str
    is_closed: bool
    is_alone: bool = False
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class _Reading:
    span: _Span
    value: JsonObject | None
    repaired: bool

    def verdicts(self, is_verdict: Callable[[Mapping[str, Any]], bool]) -> list[Found]:
        """The object as a verdict, or those that are wrapped in it."""
        if self.value is None:
            return []
        if not self.span.is_closed:
            # The last member may itself be cut: a 0 could have become 0.85.
            is_whole = is_verdict(dict(list(self.value.items())[:-1]))
            return [self._found(self.value, self.span.source)] if is_whole else []
        if is_verdict(self.value):
            return [self._found(self.value, self.span.source, is_alone=self.span.is_alone)]
        return [self._found(inner, _as_json(inner)) for inner in _wrapped(self.value, is_verdict)]

    def _found(self, value: JsonObject, source: str, *, is_alone: bool = False) -> Found:
        span = self.span
        return Found(value, self.repaired, value.repeated, source, span.is_closed, is_alone, span.place)


# What models and servers wrap around a verdict; what stands under any other name is something else.
_ENVELOPE = re.compile(
    r"(?:the|my|final)*(?:evaluations?|verdicts?|results?|response|reply|output|assessment|judge?ment|grading|review"
    r"|report|json|data|object|value|content|text|properties|message|submission)(?:results?|output|report|object|data|json)?"
    r"|arguments|args|parameters|params|input|functions?|functioncall|toolcalls?|toolinput|toolargs"
)
_ENVELOPES_MAX = 4


def _wrapped(
    value: JsonObject, is_verdict: Callable[[Mapping[str, Any]], bool], room: int = _ENVELOPES_MAX
) -> Iterator[JsonObject]:
    for key, member in value.items():
        if not _ENVELOPE.fullmatch(re.sub(r"[^a-z]", "", key.lower())):
            continue
        for inner in _objects_of(member, value):
            if is_verdict(inner):
                yield inner
            elif room:
                yield from _wrapped(inner, is_verdict, room - 1)


def _objects_of(member: Any, outer: JsonObject) -> list[JsonObject]:
    if isinstance(member, str) and member.lstrip()[:1] == "{":
        member = load_json(member.strip())
    items = cast("list[Any]", member) if isinstance(member, list) else [member]
    return [_inherited(cast("dict[str, Any]", item), outer) for item in items if isinstance(item, dict)]


def _inherited(value: dict[str, Any], outer: JsonObject) -> JsonObject:
    """An inner object; that of a mended one knows by its outer one what was repeated."""
    if isinstance(value, JsonObject):
        return value
    inner = JsonObject(value)
    times = outer.times or Counter[str]()
    inner.repeated, inner.times = frozenset(key for key in inner if times[key.strip()] > 1), outer.times
    return inner


def find_object(
    text: str, finish_reason: str | None, is_verdict: Callable[[Mapping[str, Any]], bool]
) -> Found | Unusable:
    """Find the one object in a reply that `is_verdict` recognises."""
    read = read_verdict(Reader(is_verdict, _fields_of), text, finish_reason, NOTHING_UNTRUSTED)
    return read if isinstance(read, Unusable) else read[0]


def read_verdict(
    reader: Reader[T], text: str, finish_reason: str | None, untrusted: Untrusted
) -> tuple[Found, T] | Unusable:
    """Read the one verdict in a reply that is the evaluator's own.

    The whole text as JSON comes first, untouched; else thinking text is dropped, and every object counts, fenced or
    bare. What is not valid JSON is mended, if the finish reason promises a whole reply. A verdict that stands in an
    untrusted text is a quotation. Of those that are left, all must say the same.
    """
    found = _find_objects(text, finish_reason, reader.is_verdict, untrusted)
    if isinstance(found, Unusable):
        return found
    verdicts = [(each, reader.read(each)) for each in found]
    own = [(each, read) for each, read in verdicts if not _is_quoted(each, read, reader, untrusted)]
    if not own:
        words = "The reply holds no verdict of its own, only what it quotes from the texts that it was given."
        return Unusable("missing_score", words)
    first, read = own[0]
    if any(other != read for _, other in own):
        return Unusable("ambiguous", f"The reply holds {len(own)} different verdicts.")
    if not isinstance(read, Unusable) and untrusted.is_contradicted(reader.state(read), found[-1].place.behind):
        return Unusable("ambiguous", "The reply gives another score in words behind its verdict.")
    return read if isinstance(read, Unusable) else (first, read)


def _is_quoted(found: Found, read: T | Unusable, reader: Reader[T], untrusted: Untrusted) -> bool:
    is_cut = not found.is_closed
    if isinstance(read, Unusable):
        return untrusted.holds_object(found.source, is_cut=is_cut)
    if found.is_alone:
        return untrusted.holds_whole_reply(reader.state(read), found.source)
    statement = reader.state(read)
    if found.place.is_within_a_sentence or (found.place.is_beside_words and untrusted.states_all(statement)):
        return True
    return untrusted.holds_verdict(statement, found.source, is_cut=is_cut)


def _find_objects(
    text: str, finish_reason: str | None, is_verdict: Callable[[Mapping[str, Any]], bool], untrusted: Untrusted
) -> list[Found] | Unusable:
    source = text.strip().removeprefix("\ufeff").lstrip()
    whole = load_json(source)
    if isinstance(whole, JsonObject):
        verdicts = _Reading(_Span(source, is_closed=True, is_alone=True), whole, repaired=False).verdicts(is_verdict)
        return verdicts or Unusable("missing_score", f"The reply is a JSON object without a score: {_excerpt(text)}")
    # The objects in a list are looked at one by one, like those in prose.
    if whole is not None and not isinstance(whole, list):
        return Unusable("no_verdict", f"The reply is JSON but no object: {_excerpt(text)}")
    spans, in_thought = _scan(text, untrusted)
    if len(spans) > OBJECTS_MAX:
        return Unusable("ambiguous", f"The reply holds more than {OBJECTS_MAX} objects: {_excerpt(text)}")
    is_cut = may_be_cut(finish_reason)
    readings = [_read(span) for span in spans] if is_cut else _read_ormend_json(spans)
    verdicts = [found for reading in readings for found in reading.verdicts(is_verdict)]
    if is_cut and (in_thought or not verdicts or not spans[-1].is_closed):
        reason = f"finish reason {finish_reason}" if finish_reason else "no finish reason"
        return Unusable("truncated", f"The reply was cut, or may have been ({reason}): {_excerpt(text)}")
    return verdicts or _explain_absence(text, readings, in_thought=in_thought)


def may_be_cut(finish_reason: str | None) -> bool:
    """Return whether a reply may lack its end: its finish reason does not promise a whole one."""
    return classify_finish(finish_reason) is not Finish.COMPLETE


def repeated_in(value: object) -> frozenset[str]:
    """The keys that an object of a reply, at any depth, names more than once with different values."""
    return value.repeated if isinstance(value, JsonObject) else frozenset()


def times_named(found: Found, name: str) -> int:
    """How often a mended object names a key, at any depth; 0 for one that was valid."""
    times = found.value.times if isinstance(found.value, JsonObject) else None
    return times[name] if times else 0


def _fields_of(found: Found) -> str:
    """What an object says, however its members are ordered."""
    try:
        return json.dumps(found.value, sort_keys=True)
    except RecursionError:
        return "".join(found.source.split())


def _explain_absence(text: str, readings: list[_Reading], *, in_thought: bool) -> Unusable:
    if any(reading.value is None or not reading.span.is_closed for reading in readings):
        return Unusable("invalid_json", f"The JSON in the reply cannot be read: {_excerpt(text)}")
    if readings:
        return Unusable("missing_score", f"No JSON object in the reply has a score: {_excerpt(text)}")
    if in_thought:
        return Unusable("no_verdict", "The reply ends within its thinking text.")
    return Unusable("no_verdict", f"The reply holds no JSON object: {_excerpt(text) or 'it is empty'}")


def _excerpt(text: str) -> str:
    # Thinking is shown to nobody, and goes into no further prompt
    return preview(fold(clean(answer_in(text).strip()[:400])), 100)


_MARK = re.compile(
    rf"(?P<opener>{OPENER_PATTERN})|(?P<closer>{CLOSER_PATTERN})"
    r"""|(?P<object>\{(?=\s*+(?:["'“}/#]|[a-z_]\w{0,40}\s{0,9}:)))""",
    re.IGNORECASE,
)
_TOKEN = re.compile(rf'"(?:[^"\\]++|\\.?)*+"?|[{{}}]|(?P<closer>{CLOSER_PATTERN})', re.DOTALL | re.IGNORECASE)


def _scan(text: str, untrusted: Untrusted) -> tuple[list[_Span], bool]:
    """The outermost objects outside thinking text, and whether the text ends within such.

    One pass from left to right, so that tags inside an object's strings are only characters.
    """
    spans: list[_Span] = []
    unclosed: set[SpellingKey] = set()
    at = start = 0
    while (mark := _MARK.search(text, at)) and len(spans) <= OBJECTS_MAX:
        at = max(mark.end(), mark.start() + 1)
        if mark["object"]:
            at = _take_object(text, mark.start(), spans, untrusted)
        elif mark["closer"]:
            if _ends_thinking(text, mark.start(), untrusted):
                # Its opener stood in the prompt: all before it was thinking.
                spans.clear()
                start = at
        elif (opener := OPENER.match(text, mark.start())) and _begins_thinking(opener, untrusted):
            end = None if key_of(opener) in unclosed else _end_of_thought(text, opener, untrusted)
            if end is None and may_stay_open(opener):
                return spans, True
            if end is None:
                unclosed.add(key_of(opener))
            at = max(at, end or 0)
            start = at if end and not spans else start
    return _alone(text[start:], spans), False


def _end_of_thought(text: str, opener: re.Match[str], untrusted: Untrusted) -> int | None:
    end = end_of_thought(text, opener, untrusted.closing)
    if end is not None or opener.string[: opener.start()].strip():
        return end
    # An answer may speak of the evaluator's own tags: the last of them closes where one object is all that follows
    last = last_end_of_thought(text, opener)
    is_last = last is not None and isinstance(load_json(_AROUND.sub("", text[last:]).strip()), JsonObject)
    return last if is_last else None


_AROUND = re.compile(r"\A\s*(?:<\|?\w{1,20}\|?>\s*)?`{3,}\w*|`{3,}\s*\Z|(?:</?\|?\w{1,20}\|?>\s*){1,3}\Z")


def _alone(text: str, spans: list[_Span]) -> list[_Span]:
    """The spans, where a text holds one object and nothing beside it that one as such."""
    if len(spans) != 1 or not spans[0].is_closed:
        return spans
    beside = WRAPPING.sub("", text.replace(spans[0].source, "", 1))
    return spans if re.search(r"\w", beside) else [replace(spans[0], is_alone=True)]


def _begins_thinking(opener: re.Match[str], untrusted: Untrusted) -> bool:
    """An opener in the middle of a reply may be quoted; at its beginning it is the evaluator's own."""
    return not opener.string[: opener.start()].strip() or key_of(opener) not in untrusted.opening


def _ends_thinking(text: str, at: int, untrusted: Untrusted) -> bool:
    closer = CLOSER.match(text, at)
    return closer is not None and closes_alone(closer) and key_of(closer) not in untrusted.closing


def _take_object(text: str, start: int, spans: list[_Span], untrusted: Untrusted) -> int:
    end = _object_end(text, start, untrusted)
    if end is None:
        spans.append(_Span(text[start:], is_closed=False))
        return len(text)
    if end[0] == "}":
        spans.append(_Span(text[start : end.end()], is_closed=True, place=place_of(text, start, end.end())))
    else:
        # The brace was open in thinking text whose opener stood in the prompt.
        spans.clear()
    return end.end()


def _object_end(text: str, start: int, untrusted: Untrusted) -> re.Match[str] | None:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth == 0 or (token["closer"] and _ends_thinking(text, token.start(), untrusted)):
            return token
    all_closers = (each for each in CLOSER.finditer(text, start) if _ends_thinking(text, each.start(), untrusted))
    closers = deque(all_closers, maxlen=1)
    return closers.pop() if closers else None


def _read(span: _Span) -> _Reading:
    value = load_json(span.source)
    return _Reading(span, value if isinstance(value, JsonObject) else None, repaired=False)


def _read_ormend_json(spans: list[_Span]) -> list[_Reading]:
    readings: list[_Reading] = []
    chars, marks = REPAIR_CHARS_MAX, REPAIR_MARKS_MAX
    for span in spans:
        reading = _read(span)
        if reading.value is None:
            chars -= len(span.source)
            marks -= sum(span.source.count(mark) for mark in "\"'{[(")
            value = mend_json(span.source) if chars >= 0 and marks >= 0 else None
            reading = _Reading(span, value, repaired=True)
        readings.append(reading)
    return readings
