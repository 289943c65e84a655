"""What a check sees of an answer, and what it says about it to whoever writes the next one."""

from dataclasses import dataclass

from redraft.domain.checks.measures import normal
from redraft.domain.text.cleaning import clean, fold, preview

EXCERPT_CHARS = 60
_LISTED_MAX = 3


@dataclass(frozen=True, slots=True)
class Found:
    """What a check found.

    Attributes:
        message: what was found, with the numbers; when it did not pass, also what to change.
    """

    passed: bool
    message: str


@dataclass(frozen=True, slots=True)
class Subject:
    """An answer under checks.

    Attributes:
        answer: as it was written, but for what no text can hold.
        text: the form in which it is compared and counted.
        sources: how many sources it can cite.
    """

    answer: str
    text: str
    sources: int


def subject_of(answer: str, sources: int) -> Subject:
    cleaned = clean(answer)
    return Subject(cleaned, normal(cleaned), sources)


def quoted(text: str) -> str:
    """The beginning of a text, on one line, in quotes."""
    return f'"{fold(preview(text.strip(), EXCERPT_CHARS))}"'


def listed(texts: list[str]) -> str:
    """The first few of several texts: `"a", "b", "c" and 4 more`."""
    more = len(texts) - _LISTED_MAX
    return ", ".join(map(quoted, texts[:_LISTED_MAX])) + (f" and {more} more" if more > 0 else "")


def amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def at_least(found: int, wanted: int, noun: str) -> Found:
    if found >= wanted:
        return Found(True, f"{amount(found, noun)}, at least {wanted:,}.")
    words = f"at least {wanted:,} {_are(wanted)} needed: add at least {amount(wanted - found, noun)}."
    return Found(False, f"Found {amount(found, noun)}, {words}")


def at_most(found: int, allowed: int, noun: str) -> Found:
    if found <= allowed:
        return Found(True, f"{amount(found, noun)}, at most {allowed:,}.")
    words = f"at most {allowed:,} {_are(allowed)} allowed: cut at least {amount(found - allowed, noun)}."
    return Found(False, f"Found {amount(found, noun)}, {words}")


def exactly(found: int, wanted: int, noun: str) -> Found:
    if found == wanted:
        return Found(True, f"Exactly {amount(found, noun)}.")
    change = f"add {wanted - found:,}" if found < wanted else f"remove {found - wanted:,}"
    return Found(False, f"Found {amount(found, noun)}, exactly {wanted:,} {_are(wanted)} wanted: {change}.")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
