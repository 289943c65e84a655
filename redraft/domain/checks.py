"""Checks: criteria that code decides, before any model is asked. Each says exactly what to change."""

from typing import Annotated, Any, cast, get_args

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from redraft.domain.checks_of_content import (
    CitesAllSources,
    InLanguage,
    IsJson,
    IsUrlFree,
    JsonSchema,
    NumericBetween,
)
from redraft.domain.checks_of_size import Bullets, Lines, MaxChars, MaxGrade, MaxWords, MinChars, MinWords
from redraft.domain.checks_of_text import (
    Contains,
    ContainsAll,
    ContainsAny,
    EndsWith,
    Equals,
    NotContains,
    NotRegex,
    Regex,
    StartsWith,
)
from redraft.domain.findings import Found, subject_of

__all__ = ["Check", "Found", "run_check"]

_Any = (
    JsonSchema
    | Regex
    | NotRegex
    | Contains
    | ContainsAll
    | ContainsAny
    | NotContains
    | StartsWith
    | EndsWith
    | Equals
    | MinWords
    | MaxWords
    | MinChars
    | MaxChars
    | Lines
    | Bullets
    | InLanguage
    | IsJson
    | IsUrlFree
    | MaxGrade
    | CitesAllSources
    | NumericBetween
)
_KINDS = tuple(str(each.model_fields["kind"].annotation.__args__[0]) for each in get_args(_Any))


def _names_a_kind(spec: Any) -> Any:
    """Pydantic's own words would repeat whatever was sent."""
    if isinstance(spec, dict) and cast("dict[str, Any]", spec).get("kind") not in _KINDS:
        raise PydanticCustomError(
            "unknown_check", "needs a `kind`, one of {kinds}", {"kinds": ", ".join(sorted(_KINDS))}
        )
    return cast("Any", spec)


Check = Annotated[_Any, Field(discriminator="kind"), BeforeValidator(_names_a_kind)]


def run_check(check: Check, answer: str, *, sources: int = 0) -> Found:
    """What a check finds in an answer. Never raises for an answer.

    Args:
        check: what to look for.
        answer: any text.
        sources: how many sources the answer can cite.
    """
    return check.look(subject_of(answer, sources))
