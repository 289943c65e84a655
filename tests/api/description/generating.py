"""Requests made from the API's own description, sound ones and such that are wrong in one place or another.

Schemathesis needs an environment of its own, and runs in `make chaos` (docs/decisions/0010).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

Schema = Mapping[str, Any]

_TEXT = st.text(max_size=30)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT
JUNK = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3))
# A wait would only be slow, and a header's value is no free text on its way here.
_HEADER_TEXT = (
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)
    .map(str.strip)
    .filter(lambda text: "wait" not in text.lower())
)
_ODD_BODIES = st.sampled_from(
    [b"", b"{", b"[]", b"null", b'{"a": 1, "a": 2}', b"\xff", b"NaN", b"[" * 2000, b'"\\ud800"']
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb on one path of the description."""

    method: str
    path: str
    described: Schema

    def parameters(self, place: str) -> list[Schema]:
        return [each for each in self.described.get("parameters", []) if each["in"] == place]

    @property
    def body(self) -> Schema | None:
        content = self.described.get("requestBody", {}).get("content", {})
        return content["application/json"]["schema"] if content else None

    @property
    def examples(self) -> list[Any]:
        """The bodies that the description shows."""
        content = self.described.get("requestBody", {}).get("content", {})
        return [each["value"] for each in content.get("application/json", {}).get("examples", {}).values()]


@dataclass(frozen=True, slots=True)
class Request:
    """As it goes out."""

    target: str
    headers: Mapping[str, str]
    content: bytes


def operations(document: Schema) -> list[Operation]:
    return [
        Operation(method.upper(), path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]


class Values:
    """Strategies for what schemas describe.

    Args:
        document: the API's description.
        known: values that mean something here, by the name of a parameter or property.
        is_spoilt: whether now and then a value is something else.
    """

    def __init__(self, document: Schema, known: Mapping[str, list[Any]], *, is_spoilt: bool) -> None:
        self._document = document
        self._known = known
        self._is_spoilt = is_spoilt

    def of(self, schema: Schema, name: str = "", *, depth: int = 0) -> st.SearchStrategy[Any]:
        known = self._known.get(name)
        sound = st.sampled_from(known) if known else self._sound(self._resolved(schema), depth)
        if not self._is_spoilt:
            return sound
        any_text = self._sound(self._resolved(schema), depth) if known else JUNK
        return st.integers(0, 15).flatmap(lambda dice: JUNK if dice == 0 else any_text if dice == 1 else sound)

    def _resolved(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    def _sound(self, schema: Schema, depth: int) -> st.SearchStrategy[Any]:
        if "const" in schema or "enum" in schema:
            return st.sampled_from(schema.get("enum") or [schema["const"]])
        if branches := schema.get("anyOf") or schema.get("oneOf"):
            return st.one_of([self._sound(self._resolved(branch), depth) for branch in branches])
        make = getattr(self, f"_{schema.get('type', 'any')}")
        return make(schema, depth)

    def _any(self, _schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
        return JUNK

    def _null(self, _schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
        return st.none()

    def _boolean(self, _schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
        return st.booleans()

    def _integer(self, schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
        return st.integers(schema.get("minimum"), schema.get("maximum"))

    def _number(self, schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        return st.floats(low, schema.get("maximum"), allow_nan=False, allow_infinity=False)

    def _string(self, schema: Schema, _depth: int) -> st.SearchStrategy[Any]:
        if schema.get("format") == "date-time":
            return st.datetimes().map(lambda moment: moment.isoformat() + "Z")
        if "pattern" in schema:
            return st.from_regex(schema["pattern"])
        alphabet = st.characters() if self._is_spoilt else "abc äß€𝄞"
        text = st.text(alphabet, min_size=schema.get("minLength", 0), max_size=min(40, schema.get("maxLength", 40)))
        return text if self._is_spoilt else text.map(lambda found: found if found.strip() else "x")

    def _array(self, schema: Schema, depth: int) -> st.SearchStrategy[Any]:
        if "prefixItems" in schema:
            return st.tuples(*(self.of(each, depth=depth + 1) for each in schema["prefixItems"])).map(list)
        least = schema.get("minItems", 0)
        most = min(least + 2, schema.get("maxItems", least + 2))
        return st.lists(self.of(schema.get("items", {}), depth=depth + 1), min_size=least, max_size=most)

    def _object(self, schema: Schema, depth: int) -> st.SearchStrategy[Any]:
        named = {name: self.of(each, name, depth=depth + 1) for name, each in schema.get("properties", {}).items()}
        if not named and not self._is_spoilt:
            return st.dictionaries(st.sampled_from("abc"), self.of(_further(schema), depth=depth + 1), max_size=2)
        if not named:
            return st.dictionaries(_TEXT, JUNK if depth > 3 else self.of(_further(schema), depth=depth + 1), max_size=2)
        required = {name: named.pop(name) for name in schema.get("required", [])}
        return st.fixed_dictionaries(required, optional=named)

    def request(self, operation: Operation) -> st.SearchStrategy[Request]:
        return st.builds(
            self._spell,
            st.just(operation),
            st.fixed_dictionaries(
                {each["name"]: self.of(each["schema"], each["name"]) for each in operation.parameters("path")}
            ),
            st.fixed_dictionaries(
                {}, optional={p["name"]: self.of(p["schema"], p["name"]) for p in operation.parameters("query")}
            ),
            st.fixed_dictionaries({}, optional={p["name"]: _HEADER_TEXT for p in operation.parameters("header")}),
            self._content(operation),
        )

    def _content(self, operation: Operation) -> st.SearchStrategy[bytes]:
        if operation.body is None:
            return st.just(b"")
        sound = self.of(operation.body).map(lambda value: json.dumps(value).encode())
        return st.integers(0, 9).flatmap(lambda dice: _ODD_BODIES if self._is_spoilt and dice == 0 else sound)

    def _spell(
        self,
        operation: Operation,
        places: Mapping[str, Any],
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        content: bytes,
    ) -> Request:
        path = operation.path.format_map({name: quote(_word(value), safe="") or "-" for name, value in places.items()})
        pairs = [
            (name, each) for name, value in query.items() for each in (value if isinstance(value, list) else [value])
        ]
        asked = "&".join(f"{quote(name)}={quote(_word(value), safe='')}" for name, value in pairs)
        typed = {"Content-Type": "application/json"} if content else {}
        return Request(f"{path}?{asked}" if asked else path, {**headers, **typed}, content)


def _further(schema: Schema) -> Schema:
    found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else {}


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()
