"""Lists the fields that a column can fill, by dotted name, and converts the text of a cell to the value of a field."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from redraft.datasets.json_rows import parse_json
from redraft.domain.jobs.requests import EvaluateAnswer, GenerateAnswer

Kind = Literal["text", "text_or_json", "integer", "number", "boolean", "json"]

# These objects accept any names, so a column such as `metadata.x` may have any name after the dot
OPEN = ("metadata", "vars")

_OWN: Mapping[str, Kind] = {"custom_id": "text", "human_score": "number", "human_pass": "boolean", "vars": "json"}
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "y", "1", "pass"), True),
    **dict.fromkeys(("false", "no", "n", "0", "fail"), False),
}
_INTEGER = re.compile(r"[+-]?\d{1,18}(?:\.0+)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# At most two digits may follow the comma, because a comma before three digits may separate thousands. After a single 0
# any number of digits may follow
_DECIMAL_COMMA = re.compile(r"[+-]?(?:0,\d+|\d+,\d{1,2})", re.ASCII)


@cache
def kinds() -> Mapping[str, Kind]:
    """Return the kinds of all fields that a column may fill: the fields of both request types, and of a row itself."""
    found: dict[str, Kind] = dict(_OWN)
    for model in (GenerateAnswer, EvaluateAnswer):
        schema = model.model_json_schema(by_alias=True)
        found |= dict(_kinds_in(schema, schema.get("$defs", {}), ""))
    # A cell can have the path of one file (`redraft/datasets/attachment_paths.py`)
    found["attachments"] = "text_or_json"
    return found


@cache
def parts() -> frozenset[str]:
    """Return the fields whose values are objects. They are merged name by name."""
    return frozenset(name.rpartition(".")[0] for name in kinds() if "." in name) | set(OPEN)


def kind_of(target: str) -> Kind | None:
    """Return the kind of a field, or None if the field does not exist."""
    head, dot, name = target.partition(".")
    if head in OPEN and dot:
        return "text" if name else None
    return kinds().get(target)


def _kinds_in(schema: Mapping[str, Any], defined: Mapping[str, Any], above: str) -> Iterator[tuple[str, Kind]]:
    for name, spec in schema["properties"].items():
        options = list(_options(spec, defined))
        yield above + name, _kind({option.get("type") for option in options} - {"null"})
        for option in options:
            if "properties" in option:
                yield from _kinds_in(option, defined, f"{above}{name}.")


def _options(spec: Mapping[str, Any], defined: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "$ref" in spec:
        yield from _options(defined[spec["$ref"].rpartition("/")[2]], defined)
    elif "anyOf" in spec:
        for each in spec["anyOf"]:
            yield from _options(each, defined)
    else:
        yield spec


def _kind(types: set[Any]) -> Kind:
    simple: dict[str, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    if len(types) == 1:
        return simple.get(types.pop(), "json")
    return "text_or_json" if "string" in types else "json"


def read_cell(value: Any, kind: Kind) -> Any:
    """Convert a cell to the value of a field. A cell of Parquet may be a typed value instead of a text.

    Raises ValueError if the text has another kind. The message continues a sentence that begins with the field's name.
    """
    if not isinstance(value, str):
        return _read_typed(value, kind)
    match kind:
        case "text":
            return value
        case "text_or_json":
            return parse_json(value) if value.lstrip().startswith(("[", "{")) else value
        case "integer" | "number":
            return _read_number(value.strip(), kind)
        case "boolean" if (text := value.strip().lower()) in _BOOLEANS:
            return _BOOLEANS[text]
        case "boolean":
            raise ValueError("needs true or false")
        case "json":
            return parse_json(value)


def _read_typed(value: Any, kind: Kind) -> Any:
    # In Parquet, a column of integers with gaps may have floats, and a column of digits may have numbers
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "text" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _read_number(text: str, kind: Literal["integer", "number"]) -> int | float:
    if _INTEGER.fullmatch(text):
        return int(text.partition(".")[0])
    if kind == "integer":
        raise ValueError("needs a whole number")
    if _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    if _DECIMAL_COMMA.fullmatch(text):
        return float(text.replace(",", "."))
    raise ValueError("needs a number, such as 0.8")
