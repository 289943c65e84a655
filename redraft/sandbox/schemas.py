"""Apply JSON Schemas and regular expressions of users to values, within the limits of a child process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redraft.sandbox import processes
from redraft.sandbox.processes import CPU_S, LimitExceeded

__all__ = ["CPU_S", "PATTERN_BYTES_MAX", "LimitExceeded", "Misplaced", "first_errors", "is_valid"]

PATTERN_BYTES_MAX = 10_000_000


@dataclass(frozen=True, slots=True)
class Misplaced:
    message: str
    path: tuple[str | int, ...]


def is_valid(
    schema: Mapping[str, Any], value: Any, *, pattern_bytes_max: int = PATTERN_BYTES_MAX, with_formats: bool = False
) -> bool:
    """Whether a value fits a schema. `pattern_bytes_max` limits the compiled size of its patterns.

    Raises ValueError if the schema cannot be used or the value is no JSON, LimitExceeded if it needs too much CPU time
    or memory, and Busy if no child process can do it now.
    """
    return bool(_ask(schema, value, pattern_bytes_max, with_formats=with_formats)["is_valid"])


def first_errors(
    schema: Mapping[str, Any], value: Any, most: int, *, pattern_bytes_max: int = PATTERN_BYTES_MAX
) -> list[Misplaced]:
    """The first validation errors of a value. Raises as `is_valid`."""
    outcome = _ask(schema, value, pattern_bytes_max, errors_max=most)
    return [Misplaced(message, tuple(path)) for message, path in outcome["errors"]]


def _ask(
    schema: Mapping[str, Any], value: Any, pattern_bytes_max: int, *, errors_max: int = 0, with_formats: bool = False
) -> dict[str, Any]:
    limits = {"pattern_bytes_max": pattern_bytes_max, "errors_max": errors_max, "with_formats": with_formats}
    outcome = processes.ask({"schema": dict(schema), "value": value, **limits})
    if "unusable" in outcome:
        raise ValueError(outcome["unusable"])
    return outcome
