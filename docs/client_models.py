"""Generates parts of `client/`: its models from the API's description, and its blocking client from the other."""

import json
import keyword
import re
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from api.app import create_app
from redraft.settings import Settings

CLIENT = Path(__file__).resolve().parents[1] / "client" / "redraft_client"

Schema = Mapping[str, Any]

_NOTE = "`make docs` generates this file."
_RESPONSES = f'''"""The models of responses, from the API's description. {_NOTE}"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from redraft_client._base import JobState, ResponseModel, RunState
'''
_REQUESTS = f'''"""The fields of request bodies and the filters of lists, from the API's description. {_NOTE}

The server fills in the defaults, and validates all values.
"""

from __future__ import annotations

from typing import Any, Literal, Required, TypedDict
'''
# Without this method, the iteration over a list would yield pairs of field names and values
_ITERATION = """\
    def __iter__(self) -> Iterator[{}]:  # type: ignore[override]
        return iter(self.data)
"""
_FILTERED = frozenset({"list_jobs", "list_run_items", "get_calibration"})
_BASES = {"Job": "JobState", "Run": "RunState"}
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WIDTH = 116


@lru_cache(maxsize=1)
def _description() -> Schema:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(_env_file=None, data_dir=Path(folder))  # pyright: ignore[reportCallIssue]
        return create_app(settings).openapi()


def models_page() -> str:
    """Return the module of all models in responses, which accepts values and fields of newer servers."""
    schemas = {name: each for name, each in sorted(_schemas().items()) if not _is_request(each)}
    enums = [f"{name}: TypeAlias = {_hint(each)}\n" for name, each in schemas.items() if "enum" in each]
    classes = [_model(name, each) for name, each in schemas.items() if "enum" not in each]
    return f"{_RESPONSES}\n{''.join(enums)}" + "".join(classes)


def requests_page() -> str:
    """Return the module of all request bodies, and of the filters of lists."""
    schemas = {name: _schemas()[name] for name in _request_names()} | dict(_filters())
    return _REQUESTS + "".join(_typed_dict(name, schemas[name]) for name in sorted(schemas))


def _filters() -> Iterator[tuple[str, Schema]]:
    """Yield the query parameters of the lists with filters as schemas."""
    for operations in _description()["paths"].values():
        operation = operations.get("get", {"operationId": ""})
        if operation["operationId"] in _FILTERED:
            found = dict(_parameter(each) for each in operation["parameters"] if each["in"] == "query")
            yield operation["operationId"].title().replace("_", ""), {"properties": found}


def _parameter(parameter: Schema) -> tuple[str, Schema]:
    schema = {key: value for key, value in parameter["schema"].items() if key != "description"}
    if "items" in schema:
        schema = {"anyOf": [schema["items"], schema]}
    if "description" in parameter:
        schema["description"] = parameter["description"]
    if parameter["name"] == "metadata.KEY":
        schema = {"type": "object", "additionalProperties": {"type": "string"}, "description": "Values by name."}
    return parameter["name"].partition(".")[0], schema


def _schemas() -> dict[str, Schema]:
    return _description()["components"]["schemas"]


def _is_request(schema: Schema) -> bool:
    # The server refuses unknown fields in requests only
    return schema.get("additionalProperties") is False


def _request_names() -> set[str]:
    """Return the names of all schemas that request bodies use."""
    found: set[str] = set()
    open_names = [
        name
        for operations in _description()["paths"].values()
        for operation in operations.values()
        for name in _references(operation.get("requestBody"))
    ]
    while open_names:
        name = open_names.pop()
        if name not in found:
            found.add(name)
            open_names += _references(_schemas()[name])
    return {name for name in found if "properties" in _schemas()[name]}


def _references(node: Any) -> Iterator[str]:
    yield from re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(node))


