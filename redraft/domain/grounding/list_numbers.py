"""Blank the numbers with which an answer counts or orders its own items, because no source has to contain them.

They are enumerators (`Step 1:`, `(2)`, `1.1`), names of sources (`according to Source 2`), and counts of the answer's
own items (`Here are 3 facts:`); docs/grounding.md has the rule.
"""

# ruff: noqa: RUF001  (dashes)

import re
from collections.abc import Iterable

from redraft.caching import lazy_pattern
from redraft.domain.grounding.source_words import CITED

# A larger number is rarely a count of the answer's own items.
_COUNT_MAX = 12

_DIGITS = lazy_pattern("[0-9\u2460-\u2473\u2776-\u277f]")
_STEPS = (
    "step|fact|point|item|part|option|reason|section|chapter|question|answer|stage|phase|tip|example|finding|theme"
    "|schritt|punkt|teil|grund|abschnitt|frage|phase|tipp|étape|point|partie|raison|paso|punto|parte|razón"
)
_DOTTED = r"(?P<{}>\d{{1,2}}(?:\.\d{{1,2}}){{0,3}})"
_AT_START = lazy_pattern(
    rf"[^\w]*(?:{_DOTTED.format('n')}(?:\ufe0f?\u20e3|[.):|]{{1,2}}(?=[\s*_]|\Z)|[ ]?[-–—|](?=[\s*_]))"
    rf"|{_DOTTED.format('dotted')}(?=[*_]*[ \t]+[*_\"'(]*[^\W\d_a-zß-öø-ÿ])|(?P<sign>[\u2460-\u2473\u2776-\u277f]))"
)
_ANYWHERE = lazy_pattern(
    rf"\b(?:{_STEPS})[ \u00a0]#?(?P<step>\d{{1,2}})\b(?![.,]\d|\s?%)|\((?P<inner>\d{{1,2}})\)(?=\s)", re.IGNORECASE
)
_NOUNS = rf"{CITED}|texts?|articles?|texten?|documenti|источник\w*"
_AND = r"\s?(?:,|;|&|and|or|und|oder|et|ou|y|[-–])\s?"
_NAMED = lazy_pattern(
    rf"\b(?:{_NOUNS})\s?#?(?P<numbers>\d{{1,3}}(?:{_AND}(?:and )?\d{{1,3}}){{0,9}})(?![\w%]|[.,]\d)", re.IGNORECASE
)
_OF_SOURCES = lazy_pattern(
    rf"(?<![\w.,])(?P<n>\d{{1,3}}) (?=(?:\w{{1,20}} ){{0,2}}(?:{_NOUNS})\b"
    r"|(?:of|out of|von|(?:mention|say|state|tell|name|agree|disagree|describe|give|report)s?"
    r"|nenn\w+|sag\w+|stimm\w+)\b)",
    re.IGNORECASE,
)
_SPEAKS_OF_SOURCES = lazy_pattern(rf"\b(?:{_NOUNS})\b", re.IGNORECASE)

