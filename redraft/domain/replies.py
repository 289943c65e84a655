"""The one JSON object in a model's reply, whatever surrounds it, or a plain statement of why there is none.

No text raises, nothing is invented, and what a message says is for people and the record: it never goes back
to a generator.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from redraft.domain.jobs.finish_reasons import Finish, classify_finish
from redraft.domain.texts import clean, fold, preview

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
    """

    value: Mapping[str, Any]
    repaired: bool
    repeated: frozenset[str]


class _Object(dict[str, Any]):
    """A JSON object that remembers how it was written.

    Attributes:
        repeated: the keys that came twice with different values.
        times: how often each name stands before a colon, at any depth; of a mended object only, for what
            its inner objects repeat is lost.
    """

    repeated: frozenset[str] = frozenset()
    times: Counter[str] | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of text that begins like a JSON object; not closed = it runs to the end of the text."""

    source: str
    is_fenced: bool
    is_closed: bool


@dataclass(frozen=True, slots=True)
class _Reading:
    span: _Span
    value: _Object | None
    repaired: bool

    def holds(self, is_verdict: Callable[[Mapping[str, Any]], bool]) -> bool:
        if self.value is None:
            return False
        if self.span.is_closed:
            return is_verdict(self.value)
        # The last member may itself be cut: a 0 could have become 0.85.
        return is_verdict(dict(list(self.value.items())[:-1]))


def find_object(
    text: str, finish_reason: str | None, is_verdict: Callable[[Mapping[str, Any]], bool]
) -> Found | Unusable:
    """Find the one object in a reply that `is_verdict` recognises.

    The whole text as JSON comes first, untouched; else thinking text is dropped, and fenced JSON goes before
    bare objects. What is not valid JSON is mended last, and only if the finish reason promises a whole reply.
    """
    whole = _load(text.strip().removeprefix("\ufeff").lstrip())
    if isinstance(whole, _Object):
        if is_verdict(whole):
            return Found(whole, repaired=False, repeated=whole.repeated)
        return Unusable("missing_score", f"The reply is a JSON object without a score: {_excerpt(text)}")
    # The objects in a list are looked at one by one, like those in prose.
    if whole is not None and not isinstance(whole, list):
        return Unusable("no_verdict", f"The reply is JSON but no object: {_excerpt(text)}")
    spans, in_thought = _scan(text)
    if len(spans) > OBJECTS_MAX:
        return Unusable("ambiguous", f"The reply holds more than {OBJECTS_MAX} objects: {_excerpt(text)}")
    is_cut = may_be_cut(finish_reason)
    readings = [_read(span) for span in spans] if is_cut else _read_or_repair(spans)
    verdicts = [reading for reading in readings if reading.holds(is_verdict)]
    if is_cut and (in_thought or not verdicts or not spans[-1].is_closed):
        reason = f"finish reason {finish_reason}" if finish_reason else "no finish reason"
        return Unusable("truncated", f"The reply was cut, or may have been ({reason}): {_excerpt(text)}")
    return _only(verdicts) if verdicts else _explain_absence(text, readings, in_thought=in_thought)


def may_be_cut(finish_reason: str | None) -> bool:
    """Return whether a reply may lack its end: its finish reason does not promise a whole one."""
    return classify_finish(finish_reason) is not Finish.COMPLETE


def repeated_in(value: object) -> frozenset[str]:
    """The keys that an object of a reply, at any depth, names more than once with different values."""
    return value.repeated if isinstance(value, _Object) else frozenset()


def times_named(found: Found, name: str) -> int:
    """How often a mended object names a key, at any depth; 0 for one that was valid."""
    times = found.value.times if isinstance(found.value, _Object) else None
    return times[name] if times else 0


def _only(verdicts: list[_Reading]) -> Found | Unusable:
    fenced = [reading for reading in verdicts if reading.span.is_fenced]
    if not all(reading.repaired for reading in fenced):
        verdicts = fenced
    distinct = {_told(reading): reading for reading in verdicts}
    if len(distinct) > 1:
        return Unusable("ambiguous", f"The reply holds {len(distinct)} different verdicts.")
    reading = verdicts[0]
    value = cast("_Object", reading.value)
    return Found(value, repaired=reading.repaired, repeated=value.repeated)


def _told(reading: _Reading) -> str:
    """What an object says, however its members are ordered and its numbers are spelled."""
    try:
        return json.dumps(reading.value, sort_keys=True)
    except RecursionError:
        return "".join(reading.span.source.split())


def _explain_absence(text: str, readings: list[_Reading], *, in_thought: bool) -> Unusable:
    if any(reading.value is None or not reading.span.is_closed for reading in readings):
        return Unusable("invalid_json", f"The JSON in the reply cannot be read: {_excerpt(text)}")
    if readings:
        return Unusable("missing_score", f"No JSON object in the reply has a score: {_excerpt(text)}")
    what = "ends within its thinking text" if in_thought else "holds no JSON object"
    return Unusable("no_verdict", f"The reply {what}: {_excerpt(text) or 'it is empty'}")


def _excerpt(text: str) -> str:
    return preview(fold(clean(text.strip()[:400])), 100)


_THOUGHTS = "think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|inner_monologue|antthinking"
_CLOSER = re.compile(
    rf"<\|?/(?:\w{{1,20}}:)?(?P<tag>{_THOUGHTS})\s*\|?>|<\|end_of_(?P<block>thought)\|>"
    r"|[\[◁]/(?P<mark>think)[\]▷]",
    re.IGNORECASE,
)
_CHANNEL_END = re.compile(r"<\|(?:end|start|return)\|>|<\|channel\|>final")
_MARK = re.compile(
    rf"(?P<fence>`{{3,}}|~{{3,}})|(?P<closer>{re.sub(r'[?]P<[a-z]+>', '?:', _CLOSER.pattern)})"
    rf"|(?P<opener><\|?(?:\w{{1,20}}:)?(?P<tag>{_THOUGHTS})\b[^<>]{{0,99}}>|<\|begin_of_(?P<block>thought)\|>"
    r"|[\[◁](?P<mark>think)[\]▷]|<\|channel\|>(?:analysis|commentary))"
    r"""|(?P<object>\{(?=\s*+(?:["'“}/#]|[a-z_]\w{0,40}\s{0,9}:)))""",
    re.IGNORECASE,
)
_TOKEN = re.compile(rf'"(?:[^"\\]++|\\.?)*+"?|[{{}}]|{_CLOSER.pattern}', re.DOTALL | re.IGNORECASE)


def _scan(text: str) -> tuple[list[_Span], bool]:
    """The outermost objects outside thinking text, and whether the text ends within such.

    One pass from left to right, so that tags and fences inside an object's strings are only characters.
    """
    spans: list[_Span] = []
    is_fenced, at = False, 0
    while (mark := _MARK.search(text, at)) and len(spans) <= OBJECTS_MAX:
        at = mark.end()
        if mark["fence"]:
            is_fenced = not is_fenced
        elif mark["closer"]:
            # Its opener stood in the prompt: all before it was thinking.
            spans, is_fenced = [], False
        elif mark["opener"]:
            at = _thought_end(text, mark)
            if at < 0:
                return spans, True
        else:
            at = _take_object(text, mark.start(), spans, is_fenced=is_fenced)
    return spans, False


def _thought_end(text: str, opener: re.Match[str]) -> int:
    name = opener["tag"] or opener["block"] or opener["mark"]
    if name is None:
        end = _CHANNEL_END.search(text, opener.end())
        return end.end() if end else -1
    closers = _CLOSER.finditer(text, opener.end())
    same = (closer.end() for closer in closers if closer[closer.lastindex or 0].lower() == name.lower())
    return next(same, -1)


def _take_object(text: str, start: int, spans: list[_Span], *, is_fenced: bool) -> int:
    end = _object_end(text, start)
    if end is None:
        spans.append(_Span(text[start:], is_fenced, is_closed=False))
        return len(text)
    if end[0] == "}":
        spans.append(_Span(text[start : end.end()], is_fenced, is_closed=True))
    else:
        # The brace was open in thinking text whose opener stood in the prompt.
        spans.clear()
    return end.end()


def _object_end(text: str, start: int) -> re.Match[str] | None:
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth == 0 or token[0][0] not in '{}"':
            return token
    closers = deque(_CLOSER.finditer(text, start), maxlen=1)
    return closers.pop() if closers else None


def _load(source: str, *, strict: bool = True) -> Any:
    """The JSON value of a text; None when it is none, or is nested too deep."""
    try:
        return json.loads(source, object_pairs_hook=_object_of, parse_int=_integer, strict=strict)
    except (ValueError, RecursionError):
        return None


def _object_of(pairs: list[tuple[str, Any]]) -> _Object:
    value = _Object(pairs)
    if len(value) < len(pairs):
        value.repeated = frozenset(
            key for key, member in pairs if (type(member), member) != (type(value[key]), value[key])
        )
    return value


def _integer(digits: str) -> float:
    # Python refuses to read integers of thousands of digits.
    return int(digits) if len(digits) < 400 else float(digits)


# A backslash that begins no JSON escape, as in \alpha.
_ESCAPE = re.compile(r'\\(?P<known>u[0-9a-fA-F]{4}|["\\/bfnrt])|\\')


def _read(span: _Span) -> _Reading:
    value = _load(span.source)
    return _Reading(span, value if isinstance(value, _Object) else None, repaired=False)


def _read_or_repair(spans: list[_Span]) -> list[_Reading]:
    readings: list[_Reading] = []
    chars, marks = REPAIR_CHARS_MAX, REPAIR_MARKS_MAX
    for span in spans:
        reading = _read(span)
        if reading.value is None:
            chars -= len(span.source)
            marks -= sum(span.source.count(mark) for mark in "\"'{[(")
            value = _repair(span.source) if chars >= 0 and marks >= 0 else None
            reading = _Reading(span, value, repaired=True)
        readings.append(reading)
    return readings


def _repair(source: str) -> _Object | None:
    escaped = _ESCAPE.sub(lambda match: match[0] if match["known"] else r"\\", source)
    if isinstance(value := _load(escaped, strict=False), _Object):
        return value
    from json_repair import repair_json

    try:
        value = repair_json(source, return_objects=True, skip_json_loads=True)
        return _trusted(value, source) if isinstance(value, dict) else None
    except Exception:  # noqa: BLE001 - a repairer that trips over a text must not fail the job
        return None


_NAMED = re.compile(
    r"""(?:["'“”]|[{,]\s*+)(?P<key>\w[\w -]{0,59}?)["'“”]?\s{0,9}:"""
    r"""(?:\s{0,9}(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?=[ \t]{0,9}(?:[,}\]\r\n#]|/[/*]|$)))?"""
)


def _trusted(value: dict[str, Any], source: str) -> _Object | None:
    """The repaired object, unless it holds a number that the source does not: json-repair reads 1/10 as 1."""
    members = list(_NAMED.finditer(source))
    written = {(member["key"].strip(), float(member["number"])) for member in members if member["number"]}
    if not written.issuperset(_numbers(value)):
        return None
    trusted, times = _Object(value), Counter(member["key"].strip() for member in members)
    trusted.repeated, trusted.times = frozenset(key for key in value if times[key.strip()] > 1), times
    return trusted


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, member in cast("dict[str, Any]", value).items():
            yield from _numbers(member, name.strip())
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _numbers(member)
    elif isinstance(value, int | float) and not isinstance(value, bool) and key:
        yield key, value