def _model(name: str, schema: Schema) -> str:
    lines = [f"\n\nclass {name}({_BASES.get(name, 'ResponseModel')}):"]
    lines += _doc(schema.get("description"))
    required = schema.get("required", [])
    lines += [
        line
        for field, each in schema.get("properties", {}).items()
        for line in (_field(field, each, is_required=field in required), *_doc(each.get("description")))
    ]
    if name.endswith(("List", "Page")):
        lines += ["", *_ITERATION.format(schema["properties"]["data"]["items"]["$ref"].rpartition("/")[2]).splitlines()]
    return "\n".join(lines if len(lines) > 1 else [*lines, "    pass"]) + "\n"


def _field(name: str, schema: Schema, *, is_required: bool) -> str:
    hint = _hint(schema)
    may_be_null = hint == "Any" or hint.endswith("None")
    if is_required and not may_be_null:
        return f"    {name}: {hint}"
    # A field that may be null may also be absent: an older server does not have it
    default = schema.get("default")
    is_optional = default is None and not may_be_null
    return f"    {name}: {hint}{' | None' if is_optional else ''} = {default!r}"


def _typed_dict(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    hints = {
        field: f"Required[{hint}]" if field in required else hint
        for field, each in schema["properties"].items()
        for hint in [_hint(each, is_request=True)]
    }
    if any(map(keyword.iskeyword, hints)):
        items = "".join(f"        {field!r}: {hint!r},\n" for field, hint in hints.items())
        return f"\n\n{name} = TypedDict(\n    {name!r},\n    {{\n{items}    }},\n    total=False,\n)\n"
    lines = [f"\n\nclass {name}(TypedDict, total=False):", *_doc(schema.get("description"))]
    for field, hint in hints.items():
        lines += [f"    {field}: {hint}", *_doc(schema["properties"][field].get("description"))]
    return "\n".join(lines) + "\n"


def _doc(text: str | None) -> list[str]:
    if not text:
        return []
    lines = textwrap.wrap(" ".join(text.split()).replace("\\", "\\\\"), _WIDTH - 10) or [""]
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']


def _hint(schema: Schema, *, is_request: bool = False) -> str:
    """Return the type of a value. In responses, an enumeration may get new values."""
    if "$ref" in schema:
        return _reference(schema["$ref"].rpartition("/")[2], is_request=is_request)
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else []):
        found = f"Literal[{', '.join(map(repr, values))}]"
        return found if is_request else f"{found} | {' | '.join(sorted({type(each).__name__ for each in values}))}"
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        parts = list(dict.fromkeys(_hint(each, is_request=is_request) for each in branches))
        return " | ".join(sorted(parts, key=lambda part: part == "None"))
    return _plain(schema, is_request=is_request)


def _reference(name: str, *, is_request: bool) -> str:
    target = _schemas()[name]
    if is_request:
        return _hint(target, is_request=True) if "enum" in target else name
    return "dict[str, Any]" if _is_request(target) else name


def _plain(schema: Schema, *, is_request: bool) -> str:
    kind: str = schema.get("type", "")
    if kind == "array":
        return f"list[{_hint(schema.get('items', {}), is_request=is_request)}]"
    if kind == "object":
        values: Schema | bool = schema.get("additionalProperties", False)
        return f"dict[str, {_hint(values, is_request=is_request) if isinstance(values, Mapping) else 'Any'}]"
    return _SCALARS.get(kind, "Any")


_BLOCKING = (
    (r'^"""The asynchronous (\w+)', r'"""The blocking \1'),
    (r'^(""".*)"""$', rf'\1 {_NOTE}"""'),
    (r"\bAsync(Redraft|Jobs|Datasets|Runs|Ratings|Driver|Generator|Client)\b", r"\1"),
    (r"_async_driver", "_driver"),
    (r", and leaves the event loop free while it waits", ""),
    (r"\basyncio\b", "time"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\ba(close|closing|read|iter_lines)\b", r"\1"),
)


def blocking_client_page() -> str:
    return _blocking("async_client.py")


def blocking_driver_page() -> str:
    return _blocking("_async_driver.py")


def _blocking(file: str) -> str:
    """Return a module without `async` and `await`."""
    text = (CLIENT / file).read_text("utf-8")
    for number, (pattern, replacement) in enumerate(_BLOCKING):
        text = re.sub(pattern, replacement, text, count=1 if number < 2 else 0, flags=re.MULTILINE)
    return text
