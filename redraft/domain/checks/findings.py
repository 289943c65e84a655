"""The input and the result of a check."""

from dataclasses import dataclass

from redraft.domain.checks.measures import normal
from redraft.domain.text.cleaning import clean, fold, preview

EXCERPT_CHARS = 60
_LISTED_MAX = 3


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a check.

    Attributes:
        message: what was found, with numbers; if the check fails, also what to change.
    """

    passed: bool
    message: str


@dataclass(frozen=True, slots=True)
class Subject:
    """An answer to check.

    Attributes:
        answer: as written, without characters that cannot be stored.
        text: the normal form for comparison and counting.
        sources: the number of sources that it can cite.
    """

    answer: str
    text: str
    sources: int


def subject_of(answer: str, sources: int) -> Subject:
    cleaned = clean(answer)
    return Subject(cleaned, normal(cleaned), sources)


def quoted(text: str) -> str:
    """Quote the beginning of a text on one line."""
    return f'"{fold(preview(text.strip(), EXCERPT_CHARS))}"'


def listed(texts: list[str]) -> str:
    """List the first few texts: `"a", "b", "c" and 4 more`."""
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
