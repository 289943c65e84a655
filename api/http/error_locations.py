"""Where a request is wrong: JSON Pointers into its body, and names of its other parts."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fastapi.exceptions import RequestValidationError

from redraft.domain.bodies.pointers import place_of, words_of
from redraft.errors import FieldError

_POINTER_MAX = 500


def errors_of(error: RequestValidationError, limit: int) -> list[FieldError]:
    """One validation error per location and code, at most `limit`; none repeats the input."""
    errors = (_field_error(each, error.body) for each in error.errors())
    return list(dict.fromkeys(errors))[:limit]


def _field_error(error: Mapping[str, Any], body: Any) -> FieldError:
    part, *path = cast("Sequence[str | int]", error["loc"])
    kind = str(error["type"])
    if part == "body":
        return FieldError(
            place_of({**error, "loc": path}, body)[:_POINTER_MAX], words_of({**error, "loc": path}, body), kind
        )
    return FieldError("/".join(map(str, (part, *path)))[:_POINTER_MAX], str(error["msg"]), kind)
