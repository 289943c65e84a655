"""Parse JSON that has only one meaning: each name once per object, no NaN and no infinity."""

import json
import math
from collections.abc import Callable
from typing import Any

_ECHOED_CHARS = 60


class JsonError(ValueError):
    """Raised for a text that is not strict JSON. The message continues a sentence that begins with the text's name."""

    def __init__(self, message: str, code: str = "invalid_json") -> None:
        super().__init__(message)
        self.code = code


def finite(text: str) -> float:
    """Read a float. Raises JsonError if the number is too large for a float."""
    number = float(text)
    if not math.isfinite(number):
        raise JsonError(f"holds the number {text[:_ECHOED_CHARS]}, which is too large")
    return number


def parse(text: str, parse_float: Callable[[str], float] = finite) -> Any:
    """Parse a text. Raises JSONDecodeError (with the position of the error) or JsonError."""
    try:
        return json.loads(text, object_pairs_hook=_unique_names, parse_constant=_refuse, parse_float=parse_float)
    except RecursionError:
        raise JsonError("is nested too deeply") from None
    except (json.JSONDecodeError, JsonError):
        raise
    except ValueError:
        # Python refuses integers of more than 4300 digits, because their conversion takes quadratic time.
        raise JsonError("has a number with too many digits") from None


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise JsonError(f"has the name {twice[:_ECHOED_CHARS]!r} twice in one object", "duplicate_name")
    return found


def _refuse(name: str) -> Any:
    raise JsonError(f"holds {name}, which is no JSON value")
