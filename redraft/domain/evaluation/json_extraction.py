"""Extract the verdict from a model's reply, which may contain other text, or return why the reply has no verdict.

`read_verdict` and `find_object` never raise, whatever the reply is, and never invent a value. Their messages are for
users and for the records of calls. No generator sees them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

from redraft.domain.calls.finish_reasons import Finish, classify_finish
from redraft.domain.evaluation.json_spans import OBJECTS_MAX, Span, find_spans
from redraft.domain.evaluation.lenient_json import JsonObject, load_json, repair_json
from redraft.domain.evaluation.quoted_verdicts import NO_UNTRUSTED_TEXTS, Statement, UntrustedTexts, tokens
from redraft.domain.text.cleaning import clean, fold, preview
from redraft.domain.text.thinking import answer_in

T = TypeVar("T")

UnusableKind = Literal[
    "no_verdict", "invalid_json", "missing_score", "invalid_score", "ambiguous", "truncated", "incomplete"
]

# json-repair takes quadratic time on hostile text, so it gets at most this much of one reply.
REPAIR_CHARS_MAX = 30_000
REPAIR_MARKS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Unusable:
    """The reason why a reply has no verdict: a kind for code, and a message for users."""

    kind: UnusableKind
    message: str


class UnreadableError(ValueError):
    """A reply, or an object in it, has no verdict that can be read."""

    def __init__(self, kind: UnusableKind, message: str) -> None:
        super().__init__(message)
        self.unusable = Unusable(kind, message)


@dataclass(frozen=True, slots=True)
class Found:
    """An object in a reply: its value before cleaning, and its text."""

    value: JsonObject
    source: str
    span: Span
    repaired: bool
    is_alone: bool = False

    @property
    def lost_text(self) -> bool:
        """Whether the repair lost words."""
        return self.repaired and bool(_words(self.source) - _words(_as_json(self.value)))


def _words(text: str) -> Counter[str]:
    return Counter(tokens(text).split())


def _as_json(value: object, *, sort_keys: bool = False) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys)
    except RecursionError:
        return ""


IsVerdict = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Functions for one kind of verdict."""

    is_verdict: IsVerdict  # Recognises an object as a verdict
    read: Callable[[Found], T]  # Reads the verdict; raises UnreadableError
    # Lists the decisions and the words of a verdict
    state: Callable[[T], Statement] = lambda _: Statement((), ())


def find_object(text: str, finish_reason: str | None, is_verdict: IsVerdict) -> Found | Unusable:
    """Find the only object in a reply that `is_verdict` recognises."""
    reader = Reader(is_verdict, lambda found: _as_json(found.value, sort_keys=True) or found.source)
    read = read_verdict(reader, text, finish_reason, NO_UNTRUSTED_TEXTS)
    return read if isinstance(read, Unusable) else read[0]


def read_verdict(
    reader: Reader[T], text: str, finish_reason: str | None, untrusted: UntrustedTexts
) -> tuple[Found, T] | Unusable:
    """Read the evaluator's own verdict from a reply.

    A reply that is JSON as a whole is read unchanged. In any other reply, each object outside of the thinking text may
    be the verdict, with or without a code fence. Invalid JSON is repaired only if the finish reason means a complete
    reply. A verdict that an untrusted text contains is a quotation, and does not count. All other verdicts must be
    equal.
    """
    try:
        found = _find_objects(text, finish_reason, reader.is_verdict, untrusted)
    except UnreadableError as error:
        return error.unusable
    verdicts = [(each, _read(reader, each)) for each in found]
    own = [(each, read) for each, read in verdicts if not _is_quoted(each, read, reader, untrusted)]
    if not own:
        words = "The reply contains no verdict of its own, only verdicts that it quotes from the texts of the prompt."
        return Unusable("missing_score", words)
    first, read = own[0]
    if any(other != read for _, other in own):
        return Unusable("ambiguous", f"The reply holds {len(own)} different verdicts.")
    if isinstance(read, Unusable):
        return read
    if untrusted.is_contradicted(reader.state(read), found[-1].span.after):
        return Unusable("ambiguous", "After its verdict, the reply states a different score in words.")
    return first, read


def _read(reader: Reader[T], found: Found) -> T | Unusable:
    try:
        return reader.read(found)
    except UnreadableError as error:
        return error.unusable


def _is_quoted(found: Found, read: T | Unusable, reader: Reader[T], untrusted: UntrustedTexts) -> bool:
    span, is_truncated = found.span, not found.span.is_closed
    if isinstance(read, Unusable):
        return untrusted.holds_object(found.source, is_truncated=is_truncated)
    statement = reader.state(read)
    if found.is_alone:
        return untrusted.holds_whole_reply(statement, found.source)
    # An object in the middle of a sentence is a quotation, not the reply.
    if span.has_lead and span.has_sequel:
        return True
    if (span.has_lead or span.has_sequel) and untrusted.states_all(statement):
        return True
    return untrusted.holds_verdict(statement, found.source, is_truncated=is_truncated)


