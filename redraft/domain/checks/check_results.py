"""The input and the result of a check, and functions that word the messages of results."""

from collections.abc import Callable
from dataclasses import dataclass

from redraft.domain.text.cleaning import fold, preview

EXCERPT_CHARS = 60
_LISTED_MAX = 3


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. Its message has the figures and, if the check fails, the change to make.

    `score` is in 0..1; None for a check that only passes or fails.
    """

    passed: bool
    message: str
    score: float | None = None


Asker = Callable[[str, str], CheckResult]
"""Asks a check outside of Redraft by its kind and name."""


def ask_nobody(kind: str, name: str) -> CheckResult:
    """Raise TypeError: the caller of the check has no connection to other programs."""
    raise TypeError(f"A check of kind {kind} ({name}) needs an operation that asks it.")


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer to check, its normal form for comparison and counting, and the number of sources that it can cite.

    `ask` asks the checks outside of Redraft.
    """

    answer: str
    text: str
    sources: int
    ask: Asker = ask_nobody


def quoted(text: str) -> str:
    """Quote the beginning of a text on one line."""
    return f'"{fold(preview(text.strip(), EXCERPT_CHARS))}"'


def listed(texts: list[str]) -> str:
    """List the first few texts: `"a", "b", "c" and 4 more`."""
    more = len(texts) - _LISTED_MAX
    return ", ".join(map(quoted, texts[:_LISTED_MAX])) + (f" and {more} more" if more > 0 else "")


def amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def at_least(found: int, wanted: int, noun: str) -> CheckResult:
    if found >= wanted:
        return CheckResult(True, f"{amount(found, noun)}, at least {wanted:,}.")
    missing = amount(wanted - found, noun)
    return _missed(found, noun, wanted, "at least", "needed", f"add at least {missing}")


def at_most(found: int, allowed: int, noun: str) -> CheckResult:
    if found <= allowed:
        return CheckResult(True, f"{amount(found, noun)}, at most {allowed:,}.")
    surplus = amount(found - allowed, noun)
    return _missed(found, noun, allowed, "at most", "allowed", f"cut at least {surplus}")


def exactly(found: int, wanted: int, noun: str) -> CheckResult:
    if found == wanted:
        return CheckResult(True, f"Exactly {amount(found, noun)}.")
    change = f"add {wanted - found:,}" if found < wanted else f"remove {found - wanted:,}"
    return _missed(found, noun, wanted, "exactly", "wanted", change)


def _missed(found: int, noun: str, bound: int, how: str, verb: str, change: str) -> CheckResult:
    words = f"{how} {bound:,} {'is' if bound == 1 else 'are'} {verb}"
    return CheckResult(False, f"Found {amount(found, noun)}, {words}: {change}.")


def range_in_words(low: float | None, high: float | None) -> str:
    """Describe a range. An end that is None means no bound."""
    if low is not None and high is not None:
        return f"from {plain_number(low)} to {plain_number(high)}"
    return f"at least {plain_number(low)}" if low is not None else f"at most {plain_number(high or 0)}"


def plain_number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
