"""What a score is: a finite number in [0, 1], in the few ways that models write one.

Nothing is clamped and no scale is guessed: a bare 8 may mean 8/10, 8 % or a mistake.
"""

import re

from redraft.domain.texts import clean, preview

TOLERANCE = 1e-9

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_SCORE = re.compile(
    rf"(?P<number>{_NUMBER})(?:\s*(?P<percent>%)|\s*(?:/|\bout\s+of\b)\s*(?P<whole>{_NUMBER}))?",
    re.IGNORECASE,
)


class ScoreError(ValueError):
    """A value that is no score; the message tells a person what was seen."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def meets(score: float, threshold: float) -> bool:
    """Whether a score reaches a threshold; unrounded, with room for the error of binary fractions."""
    return score >= threshold - TOLERANCE


def read_score(value: object) -> float:
    """Read a score: a number in [0, 1], or a text such as "0.85", "8/10", "85%", "4 out of 5".

    Raises:
        ScoreError: anything else, with what was seen.
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


def _read_text(text: str) -> float:
    match = _SCORE.fullmatch(text.strip())
    if match is None:
        raise ScoreError(f"The score is {describe(text)}, which is not a number.")
    number = float(match["number"])
    if match["percent"]:
        return number / 100
    if match["whole"] is None:
        return number
    whole = float(match["whole"])
    if whole == 0:
        raise ScoreError(f"The score {describe(text)} divides by zero.")
    # A negative whole would turn a negative score into a positive one.
    return number / whole if whole > 0 else -1.0


def describe(value: object) -> str:
    """A short name of a JSON value, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{preview(clean(value), 40)}"'
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 64 else "a huge number"
    return {dict: "an object", list: "a list"}.get(type(value), f"a {type(value).__name__}")