def _find_objects(
    text: str, finish_reason: str | None, is_verdict: IsVerdict, untrusted: UntrustedTexts
) -> list[Found]:
    source = text.strip().removeprefix("\ufeff").lstrip()
    whole = load_json(source)
    if isinstance(whole, JsonObject):
        span = Span(source, is_closed=True, is_alone=True)
        if verdicts := _verdicts(span, whole, is_verdict, repaired=False):
            return verdicts
        raise UnreadableError("missing_score", f"The reply is a JSON object without a score: {_excerpt(text)}")
    # The objects in a list are read one by one, like the objects in prose.
    if whole is not None and not isinstance(whole, list):
        raise UnreadableError("no_verdict", f"The reply is JSON but no object: {_excerpt(text)}")
    spans, in_thought = find_spans(text, untrusted)
    if len(spans) > OBJECTS_MAX:
        raise UnreadableError("ambiguous", f"The reply holds more than {OBJECTS_MAX} objects: {_excerpt(text)}")
    is_truncated = may_be_truncated(finish_reason)
    values = list(_load(spans, may_repair=not is_truncated))
    verdicts = [
        found
        for span, (value, repaired) in zip(spans, values, strict=True)
        for found in _verdicts(span, value, is_verdict, repaired=repaired)
    ]
    if is_truncated and (in_thought or not verdicts or not spans[-1].is_closed):
        reason = f"finish reason {finish_reason}" if finish_reason else "no finish reason"
        raise UnreadableError("truncated", f"The reply is cut off, or may be ({reason}): {_excerpt(text)}")
    if not verdicts:
        is_invalid = any(value is None for value, _ in values) or not all(span.is_closed for span in spans)
        raise _no_verdict(text, is_invalid=is_invalid, has_objects=bool(spans), in_thought=in_thought)
    return verdicts


def may_be_truncated(finish_reason: str | None) -> bool:
    """Whether the finish reason shows that the end of the reply may be missing."""
    return classify_finish(finish_reason) is not Finish.COMPLETE


def _load(spans: list[Span], *, may_repair: bool) -> Iterator[tuple[JsonObject | None, bool]]:
    """Yield for each span the object (None if it cannot be read), and whether the object was repaired."""
    chars, marks = REPAIR_CHARS_MAX, REPAIR_MARKS_MAX
    for span in spans:
        value = load_json(span.source)
        if isinstance(value, JsonObject) or not may_repair:
            yield value if isinstance(value, JsonObject) else None, False
            continue
        chars -= len(span.source)
        marks -= sum(span.source.count(mark) for mark in "\"'{[(")
        yield repair_json(span.source) if chars >= 0 and marks >= 0 else None, True


def _verdicts(span: Span, value: JsonObject | None, is_verdict: IsVerdict, *, repaired: bool) -> list[Found]:
    """Return the object if it is a verdict, else the verdicts within it."""
    if value is None:
        return []
    if not span.is_closed:
        # The last member may be truncated as well: its 0 may be the beginning of 0.85.
        is_whole = is_verdict(dict(list(value.items())[:-1]))
        return [Found(value, span.source, span, repaired)] if is_whole else []
    if is_verdict(value):
        return [Found(value, span.source, span, repaired, span.is_alone)]
    return [Found(inner, _as_json(inner), span, repaired) for inner in _wrapped(value, is_verdict)]


# Names under which models and servers wrap a verdict. An object under any other name is no verdict.
_ENVELOPE = re.compile(
    r"(?:the|my|final)*(?:evaluations?|verdicts?|results?|response|reply|output|assessment|judge?ment|grading|review"
    r"|report|json|data|object|value|content|text|properties|message|submission)(?:results?|output|report|object|data|json)?"
    r"|arguments|args|parameters|params|input|functions?|functioncall|toolcalls?|toolinput|toolargs"
)
_ENVELOPES_MAX = 4


def _wrapped(value: JsonObject, is_verdict: IsVerdict, depth_left: int = _ENVELOPES_MAX) -> Iterator[JsonObject]:
    for key, member in value.items():
        if not _ENVELOPE.fullmatch(re.sub(r"[^a-z]", "", key.lower())):
            continue
        for inner in _objects_of(member, value):
            if is_verdict(inner):
                yield inner
            elif depth_left:
                yield from _wrapped(inner, is_verdict, depth_left - 1)


def _objects_of(member: Any, outer: JsonObject) -> Iterator[JsonObject]:
    if isinstance(member, str) and member.lstrip()[:1] == "{":
        member = load_json(member.strip())
    for item in cast("list[Any]", member) if isinstance(member, list) else [member]:
        if isinstance(item, JsonObject):
            yield item
        elif isinstance(item, dict):
            # json-repair returns inner objects as plain dicts. Only the outer object counts how often each name occurs.
            yield JsonObject.repaired(cast("dict[str, Any]", item), outer.times)


def repeated_in(value: object) -> frozenset[str]:
    """Return the keys that an object names more than once with different values."""
    return value.repeated if isinstance(value, JsonObject) else frozenset()


def _no_verdict(text: str, *, is_invalid: bool, has_objects: bool, in_thought: bool) -> UnreadableError:
    if is_invalid:
        return UnreadableError("invalid_json", f"The JSON in the reply cannot be read: {_excerpt(text)}")
    if has_objects:
        return UnreadableError("missing_score", f"No JSON object in the reply has a score: {_excerpt(text)}")
    if in_thought:
        return UnreadableError("no_verdict", "The reply ends within its thinking text.")
    return UnreadableError("no_verdict", f"The reply holds no JSON object: {_excerpt(text) or 'it is empty'}")


def _excerpt(text: str) -> str:
    # Thinking text is neither shown to users nor used in prompts, so the excerpt omits it.
    return preview(fold(clean(answer_in(text).strip()[:400])), 100)
