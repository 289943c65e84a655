"""Parse an evaluator's reply that evaluates the criteria of a rubric one by one."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from redraft.domain.evaluation.json_extraction import Found, Reader, UnreadableError, Unusable, repeated_in
from redraft.domain.evaluation.quoted_verdicts import NO_UNTRUSTED_TEXTS, Decision, Statement, UntrustedTexts
from redraft.domain.evaluation.reply_members import plain, plain_members, sentence_of, strict_flag, text_of
from redraft.domain.evaluation.rubrics import SCALE_TOP, Criterion, CriterionResult, result_of
from redraft.domain.evaluation.scores import describe
from redraft.domain.evaluation.verdict_parsing import Verdict, criteria_statement, is_same_flag, own_verdict
from redraft.domain.text.cleaning import clean, fold, preview

_LIST = re.compile(r"(?:```(?:json)?\s*)?(\[.*\])(?:\s*```)?", re.DOTALL | re.IGNORECASE)
_LEVEL = re.compile(rf"([0-{SCALE_TOP}])(?:\.0+)?(?:\s*(?:/|\bout\s+of\b)\s*{SCALE_TOP})?", re.IGNORECASE)
# Unknown names are limited, because the search for repeated names takes quadratic time.
_STRAY_NAMES_MAX = 20


def read_rubric_reply(
    criteria: Sequence[Criterion],
    text: str,
    *,
    finish_reason: str | None = "stop",
    untrusted: UntrustedTexts = NO_UNTRUSTED_TEXTS,
) -> Verdict | Unusable:
    """Read a reply that must contain a result for each of these criteria exactly once."""
    ids = [criterion.id for criterion in criteria]

    def is_verdict(value: Mapping[str, Any]) -> bool:
        return any(plain(key) == "criteria" for key in value) or set(ids) <= value.keys()

    def read(found: Found) -> Verdict:
        entries = _entries(found, ids)
        results = tuple(_result(criterion, entries[criterion.id]) for criterion in criteria)
        return Verdict(None, None, "", (), repaired=False, criteria=results)

    # Some models leave out the outer object and reply with the list of criteria alone.
    bare = _LIST.fullmatch(text.strip())
    reader = Reader(is_verdict, read, partial(_statement, criteria))
    return own_verdict(reader, f'{{"criteria": {bare[1]}}}' if bare else text, finish_reason, untrusted)


def _statement(criteria: Sequence[Criterion], verdict: Verdict) -> Statement:
    decisions = [
        Decision(("level",), partial(_is_same_level, result.score))
        if criterion.kind == "scale"
        else Decision(("met",), partial(is_same_flag, result.score))
        for criterion, result in zip(criteria, verdict.criteria, strict=True)
    ]
    return criteria_statement(decisions, verdict.criteria)


def _is_same_level(score: float | None, value: str) -> bool:
    level = _LEVEL.fullmatch(value)
    return level is not None and score is not None and math.isclose(int(level[1]) / SCALE_TOP, score)


def _entries(found: Found, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the entry of each criterion. Raises UnreadableError if a criterion has no entry or several entries."""
    keys = [key for key in found.value if plain(key) == "criteria"]
    if len(keys) > 1 or found.value.repeated.intersection(keys):
        raise UnreadableError("ambiguous", "The reply holds its criteria more than once.")
    entries: Any = found.value[keys[0]] if keys else found.value
    named = _named(entries)
    names = [name for name, _ in named]
    if len(names) > 2 * len(ids) + _STRAY_NAMES_MAX:
        words = f"The reply names {len(names)} criteria, where {len(ids)} were asked for."
        raise UnreadableError("incomplete", words)
    twice = {name for name in names if names.count(name) > 1 or found.value.times[name] > 1} | repeated_in(entries)
    _refuse_gaps(ids, names, twice)
    for name, entry in named:
        if not isinstance(entry, Mapping):
            raise UnreadableError("invalid_score", f'The criterion "{name}" is {describe(entry)}, not an object.')
    for verdict in ("met", "level"):
        if found.value.times[verdict] > len(ids):
            raise UnreadableError("ambiguous", f'The reply says "{verdict}" more often than it has criteria.')
    return dict(named)


def _named(entries: object) -> list[tuple[str, Any]]:
    if isinstance(entries, Mapping):
        return list(cast("Mapping[str, Any]", entries).items())
    if isinstance(entries, list):
        items = cast("list[Any]", entries)
        return [(text_of(plain_members(item).get("id")).strip() or describe(item), item) for item in items]
    words = f"The criteria are {describe(entries)}, not an object with one entry each."
    raise UnreadableError("incomplete", words)


def _refuse_gaps(ids: Sequence[str], names: Sequence[str], twice: set[str]) -> None:
    wrong = {
        "leaves out": [each for each in ids if each not in names],
        "names unknown": [each for each in names if each not in ids],
        "repeats": sorted(twice),
    }
    entries = [f"{words} {_listed(found)}" for words, found in wrong.items() if found]
    if entries:
        raise UnreadableError("incomplete", f"Of the criteria, the reply {'; it '.join(entries)}.")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(preview(fold(clean(name)), 64) or '""' for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _result(criterion: Criterion, entry: Mapping[str, Any]) -> CriterionResult:
    name = "level" if criterion.kind == "scale" else "met"
    parts = plain_members(entry)
    where = f'"{name}" of the criterion "{criterion.id}"'
    if [plain(key) for key in entry].count(name) > 1 or name in repeated_in(entry):
        raise UnreadableError("ambiguous", f"The reply gives {where} more than once.")
    if parts.get(name) is None:
        raise UnreadableError("incomplete", f"The reply gives no {where}.")
    read = _level if criterion.kind == "scale" else strict_flag
    value = float(read(where, parts[name]))
    return result_of(criterion, value, evidence=text_of(parts.get("evidence")), gap=sentence_of(parts.get("gap")))


def _level(where: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    level = _LEVEL.fullmatch(json.dumps(value) if is_number else value.strip() if isinstance(value, str) else "")
    if level is None:
        words = f"{where} is {describe(value)}, not a whole number from 0 to {SCALE_TOP}."
        raise UnreadableError("invalid_score", words)
    return int(level[1]) / SCALE_TOP