_UNITS = (
    "percent|per ?cent|prozent|pour|por|degrees?|grad|degrés?|celsius|fahrenheit|kelvin|k?[gm]|mg|µg|ml|[cmk]m|km²"
    "|m²|[lg]|lit(?:er|re)s?|met(?:er|re)s?|kilomet(?:er|re)s?|centimet(?:er|re)s?|miles?|feet|foot|inch(?:es)?"
    "|yards?|grams?|gramm|kilos?|kilograms?|kilogramm|tons?|tonnes?|tonnen|pounds?|lbs?|oz|ounces?|euros?|dollars?"
    "|francs?|franken|usd|eur|chf|cents?|pence|pills?|tablets?|doses?|tabletten|seconds?|minutes?|hours?|days?"
    "|weeks?|months?|years?|sekunden?|minuten?|stunden?|tagen?|tage|wochen?|monaten?|monate|jahren?|jahre|secondes?"
    "|heures?|jours?|semaines?|mois|ans?|années?|segundos?|minutos?|horas?|días?|semanas?|meses|años?|volts?|watts?"
    "|bar|a\\.?m|p\\.?m|o['’]clock|uhr|million\\w*|billion\\w*|milliard\\w*|thousand|hundred|mio|mrd|tausend"
    "|hundert"
)
_COUNT = lazy_pattern(rf"(?<![\w.,:/$€£¥-])(?P<n>\d{{1,2}}) (?!(?:{_UNITS})\b)(?=[^\W\d_]{{2}})", re.IGNORECASE)
_PRESENTS = lazy_pattern(
    r"\b(?:there (?:are|were|is|was)|here (?:are|is)|th(?:e|ese) (?:following|same)|es gibt|es gab|hier sind"
    r"|folgende\w*|il y a(?:vait)?|voici|hay|había|aquí (?:hay|están)|ci sono|ecco)\b",
    re.IGNORECASE,
)
_PARTS = lazy_pattern(
    r"(?:\w{1,20} )?(?:ways?|reasons?|facts?|points?|steps?|types?|kinds?|options?|differences?|similarities|parts?"
    r"|examples?|things?|aspects?|factors?|categories|groups?|themes?|findings?|statements?|items?|gründe?n?"
    r"|punkte?n?|schritte?n?|arten|teile?n?|unterschiede?n?|beispiele?n?|raisons?|étapes?|façons?|différences?"
    r"|razones|pasos|formas|diferencias)\b",
    re.IGNORECASE,
)


class ListNumbers:
    """Blanks the list numbers in the sentences of one answer. The sentences must be passed in order."""

    def __init__(self, sources: int, items: int, numbered: Iterable[int] = ()) -> None:
        self._sources = sources
        self._items = items
        self._seen: set[tuple[int, ...]] = {(number,) for number in numbered}

    def blank(self, plain: str, *, is_lead_in: bool = False) -> str:
        """Replace the list numbers in a sentence by spaces."""
        if not _DIGITS.search(plain):
            return plain
        spans = [*self._enumerators(plain), *self._names(plain), *self._counts(plain, is_lead_in=is_lead_in)]
        parts: list[str] = []
        at = 0
        for start, end in sorted(set(spans)):
            parts += [plain[at:start], " " * (end - max(at, start))]
            at = max(at, end)
        return "".join((*parts, plain[at:]))

    def _enumerators(self, plain: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        found = _AT_START.match(plain)
        if found:
            name = found.lastgroup or "n"
            if name == "sign" or (("." in found[name] or name == "n") and self._continues_count(found[name])):
                spans.append(found.span(name))
        for found in _ANYWHERE.finditer(plain):
            name = found.lastgroup or "step"
            if self._continues_count(found[name]):
                spans.append(found.span(name))
        return spans

    def _continues_count(self, shown: str) -> bool:
        """Whether a number starts a count or continues one. A lone `Step 9`, without a step 8, is not one."""
        parts = tuple(map(int, shown.split(".")))
        before = (*parts[:-1], parts[-1] - 1)
        is_one = parts[-1] <= 1 or before in self._seen or parts in self._seen
        if is_one:
            self._seen.add(parts)
        return is_one

    def _names(self, plain: str) -> list[tuple[int, int]]:
        if not _SPEAKS_OF_SOURCES.search(plain):
            return []
        spans = [
            (found.start("numbers") + number.start(), found.start("numbers") + number.end())
            for found in _NAMED.finditer(plain)
            for number in re.finditer(r"\d+", found["numbers"])
            if 1 <= int(number[0]) <= self._sources
        ]
        return spans + [found.span("n") for found in _OF_SOURCES.finditer(plain) if int(found["n"]) <= self._sources]

    def _counts(self, plain: str, *, is_lead_in: bool) -> list[tuple[int, int]]:
        presents = is_lead_in or _PRESENTS.search(plain) is not None or plain.rstrip("*_ ")[-1:] in {":", "\uff1a"}
        return [
            found.span("n")
            for found in _COUNT.finditer(plain)
            if 1 <= int(found["n"]) <= _COUNT_MAX
            and (presents or int(found["n"]) == self._items or _PARTS.match(plain, found.end()))
        ]
