"""Applies JSON Schemas and regular expressions of users to values, within the limits of a child process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redraft.sandbox import processes
from redraft.sandbox.processes import CPU_S, LimitExceeded

__all__ = ["CPU_S", "PATTERN_BYTES_MAX", "LimitExceeded", "SchemaViolation", "first_errors", "is_valid"]

PATTERN_BYTES_MAX = 10_000_000


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    message: str
    path: tuple[str | int, ...]


def is_valid(
    schema: Mapping[str, Any], value: Any, *, pattern_bytes_max: int = PATTERN_BYTES_MAX, with_formats: bool = False
) -> bool:
    """Whether a value matches a schema. `pattern_bytes_max` limits the compiled size of the patterns.

    Raises ValueError if the schema cannot be used or the value is not JSON, LimitExceeded if the validation needs too
    much CPU time or memory, and Busy if no child process is free in time.
    """
    return bool(_compute(schema, value, pattern_bytes_max, with_formats=with_formats)["is_valid"])


def first_errors(
    schema: Mapping[str, Any], value: Any, most: int, *, pattern_bytes_max: int = PATTERN_BYTES_MAX
) -> list[SchemaViolation]:
    """Return the first validation errors of a value. Raises the same errors as `is_valid`."""
    outcome = _compute(schema, value, pattern_bytes_max, errors_max=most)
    return [SchemaViolation(message, tuple(path)) for message, path in outcome["errors"]]


def _compute(
    schema: Mapping[str, Any], value: Any, pattern_bytes_max: int, *, errors_max: int = 0, with_formats: bool = False
) -> dict[str, Any]:
    limits = {"pattern_bytes_max": pattern_bytes_max, "errors_max": errors_max, "with_formats": with_formats}
    outcome = processes.compute({"schema": dict(schema), "value": value, **limits})
    if "unusable" in outcome:
        raise ValueError(outcome["unusable"])
    return outcome
