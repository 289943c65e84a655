"""An evaluator's reply becomes a verdict, or a plain statement of why it is none.

Two parts: `find_object` finds the one JSON object in a reply, whatever surrounds it; `parse_verdict` maps it
to the verdict of the profile `criteria`. No text raises, no score is invented, and what a message says is
for people and the record: it never goes back to a generator.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from redraft.domain.scores import ScoreError, describe, read_score
from redraft.domain.texts import clean, fold, preview

UnusableKind = Literal["no_verdict", "invalid_json", "missing_score", "invalid_score", "ambiguous", "truncated"]

LENGTH_STOPS = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"})

OBJECTS_MAX = 1_000
# json-repair takes quadratic time on hostile text: beyond this much per reply it is not asked.
REPAIR_CHARS_MAX = 30_000
REPAIR_MARKS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evaluator said, profile `criteria`.

    Attributes:
        meets_criteria: what the model said, None when it did not; it never decides.
        repaired: the reply was not valid JSON and had to be mended.
    """

    score: float
    meets_criteria: bool | None
    evaluation_reasoning: str
    improvement_suggestions: tuple[str, ...]
    repaired: bool


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
    """A JSON object that remembers which of its keys came twice with different values."""

    repeated: frozenset[str] = frozenset()


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
    bare objects. What is not valid JSON is mended last, and never after a length stop.
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
    is_cut = (finish_reason or "").lower() in LENGTH_STOPS
    readings = [_read(span) for span in spans] if is_cut else _read_or_repair(spans)
    verdicts = [reading for reading in readings if reading.holds(is_verdict)]
    if is_cut and (in_thought or not verdicts or not spans[-1].is_closed):
        return Unusable("truncated", f"The reply was cut at its length limit: {_excerpt(text)}")
    return _only(verdicts) if verdicts else _explain_absence(text, readings, in_thought=in_thought)


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
    trusted.repeated = frozenset(key for key in value if times[key.strip()] > 1)
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


_SCORE = re.compile(r"(?:overall|final|total|evaluation)?score")
_FLAG = re.compile(r"meets(?:all)?criteri(?:a|on)|criteriamet|pass(?:ed)?")
_REASONING = re.compile(r"reason(?:s|ing)?|explanation|rationale|justification|analysis|comments?|feedback")
_SUGGESTIONS = re.compile(r"suggest(?:ions?|edimprovements?)|improvements?(?:hints?)?|recommendations?")
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NO_SUGGESTION = frozenset({"", "none", "n/a", "null", "nothing", "no suggestions", "false", "-"})
_BULLET = re.compile(r"\s*(?:[-*\u2022\u2013]|\d{1,2}[.)])\s+")
_TEXT_DEPTH_MAX = 20


def parse_verdict(text: str, *, finish_reason: str | None = None) -> Verdict | Unusable:
    """Read an evaluator's reply; `finish_reason` is the provider's word for why the reply ended."""
    found = find_object(text, finish_reason, _has_score)
    if isinstance(found, Unusable):
        return found
    score = _score_of(found)
    if isinstance(score, Unusable):
        return score
    members = {_plain(key): member for key, member in found.value.items()}
    suggestions = _member(members, "improvementsuggestions", _SUGGESTIONS)
    return Verdict(
        score=score,
        meets_criteria=_FLAGS.get(_text(_member(members, "meetscriteria", _FLAG)).strip().lower()),
        evaluation_reasoning=_text(_member(members, "evaluationreasoning", _REASONING)),
        improvement_suggestions=_suggestions(suggestions),
        repaired=found.repaired,
    )


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key.lower())


def _has_score(value: Mapping[str, Any]) -> bool:
    return any(_SCORE.fullmatch(_plain(key)) for key in value)


def _score_of(found: Found) -> float | Unusable:
    keys = [key for key in found.value if _SCORE.fullmatch(_plain(key))]
    if found.repeated.intersection(keys):
        return Unusable("ambiguous", "The verdict names its score more than once.")
    try:
        scores = {read_score(found.value[key]) for key in keys}
    except ScoreError as error:
        return Unusable("invalid_score", error.message)
    if len(scores) > 1:
        return Unusable("ambiguous", f"The verdict holds {len(scores)} different scores.")
    return scores.pop()


def _member(members: Mapping[str, Any], name: str, aliases: re.Pattern[str]) -> Any:
    """The member of that name, else the first with an alias that says something."""
    if members.get(name) is not None:
        return members[name]
    others = (member for key, member in members.items() if aliases.fullmatch(key))
    return next((member for member in others if member not in (None, "")), None)


def _suggestions(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = _split_bullets(value)
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    texts = (_text(item) for item in items)
    return tuple(text for text in texts if fold(text).lower().rstrip(".") not in _NO_SUGGESTION)


def _split_bullets(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(_BULLET.match(line) for line in lines):
        return [_BULLET.sub("", line, count=1) for line in lines]
    return [text]


def _text(value: Any, room: int = _TEXT_DEPTH_MAX) -> str:
    """A member as plain text: what models nest becomes lines."""
    if value is None or room == 0:
        return ""
    if isinstance(value, str):
        return _without_controls(value)
    if isinstance(value, list):
        return "\n".join(_text(item, room - 1) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return "\n".join(f"{clean(key)}: {_text(member, room - 1)}" for key, member in members.items())
    return describe(value)


def _without_controls(text: str) -> str:
    r"""Undo what JSON makes of LaTeX: `"\frac"` is valid and means a form feed before "rac"."""
    letters = {"\b": r"\b", "\f": r"\f", "\r": r"\r"}
    text = re.sub("[\b\f\r](?=[A-Za-z])", lambda match: letters[match[0]], text.replace("\r\n", "\n"))
    return clean(text.replace("\r", "\n"))
