"""Checks of the texts and patterns that an answer contains. Texts are compared in normal form (`measures.normal`)."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from redraft.domain.bodies.fields import FilledWanted, PatternText, StrictModel, Wanted, rejecting
from redraft.domain.checks.check_results import EXCERPT_CHARS, CheckedAnswer, CheckResult, amount, listed, quoted
from redraft.domain.checks.measures import fold_case, last_chars, normal
from redraft.domain.structured.patterns import first_matching_line, holds_match, is_searchable, pattern_error

WANTED_MAX = 100


ManyWanted = Annotated[list[Wanted], Field(min_length=1, max_length=WANTED_MAX)]
OneOrMany = Annotated[
    Annotated[Wanted, Tag("text")] | Annotated[ManyWanted, Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, list) else "text"),
]
Pattern = Annotated[PatternText, rejecting("pattern", pattern_error)]


class _Worded(StrictModel):
    ignore_case: bool = Field(default=False, description="Ignore the case of letters.")

    def as_compared(self, text: str) -> str:
        return fold_case(text) if self.ignore_case else normal(text)

    def lacking(self, checked: CheckedAnswer, wanted: list[str]) -> list[str]:
        seen = self.as_compared(checked.text)
        return [each for each in wanted if self.as_compared(each) not in seen]


class Contains(_Worded):
    kind: Literal["contains"]
    value: Wanted

    def run(self, checked: CheckedAnswer) -> CheckResult:
        return _all_are_there(self.lacking(checked, [self.value]), [self.value], checked)


class ContainsAll(_Worded):
    kind: Literal["contains_all"]
    value: ManyWanted

    def run(self, checked: CheckedAnswer) -> CheckResult:
        return _all_are_there(self.lacking(checked, self.value), self.value, checked)


def _all_are_there(lacking: list[str], wanted: list[str], checked: CheckedAnswer) -> CheckResult:
    if not lacking:
        return CheckResult(True, f"Holds {listed(wanted)}.")
    seen = fold_case(checked.text)
    in_other_case = [each for each in lacking if fold_case(each) in seen]
    hint = f" ({listed(in_other_case)} is there in other letters, small or capital)" if in_other_case else ""
    return CheckResult(False, f"Missing: {listed(lacking)}{hint}. Write it word for word.")


class ContainsAny(_Worded):
    kind: Literal["contains_any"]
    value: ManyWanted

    def run(self, checked: CheckedAnswer) -> CheckResult:
        lacking = self.lacking(checked, self.value)
        if len(lacking) == len(self.value):
            return CheckResult(False, f"None of {listed(lacking)} occurs: write at least one of them word for word.")
        return CheckResult(True, f"Holds {listed([each for each in self.value if each not in lacking])}.")


class NotContains(_Worded):
    kind: Literal["not_contains"]
    value: OneOrMany

    def run(self, checked: CheckedAnswer) -> CheckResult:
        unwanted = [self.value] if isinstance(self.value, str) else self.value
        seen = self.as_compared(checked.text)
        forms = {each: self.as_compared(each) for each in unwanted}
        present = [each for each in unwanted if forms[each] in seen]
        if not present:
            return CheckResult(True, f"Free of {listed(unwanted)}.")
        times = amount(sum(seen.count(forms[each]) for each in present), "time")
        first = min(seen.find(forms[each]) for each in present)
        place = quoted(seen[max(0, first - EXCERPT_CHARS // 2) :])
        found = f"Found {listed(present)}, {times} in all, first in {place}"
        return CheckResult(False, f"{found}: remove every occurrence.")


class StartsOrEndsWith(_Worded):
    kind: Literal["starts_with", "ends_with"]
    value: FilledWanted

    def run(self, checked: CheckedAnswer) -> CheckResult:
        seen = self.as_compared(checked.text.strip())
        if self.kind == "starts_with":
            is_there, show, place = seen.startswith(self.as_compared(self.value.lstrip())), quoted, "beginning"
        else:
            is_there, show, place = seen.endswith(self.as_compared(self.value.rstrip())), _quoted_end, "end"
        verb = self.kind.partition("_")[0]
        if is_there:
            return CheckResult(True, f"{verb.capitalize()} with {show(self.value)}.")
        found, wanted = show(checked.text), show(self.value)
        return CheckResult(False, f"The answer {verb} with {found}: put {wanted} at its very {place}.")


def _quoted_end(text: str) -> str:
    return f'"{" ".join(last_chars(text.strip(), EXCERPT_CHARS).split())}"'


class Equals(_Worded):
    kind: Literal["equals"]
    value: FilledWanted

    def run(self, checked: CheckedAnswer) -> CheckResult:
        seen, wanted = self.as_compared(checked.text.strip()), self.as_compared(self.value.strip())
        if seen == wanted:
            return CheckResult(True, f"Is {quoted(self.value)}.")
        pairs = enumerate(zip(seen, wanted, strict=False))
        at = next((n for n, pair in pairs if pair[0] != pair[1]), min(len(seen), len(wanted)))
        start = max(0, at - EXCERPT_CHARS // 2)
        found, right = quoted(seen[start:]), quoted(wanted[start:])
        return CheckResult(
            False, f"From character {at + 1} on, the answer has {found}, not {right}: write exactly the wanted text."
        )


class Search(StrictModel):
    kind: Literal["regex", "not_regex"]
    value: Pattern = Field(description="Searched for anywhere, in linear time; docs/checks.md describes the dialect.")
    ignore_case: bool = Field(default=False, description="Ignore the case of letters.")

    @model_validator(mode="after")
    def _is_usable_as_it_is_searched(self) -> Self:
        # The flag and the normal form change the pattern, so the pattern that is searched for is validated as well.
        if (error := pattern_error(self.searched())) is not None:
            raise PydanticCustomError("pattern", "{words}", {"words": error})
        return self

    def searched(self) -> str:
        return f"(?i){normal(self.value)}" if self.ignore_case else normal(self.value)

    def run(self, checked: CheckedAnswer) -> CheckResult:
        pattern = self.searched()
        # The time of a search grows with pattern and text. A check that cannot run fails, so that no answer passes
        # unchecked.
        if not is_searchable(pattern, checked.text):
            words = f"The answer of {amount(len(checked.text), 'character')} is too long to be searched for this"
            return CheckResult(False, f"{words}, so shorten it: {self.value}")
        if self.kind == "regex":
            if holds_match(pattern, checked.text):
                return CheckResult(True, f"Matches the pattern {self.value}")
            words = "Nothing in the answer matches the pattern, so change the answer until a part of it does"
            return CheckResult(False, f"{words}: {self.value}")
        if not holds_match(pattern, checked.text):
            return CheckResult(True, f"Nothing matches the pattern {self.value}")
        return CheckResult(False, f"{_place(pattern, checked.text)} so reword or remove that part: {self.value}")


def _place(pattern: str, text: str) -> str:
    at = first_matching_line(pattern, text)
    lines = text.split("\n")
    line = "The answer, over several lines" if at is None else f"Line {at + 1}, {quoted(lines[at])}"
    return f"{line}, matches a pattern that must not match,"


TextCheck = Contains | ContainsAll | ContainsAny | NotContains | StartsOrEndsWith | Equals | Search
