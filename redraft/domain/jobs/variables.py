"""The request fields for variables and for the name of a generator template."""

from typing import Annotated, Any

from pydantic import Field
from pydantic_core import to_json

from redraft.domain.bodies.fields import MAX_TEXT, matching, rejecting

_NAME = r"[a-z][a-z0-9_-]{0,39}"
TemplateName = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{_NAME}(@[0-9a-f]{{12}})?$"}),
    matching(rf"{_NAME}(@[0-9a-f]{{12}})?", "needs a name such as brief, or brief@0123456789ab with its version"),
]
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
RESERVED = frozenset({"true", "True", "false", "False", "none", "None", "self", "vars"}) | frozenset(
    {"and", "or", "not", "in", "is", "if", "else"}
)
"""The names that have a meaning of their own in templates."""
_VariableName = Annotated[
    str,
    matching(_VARIABLE, "needs letters, digits and '_', and no digit at the beginning"),
    rejecting("reserved_name", lambda name: _RESERVED_NAME if name in RESERVED else None),
]
_RESERVED_NAME = f"is a name that templates reserve; choose another than {', '.join(sorted(RESERVED))}"
Variables = Annotated[
    dict[_VariableName, Any],
    Field(max_length=100, json_schema_extra={"propertyNames": {"pattern": f"^{_VARIABLE}$"}}),
    rejecting("string_too_long", lambda value: _LONG_VARS if len(to_json(value)) > MAX_TEXT else None),
]
_LONG_VARS = f"must have at most {MAX_TEXT:,} bytes as JSON"
