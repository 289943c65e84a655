"""Checks of the whole answer: JSON, language, cited sources, one number, no URLs."""

from itertools import islice
from math import inf
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from redraft.domain.bodies.fields import StrictModel, rejecting
from redraft.domain.checks.check_results import CheckedAnswer, CheckResult, amount, plain_number, quoted, range_in_words
from redraft.domain.checks.measures import find_urls
from redraft.domain.grounding.citations import cited_numbers, without_markers
from redraft.domain.numbers.numerals import Numeral, find_numerals
from redraft.domain.structured.answers import Mismatch, read_answer, read_json, schema_error
from redraft.domain.text.languages import (
    CONFIDENCE_MIN,
    LANGUAGES,
    LETTERS_MIN,
    guess_language,
    is_language,
    name_of,
    prose_of,
)

# Limits the work for answers that consist of numbers.
_NUMBERS_COUNTED = 100
_NUMBERS_LISTED = 5

_UNKNOWN_LANGUAGE = "is no language that can be recognised; use an ISO 639-1 code such as de, en, fr (docs/checks.md)"
Schema = Annotated[dict[str, Any], rejecting("invalid_schema", schema_error)]
Language = Annotated[
    str,
    Field(max_length=20),
    rejecting("unknown_language", lambda code: None if code in LANGUAGES else _UNKNOWN_LANGUAGE),
]
Bound = Annotated[float, Field(allow_inf_nan=False)]


class JsonSchema(StrictModel):
    kind: Literal["json_schema"]
    value: Schema = Field(description="Any JSON Schema. References to other documents are not supported.")

    def run(self, checked: CheckedAnswer) -> CheckResult:
        read = read_answer(checked.answer, self.value)
        is_mismatch = isinstance(read, Mismatch)
        return CheckResult(not is_mismatch, read.message if is_mismatch else "The answer is JSON and fits its schema.")


class IsJson(StrictModel):
    """The whole answer is one JSON value, with or without a code fence."""

    kind: Literal["is_json"]

    def run(self, checked: CheckedAnswer) -> CheckResult:
        read = read_json(checked.answer)
        is_mismatch = isinstance(read, Mismatch)
        return CheckResult(not is_mismatch, read.message if is_mismatch else "The answer is JSON.")


class InLanguage(StrictModel):
    kind: Literal["language"]
    value: Language = Field(description="ISO 639-1, such as en.")

    def run(self, checked: CheckedAnswer) -> CheckResult:
        prose = prose_of(checked.text)
        letters = sum(map(str.isalpha, prose))
        # Only a reliable guess can reject an answer, because a wrong guess would reject good answers.
        if letters < LETTERS_MIN:
            return CheckResult(True, f"The answer has only {amount(letters, 'letter')}, too few to tell its language.")
        guess = guess_language(prose)
        name = name_of(guess.code)
        if is_language(self.value, guess.code):
            return CheckResult(True, f"The language is {name}.")
        if guess.confidence < CONFIDENCE_MIN:
            return CheckResult(True, f"The language may be {name}, but that is not sure ({guess.confidence:.0%}).")
        return CheckResult(False, f"The answer is in {name}: write all of it in {name_of(self.value)}.")


class IsUrlFree(StrictModel):
    kind: Literal["is_url_free"]

    def run(self, checked: CheckedAnswer) -> CheckResult:
        urls = find_urls(checked.text)
        if not urls:
            return CheckResult(True, "No URL.")
        return CheckResult(
            False, f"Found {amount(len(urls), 'URL')}, the first is {quoted(urls[0])}: remove every URL."
        )


class CitesAllSources(StrictModel):
    """Each source of the request is cited by a citation marker such as [Source 2]."""

    kind: Literal["cites_all_sources"]

    def run(self, checked: CheckedAnswer) -> CheckResult:
        cited = cited_numbers(checked.text, checked.sources)
        missing = [number for number in range(1, checked.sources + 1) if number not in cited]
        if not checked.sources:
            return CheckResult(True, "There are no sources to cite.")
        if not missing:
            return CheckResult(
                True, f"All {checked.sources} sources are cited." if checked.sources > 1 else "[1] is cited."
            )
        numbers = ", ".join(map(str, missing))
        which = f"Source {numbers} is" if len(missing) == 1 else f"Sources {numbers} are"
        return CheckResult(False, f"{which} not cited: use and cite each of them, as in [Source {missing[0]}].")


class NumericBetween(StrictModel):
    """The answer contains exactly one number, which lies within the bounds or equals one of them."""

    kind: Literal["numeric_between"]
    min: Bound | None = None
    max: Bound | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.min is None and self.max is None:
            raise PydanticCustomError("amount", "needs `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise PydanticCustomError("range_reversed", "`min` is larger than `max`")
        return self

    def run(self, checked: CheckedAnswer) -> CheckResult:
        # The number in a citation marker is not a number of the answer.
        numerals = list(islice(find_numerals(without_markers(checked.text, checked.sources)), _NUMBERS_COUNTED + 1))
        wanted = range_in_words(self.min, self.max)
        if len(numerals) != 1:
            return CheckResult(False, f"{_listed(numerals)}: write exactly one number, {wanted}.")
        (numeral,) = numerals
        shown = quoted(numeral.text)
        low, high = (-inf if self.min is None else self.min), (inf if self.max is None else self.max)
        fitting = [low <= value <= high for value in numeral.values]
        # A number with an ambiguous comma, `1,234`, has two values, and passes only if both lie within the bounds.
        if all(fitting):
            return CheckResult(True, f"The number {shown} is {wanted}.")
        if any(fitting):
            readings = " or ".join(map(plain_number, numeral.values))
            words = "write it without thousands separators, and with a point for decimals"
            return CheckResult(False, f"The number {shown} can be read as {readings}: {words}.")
        return CheckResult(False, f"The number {shown} is not {wanted}: write such a number.")


def _listed(numerals: list[Numeral]) -> str:
    if not numerals:
        return "Found no number"
    count = f"more than {_NUMBERS_COUNTED}" if len(numerals) > _NUMBERS_COUNTED else str(len(numerals))
    first = ", ".join(quoted(each.text) for each in numerals[:_NUMBERS_LISTED])
    return f"Found {count} numbers ({first}{', …' if len(numerals) > _NUMBERS_LISTED else ''})"


ContentCheck = JsonSchema | IsJson | InLanguage | IsUrlFree | CitesAllSources | NumericBetween
