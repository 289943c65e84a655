"""Prepares model calls for pages: their messages and replies, changes between prompts, and the events about them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from api.pages.parts.filters import UNKNOWN
from redraft.domain.evaluation.json_extraction import Unusable, find_object
from redraft.domain.jobs.states import Step
from redraft.domain.text.diffs import DiffPart, compare_words
from redraft.operations.jobs.resources import Call, CallLine, Event, PlacedCall

_DIFF_CHARS_MAX = 40_000
# No wire format nests texts so deeply, but a reply can come from any server
_DEPTH_MAX = 20


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The calls before and after a call, and the call of the same kind in the previous iteration."""

    previous: CallLine | None
    following: CallLine | None
    earlier: CallLine | None


def neighbors_of(call: CallLine, calls: Sequence[CallLine]) -> Neighbors:
    ids = [each.id for each in calls]
    at = ids.index(call.id) if call.id in ids else None
    if at is None:
        return Neighbors(None, None, None)
    same = [
        each
        for each in calls[:at]
        if (each.type, each.candidate) == (call.type, call.candidate) and each.iteration < call.iteration
    ]
    return Neighbors(
        calls[at - 1] if at else None, calls[at + 1] if at + 1 < len(calls) else None, same[-1] if same else None
    )


def reported_calls(events: Sequence[Event], calls: Sequence[PlacedCall]) -> dict[int, list[PlacedCall]]:
    """Return the calls that each event reports, by the number of the event."""
    by_subject: dict[tuple[Any, ...], int] = {}
    for event in events:
        data = event.data
        is_retry = event.type == "step.retrying"
        rest = (data.get("step"), data.get("attempt")) if is_retry else (data.get("candidate") or 1,)
        by_subject.setdefault((event.type, data.get("iteration"), *rest), event.seq)
        by_subject.setdefault((event.type,), event.seq)
    found: dict[int, list[PlacedCall]] = {}
    for call in calls:
        seq = next((by_subject[each] for each in _subjects(call) if each in by_subject), None)
        if seq is not None:
            found.setdefault(seq, []).append(call)
    return found


def _subjects(call: PlacedCall) -> Iterator[tuple[Any, ...]]:
    """Yield the keys of events that can report the call, the most likely first."""
    if call.status == "failed":
        yield "step.retrying", call.iteration, call.step, call.attempt
    if call.step != Step.AUDIT:
        kind = "iteration.generated" if call.step == Step.GENERATE else "iteration.evaluated"
        yield kind, call.iteration, call.candidate
    if call.status != "started":
        yield ("done",)


def messages_of(body: Any) -> list[Message]:
    """Return the messages of a request, in any of the wire formats. Unknown parts become JSON."""
    if not isinstance(body, Mapping):
        return []
    request = cast("Mapping[str, Any]", body)
    found = [Message("system", _text(request[name])) for name in ("system", "instructions") if request.get(name)]
    turns: Any = request.get("messages") or request.get("input") or []
    for each in cast("list[Any]", turns) if isinstance(turns, list) else [{"role": "user", "content": turns}]:
        turn = cast("Mapping[str, Any]", each if isinstance(each, Mapping) else {"content": each})
        found.append(Message(str(turn.get("role") or turn.get("type") or "message"), _text(turn.get("content", turn))))
    return found


def reply_of(body: Any) -> str:
    """Return the text of a reply, in any of the wire formats. Empty if the reply has no text."""
    if not isinstance(body, Mapping):
        return body if isinstance(body, str) else ""
    response = cast("Mapping[str, Any]", body)
    choices: Any = response.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        return _text(cast("Mapping[str, Any]", choices[0]).get("message"))
    parts: Any = response.get("content") or response.get("output") or response.get("text") or ""
    return _text(parts)


def verdict_of(reply: str) -> list[tuple[str, str]]:
    """Find the only JSON object in a reply, as the loop does, and return its fields as names and texts."""
    found = find_object(reply, None, lambda _: True)
    try:
        return [] if isinstance(found, Unusable) else list(_fields(found.value))
    except RecursionError:
        # The object is nested too deeply for a table, so the page shows the text of the reply
        return []


def _fields(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, part in cast("dict[str, Any]", value).items():
            yield from _fields(part, f"{name} · {key}" if name else key)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in cast("list[Any]", value)):
        for number, part in enumerate(cast("list[Any]", value), 1):
            yield from _fields(part, f"{name} {number}")
    elif isinstance(value, list):
        yield name, "\n".join(str(each) for each in cast("list[Any]", value)) or UNKNOWN
    else:
        yield name, UNKNOWN if value is None else str(value)


def changes_of(call: Call, earlier: Call | None) -> list[DiffPart]:
    """Return the difference between the last messages of two prompts. Long prompts are not compared."""
    texts = ["\n\n".join(each.text for each in messages_of(one.request)) for one in (earlier, call) if one]
    if len(texts) < 2 or max(map(len, texts)) > _DIFF_CHARS_MAX:
        return []
    return list(compare_words(*texts).parts)


def _text(content: Any, depth: int = 0) -> str:
    if isinstance(content, str):
        return content
    if depth > _DEPTH_MAX:
        return "…"
    if isinstance(content, list):
        return "\n\n".join(filter(None, (_text(each, depth + 1) for each in cast("list[Any]", content))))
    if isinstance(content, Mapping):
        part = cast("Mapping[str, Any]", content)
        inner: Any = part.get("text", part.get("content"))
        return _text(inner, depth + 1) if inner is not None else json.dumps(part, ensure_ascii=False, indent=2)
    return "" if content is None else str(content)
