"""Read an evaluator's reply that judges the criteria of a rubric one by one."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from redraft.domain.evaluation.json_extraction import Found, Reader, Unusable, repeated_in, times_named
from redraft.domain.evaluation.reply_members import (
    UnreadableError,
    plain,
    plain_members,
    sentence_of,
    strict_flag,
    text_of,
)
from redraft.domain.evaluation.rubrics import SCALE_TOP, Criterion, CriterionResult, result_of
from redraft.domain.evaluation.scores import describe
from redraft.domain.evaluation.untrusted import NOTHING_UNTRUSTED, Decision, Statement, Untrusted
from redraft.domain.evaluation.verdicts import Verdict, members_of, own_verdict, says_flag, words_of
from redraft.domain.text.cleaning import clean, fold, preview


def read_rubric_reply(
    criteria: Sequence[Criterion],
    text: str,
    *,
    finish_reason: str | None = "stop",
    untrusted: Untrusted = NOTHING_UNTRUSTED,
) -> Verdict | Unusable:
    """Read a reply that judges these criteria one by one; exactly these, each once, or it is none."""
    ids = frozenset(criterion.id for criterion in criteria)
    reader = Reader(
        partial(_is_rubric_reply, ids), partial(_read_criteria, criteria), partial(_state_of_criteria, criteria)
    )
    return own_verdict(reader, _as_object(text), finish_reason, untrusted)


def _read_criteria(criteria: Sequence[Criterion], found: Found) -> Verdict | Unusable:
    try:
        entries = _entries(found, [criterion.id for criterion in criteria])
        results = tuple(_result(criterion, entries[criterion.id]) for criterion in criteria)
    except UnreadableError as error:
        return error.unusable
    return Verdict(None, None, "", (), repaired=False, criteria=results)


def _state_of_criteria(criteria: Sequence[Criterion], verdict: Verdict) -> Statement:
    decisions = [
        Decision(("level",), partial(_says_level, result.score))
        if criterion.kind == "scale"
        else Decision(("met",), partial(says_flag, result.score))
        for criterion, result in zip(criteria, verdict.criteria, strict=True)
    ]
    return Statement(tuple(decisions), words_of(verdict.criteria), members_of(verdict.criteria), "gap")


def _says_level(score: float | None, value: str) -> bool:
    level = _LEVEL.fullmatch(value)
    return level is not None and score is not None and math.isclose(int(level[1]) / SCALE_TOP, score)


_LIST = re.compile(r"(?:```(?:json)?\s*)?(\[.*\])(?:\s*```)?", re.DOTALL | re.IGNORECASE)


def _as_object(text: str) -> str:
    """A reply that is nothing but a list of criteria, as the object it should have been."""
    bare = _LIST.fullmatch(text.strip())
    return f'{{"criteria": {bare[1]}}}' if bare else text


def _is_rubric_reply(ids: frozenset[str], value: Mapping[str, Any]) -> bool:
    return any(plain(key) == "criteria" for key in value) or ids <= value.keys()


_STRAY_NAMES_MAX = 20


def _entries(found: Found, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    keys = [key for key in found.value if plain(key) == "criteria"]
    if len(keys) > 1 or found.repeated.intersection(keys):
        raise UnreadableError(Unusable("ambiguous", "The reply holds its criteria more than once."))
    entries: Any = found.value[keys[0]] if keys else found.value
    named = _named(entries)
    names = [name for name, _ in named]
    if len(names) > 2 * len(ids) + _STRAY_NAMES_MAX:
        words = f"The reply names {len(names)} criteria, where {len(ids)} were asked for."
        raise UnreadableError(Unusable("incomplete", words))
    twice = {name for name in names if names.count(name) > 1 or times_named(found, name) > 1}
    twice |= repeated_in(entries)
    _refuse_gaps(ids, names, twice)
    entries = {name: _object(name, entry) for name, entry in named}
    for verdict in ("met", "level"):
        if times_named(found, verdict) > len(ids):
            raise UnreadableError(Unusable("ambiguous", f'The reply says "{verdict}" more often than it has criteria.'))
    return entries


def _named(entries: object) -> list[tuple[str, Any]]:
    if isinstance(entries, Mapping):
        return list(cast("Mapping[str, Any]", entries).items())
    if isinstance(entries, list):
        items = cast("list[Any]", entries)
        return [(text_of(plain_members(item).get("id")).strip() or describe(item), item) for item in items]
    raise UnreadableError(
        Unusable("incomplete", f"The criteria are {describe(entries)}, not an object with one entry each.")
    )


def _refuse_gaps(ids: Sequence[str], names: Sequence[str], twice: set[str]) -> None:
    wrong = {
        "leaves out": [each for each in ids if each not in names],
        "names unknown": [each for each in names if each not in ids],
        "repeats": sorted(twice),
    }
    entries = [f"{words} {_listed(found)}" for words, found in wrong.items() if found]
    if entries:
        raise UnreadableError(Unusable("incomplete", f"Of the criteria, the reply {'; it '.join(entries)}."))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(preview(fold(clean(name)), 64) or '""' for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _object(name: str, entry: object) -> Mapping[str, Any]:
    if isinstance(entry, Mapping):
        return cast("Mapping[str, Any]", entry)
    raise UnreadableError(Unusable("invalid_score", f'The criterion "{name}" is {describe(entry)}, not an object.'))


def _result(criterion: Criterion, entry: Mapping[str, Any]) -> CriterionResult:
    asked = "level" if criterion.kind == "scale" else "met"
    parts = plain_members(entry)
    where = f'"{asked}" of the criterion "{criterion.id}"'
    if [plain(key) for key in entry].count(asked) > 1 or asked in repeated_in(entry):
        raise UnreadableError(Unusable("ambiguous", f"The reply gives {where} more than once."))
    if parts.get(asked) is None:
        raise UnreadableError(Unusable("incomplete", f"The reply gives no {where}."))
    if criterion.kind == "scale":
        value = _level(where, parts[asked]) / SCALE_TOP
    else:
        value = float(strict_flag(where, parts[asked]))
    return result_of(criterion, value, evidence=text_of(parts.get("evidence")), gap=sentence_of(parts.get("gap")))


_LEVEL = re.compile(rf"([0-{SCALE_TOP}])(?:\.0+)?(?:\s*(?:/|\bout\s+of\b)\s*{SCALE_TOP})?", re.IGNORECASE)


def _level(where: str, value: object) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    level = _LEVEL.fullmatch(json.dumps(value) if is_number else value.strip() if isinstance(value, str) else "")
    if level is None:
        words = f"{where} is {describe(value)}, not a whole number from 0 to {SCALE_TOP}."
        raise UnreadableError(Unusable("invalid_score", words))
    return int(level[1])
