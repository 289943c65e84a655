"""Renders templates in a sandbox. The texts of users and models are only values in the templates."""

from collections.abc import Set as AbstractSet
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from redraft.caching import cached_once

OPTIONS: dict[str, Any] = {
    "undefined": StrictUndefined,
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
    "autoescape": False,
}
SANDBOX = ImmutableSandboxedEnvironment(**OPTIONS)


@cached_once(maxsize=256)
def _compiled(source: str) -> Template:
    return SANDBOX.from_string(source)


def render_template(source: str, **values: Any) -> str:
    """Render a template. Raises UndefinedError for unknown names and attributes."""
    return _compiled(source).render(**values).strip("\n")


def unknown_names(source: str, known: AbstractSet[str]) -> list[str]:
    """Return the variables of a template without a value. Raises TemplateError if it cannot be parsed."""
    return sorted(meta.find_undeclared_variables(SANDBOX.parse(source)) - known - SANDBOX.globals.keys())


def describe_template_error(error: Exception) -> str:
    """Describe a template error, with its line if it is known."""
    line = getattr(error, "lineno", None)
    words = error.message if isinstance(error, TemplateError) and error.message else str(error)
    return f"{words} (line {line})" if line else words
