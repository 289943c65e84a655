"""Parses untrusted YAML: plain values only, by the rules of YAML 1.2, with limits of size."""

import json
import re
from collections.abc import Sequence
from typing import Any, cast

import yaml

_VALUES_MAX = 200_000
_DEPTH_MAX = 60

# The loader in C is much faster, but PyYAML may be built without it
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """Reads scalars as JavaScript does: `yes`, `1:30` and dates stay texts, which YAML 1.1 would convert."""

    yaml_implicit_resolvers: dict[str | None, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - fixed by PyYAML


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", [*"-+0123456789"]),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        [*"-+0123456789."],
    ),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"\A(?:{_pattern})\Z"), _first)


def parse_yaml(text: str) -> Any:
    """Parse one YAML document. Raises ValueError; its message continues a sentence that begins with the file's name."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Sizes().of(node, 0)
        return _with_text_keys(loader.construct_document(node))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise ValueError(f"is no usable YAML{place}: {getattr(error, 'problem', None) or error}") from error
    finally:
        loader.dispose()


def _with_text_keys(value: Any) -> Any:
    """Return the value with all keys as texts, as in JavaScript. YAML reads some keys as numbers."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {key if isinstance(key, str) else json.dumps(key): _with_text_keys(each) for key, each in pairs}
    return [_with_text_keys(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


class _Sizes:
    """Counts the values before aliases and merges are expanded, each alias as a copy. Refuses repeated keys."""

    def __init__(self) -> None:
        self._known: dict[int, int | None] = {}

    def of(self, node: Any, depth: int) -> int:
        if depth > _DEPTH_MAX:
            raise ValueError(f"is nested more than {_DEPTH_MAX} times")
        if id(node) in self._known:
            size = self._known[id(node)]
            if size is None:
                raise ValueError("has an alias within its own anchor")
            return size
        # Until the size is known, None marks the node, so that an alias to a node around it is found
        self._known[id(node)] = None
        size = 1 + sum(self.of(child, depth + 1) for child in _children(node))
        if size > _VALUES_MAX:
            raise ValueError(f"has more than {_VALUES_MAX:,} values")
        self._known[id(node)] = size
        return size


def _children(node: Any) -> Sequence[Any]:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        if len(set(keys)) != len(keys):
            name = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"repeats the key {name!r} at line {node.start_mark.line + 1}")
        return [child for pair in node.value for child in pair]
    return cast("list[Any]", node.value) if isinstance(node, yaml.SequenceNode) else ()
