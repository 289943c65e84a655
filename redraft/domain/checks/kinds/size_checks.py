"""Checks of size: words, characters, lines, list items, and the reading grade."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from redraft.domain.bodies.fields import StrictModel
from redraft.domain.checks.check_results import CheckedAnswer, CheckResult, at_least, at_most, exactly
from redraft.domain.checks.measures import count_chars, count_items, count_words, read_grade

COUNT_MAX = 1_000_000
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]


class SizeLimit(StrictModel):
    kind: Literal["min_words", "max_words", "min_chars", "max_chars"]
    value: Count = Field(description="Characters are counted as people see them, without outer white space.")

    def run(self, checked: CheckedAnswer) -> CheckResult:
        compare = at_least if self.kind.startswith("min_") else at_most
        if self.kind.endswith("_words"):
            return compare(count_words(checked.text), self.value, "word")
        return compare(count_chars(checked.text.strip()), self.value, "character")


class LineCount(StrictModel):
    """The number of lines that are not blank, or of list items outside of code fences: `value`, or a range."""

    kind: Literal["lines", "bullets"]
    value: Count | None = Field(default=None, description="Exactly this number.")
    min: Count | None = Field(default=None, description="At least this number.")
    max: Count | None = Field(default=None, description="At most this number.")

    @model_validator(mode="after")
    def _is_one_amount(self) -> Self:
        is_range = self.min is not None or self.max is not None
        if (self.value is not None) == is_range:
            raise PydanticCustomError("amount", "needs `value`, or else `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise PydanticCustomError("range_reversed", "`min` is larger than `max`")
        return self

    def run(self, checked: CheckedAnswer) -> CheckResult:
        if self.kind == "bullets":
            found, noun = count_items(checked.text), "list item"
        else:
            found, noun = sum(1 for line in checked.text.split("\n") if line.strip()), "line"
        if self.value is not None:
            return exactly(found, self.value, noun)
        # The message of a range names only the bound that the answer missed.
        if self.min is not None and (found < self.min or self.max is None):
            return at_least(found, self.min, noun)
        return at_most(found, self.max or 0, noun)


class MaxGrade(StrictModel):
    """The Flesch-Kincaid grade, for English texts only."""

    kind: Literal["max_grade"]
    value: float = Field(ge=0, le=100, allow_inf_nan=False, description="Years of school.")

    def run(self, checked: CheckedAnswer) -> CheckResult:
        reading = read_grade(checked.text)
        if reading is None:
            return CheckResult(True, "No words, so no grade.")
        if reading.grade <= self.value:
            return CheckResult(True, f"Grade {reading.grade:.1f}, at most {self.value:g}.")
        measured = f"{reading.words_per_sentence:.1f} words per sentence, {reading.syllables_per_word:.2f} syllables"
        return CheckResult(
            False,
            f"The reading grade is {reading.grade:.1f}, at most {self.value:g} is allowed ({measured} per word): "
            "write shorter sentences and shorter words.",
        )


SizeCheck = SizeLimit | LineCount | MaxGrade
