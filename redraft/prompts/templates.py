"""Renders templates in a sandbox. The texts of users and models are only values in the templates."""

from collections.abc import Set as AbstractSet
from itertools import accumulate
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from redraft.caching import cached_once

OPTIONS: dict[str, Any] = {
    "undefined": StrictUndefined,
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
    "autoescape": False,
}
STABLE = "{# stable #}\n"
"""Marks the end of a part of a template. The part has the same text in many prompts, so a provider can cache it."""
STABLE_PARTS_MAX = 4  # Anthropic caches a prompt up to at most 4 places
SANDBOX = ImmutableSandboxedEnvironment(**OPTIONS)
# A template may use only the given values. By default, Jinja also offers functions such as `range`
SANDBOX.globals.clear()


@cached_once(maxsize=256)
def _compiled(source: str) -> Template:
    return SANDBOX.from_string(source)


def render_template(source: str, **values: Any) -> str:
    """Render a template. Raises UndefinedError for unknown names and attributes."""
    return _compiled(source).render(**values).strip("\n")


def render_stable_parts(source: str, **values: Any) -> tuple[str, tuple[int, ...]]:
    """Render a template. Return the text, and the offsets in it where the parts before each `STABLE` end."""
    parts = [_compiled(part).render(**values) for part in source.split(STABLE)]
    whole = "".join(parts)
    text = whole.strip("\n")
    cut = len(whole) - len(whole.lstrip("\n"))
    ends = zip(parts[:-1], accumulate(map(len, parts)), strict=False)
    return text, tuple(min(end - cut, len(text)) for part, end in ends if part.strip())


def unknown_names(source: str, known: AbstractSet[str]) -> list[str]:
    """Return the variables of a template that have no value. Raises TemplateError if the template is invalid."""
    tree = SANDBOX.parse(source)
    # Jinja itself defines `self`, which is not among the undeclared names
    own = {node.name for node in tree.find_all(nodes.Name)} & {"self"}
    return sorted((meta.find_undeclared_variables(tree) | own) - known)


def describe_template_error(error: Exception) -> str:
    """Describe a template error, with its line if it is known."""
    line = getattr(error, "lineno", None)
    words = error.message if isinstance(error, TemplateError) and error.message else str(error)
    return f"{words} (line {line})" if line else words
