"""Prepares the OpenAPI document for `/docs`: its operations by tag, and the fields of each schema."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from api.pages.parts.markdown import render_markdown

_REF = "#/components/schemas/"
_METHODS = ("get", "post", "put", "patch", "delete")
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "maxProperties": "at most {} fields",
    "pattern": "matches {}",
    "format": "format {}",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a schema, or a parameter of an operation. `place` says where a parameter is sent."""

    name: str
    type: Markup
    is_required: bool
    limits: list[str]
    words: Markup
    place: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """A response of an operation. `types` are the types of its body by media type."""

    status: str
    words: Markup
    types: list[tuple[str, Markup]]
    headers: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the API, or a message to a webhook. `problems` are the status codes of its problem documents."""

    id: str
    method: str
    path: str
    words: Markup
    parameters: list[Field]
    body: list[tuple[str, Markup]]
    example: str
    responses: list[Response]
    problems: list[str]


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    words: Markup
    type: Markup
    fields: list[Field]


@dataclass(frozen=True, slots=True)
class Description:
    """The whole API. `groups` are the operations by tag."""

    words: Markup
    groups: list[tuple[str, list[Operation]]]
    schemas: list[Schema]


def describe(document: Mapping[str, Any]) -> Description:
    groups: dict[str, list[Operation]] = {}
    for path, methods in (*document["paths"].items(), *document.get("webhooks", {}).items()):
        for method in _METHODS:
            if operation := methods.get(method):
                tag = next(iter(operation.get("tags", ())), "more")
                groups.setdefault(tag, []).append(_operation(method, path, operation))
    schemas = [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return Description(render_markdown(document["info"]["description"]), list(groups.items()), schemas)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Operation:
    responses: list[Response] = []
    problems: list[str] = []
    for status, response in operation["responses"].items():
        if "application/problem+json" in response.get("content", {}):
            problems.append(status)
            continue
        headers = [(name, each.get("description", "")) for name, each in response.get("headers", {}).items()]
        responses.append(Response(status, render_markdown(response["description"]), _contents(response), headers))
    body = operation.get("requestBody", {})
    return Operation(
        operation.get("operationId") or f"{method}-{path}",
        method.upper(),
        path,
        render_markdown(operation.get("description", "")),
        [_parameter(each) for each in operation.get("parameters", ())],
        _contents(body),
        _example(body),
        responses,
        sorted(problems),
    )


def _contents(content: Mapping[str, Any]) -> list[tuple[str, Markup]]:
    return [(media, type_of(each.get("schema", {}))) for media, each in content.get("content", {}).items()]


def _example(body: Mapping[str, Any]) -> str:
    for content in body.get("content", {}).values():
        for example in content.get("examples", {}).values():
            return json.dumps(example["value"], ensure_ascii=False, indent=2)
    return ""


def _parameter(parameter: Mapping[str, Any]) -> Field:
    schema = {**parameter["schema"], "description": parameter.get("description", "")}
    return _field(parameter["name"], schema, is_required=parameter.get("required", False), place=parameter["in"])


def _schema(name: str, schema: Mapping[str, Any]) -> Schema:
    required = schema.get("required", ())
    fields = [
        _field(field, each, is_required=field in required) for field, each in schema.get("properties", {}).items()
    ]
    return Schema(name, render_markdown(schema.get("description", "")), type_of(schema), fields)


def _field(name: str, schema: Mapping[str, Any], *, is_required: bool, place: str = "") -> Field:
    words = render_markdown(schema.get("description", ""))
    return Field(name, type_of(schema), is_required, list(_limits(schema)), words, place)


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if "default" in schema:
        yield f"default {json.dumps(schema['default'], ensure_ascii=False)}"
    for part in (schema, *schema.get("anyOf", ())):
        yield from (words.format(part[name]) for name, words in _LIMITS.items() if name in part)


def type_of(schema: Mapping[str, Any]) -> Markup:
    """Return the type in words. The names of schemas are links to them."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return Markup('<a href="#schema-{}">{}</a>').format(name, name)
    for key in ("anyOf", "oneOf"):
        if key in schema and "properties" not in schema:
            return Markup(" or ").join(dict.fromkeys(map(type_of, schema[key])))
    if "const" in schema or "enum" in schema:
        values: Sequence[Any] = schema.get("enum", [schema.get("const")])
        return Markup(", ").join(Markup("<code>{}</code>").format(json.dumps(each)) for each in values)
    kind = schema.get("type", "any value")
    if kind == "array":
        return Markup("list of {}").format(type_of(schema.get("items", {})))
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return Markup("object with values: {}").format(type_of(schema["additionalProperties"]))
    return escape(kind)
