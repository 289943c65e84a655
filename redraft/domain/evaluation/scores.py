"""Scores: finite numbers in [0, 1], in the few notations that models use.

Nothing is clamped and no scale is guessed: a bare 8 may mean 8/10, 8 % or a mistake.
"""

import json
import re
from decimal import Decimal

from redraft.domain.text.cleaning import clean, preview

# Covers the rounding error of binary fractions, as in a mean of 0.7, 0.8 and 0.9.
TOLERANCE = 1e-9

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_SCORE = re.compile(
    rf"(?P<number>{_NUMBER})(?:\s*(?P<percent>%)|\s*(?:/|\bout\s+of\b)\s*(?P<whole>{_NUMBER}))?",
    re.IGNORECASE,
)


class ScoreError(ValueError):
    """A value that is not a score; the message names the value."""


def meets(score: float, threshold: float) -> bool:
    """Return whether an unrounded score reaches a threshold."""
    return score >= threshold - TOLERANCE


def read_score(value: object) -> float:
    """Read a score: a number in [0, 1], or a text such as "0.85", "8/10", "85%", "4 out of 5".

    Raises:
        ScoreError: the value is anything else.
    """
    if isinstance(value, str):
        number = _read_text(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    else:
        raise ScoreError(f"The score is {describe(value)}, not a number.")
    if not 0 <= number <= 1:
        raise ScoreError(f"The score {describe(value)} is not between 0 and 1.")
    return float(number) + 0.0  # turns -0.0 into 0.0


def fraction_or_none(value: object) -> float | None:
    try:
        return read_score(value)
    except ScoreError:
        return None


def _read_text(text: str) -> float:
    match = _SCORE.fullmatch(text.strip())
    if match is None:
        raise ScoreError(f"The score is {describe(text)}, which is not a number.")
    whole = "100" if match["percent"] else match["whole"]
    if whole is None:
        return float(match["number"])
    try:
        # Decimals, because the float 4.2 / 10 is 0.42000000000000004.
        part, total = Decimal(match["number"]), Decimal(whole)
        # Two negative numbers would make a valid score.
        return float(part / total) if min(part, total) >= 0 else -1.0
    except ArithmeticError:
        raise ScoreError(f"The score {describe(text)} cannot be computed.") from None


def describe(value: object) -> str:
    """Return a short name of a JSON value for messages."""
    if isinstance(value, str):
        return f'"{preview(clean(value), 40)}"'
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"
