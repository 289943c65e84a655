"""Templates in the texts of a dataset and of a run's defaults: names of `vars` in double braces.

A text that somebody sent is rendered here, so the language is small: values, their parts, a few filters and `if`.
Nothing in it loops, calls or multiplies, and what it writes is bounded: no row can keep a worker busy.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, cast

from jinja2 import Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes

from redraft.domain.fields import MAX_TEXT
from redraft.errors import Flaw
from redraft.prompts.templates import SANDBOX, told

RENDERED = frozenset({"instruct", "resp_format", "eval_crit", "system_instructions", "reference", "rubric"})
"""The fields whose texts may be templates. Sources, conversations and answers are what others wrote: never."""

FILTERS = frozenset(
    {"capitalize", "default", "first", "int", "float", "join", "last", "length", "lower", "round", "title", "tojson"}
    | {"trim", "upper"}
)
_MARKS = ("{{", "{%", "{#")
_NODES = (
    *(nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.Filter),
    *(nodes.If, nodes.CondExpr, nodes.Test, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
)
_ARGUMENT_MAX = 100
_NAMES_SHOWN = 20


class TemplateFault(Exception):  # noqa: N818 - a row's flaw, not an error of the program
    """A text that cannot be rendered; the message says why, and `code` for programs."""

    def __init__(self, words: str, code: str) -> None:
        super().__init__(words)
        self.code = code


def has_marks(value: Any) -> bool:
    """Whether a text, or one within, looks like a template."""
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    return any(has_marks(each) for each in _parts(value))


def render_field(name: str, value: Any, variables: Mapping[str, Any], flaws: list[Flaw]) -> Any:
    """A field with all its texts rendered; what cannot be is added to the flaws, once."""
    try:
        return _render_within(value, variables)
    except TemplateFault as fault:
        flaws.append(Flaw(f"/{name}", f"{name}: {fault}.", fault.code))
        return value


def render(source: str, variables: Mapping[str, Any]) -> str:
    """A text with the values of its variables, `{{ name }}` or `{{ vars.name }}`.

    Raises:
        TemplateFault: it is no template of this language (`invalid_template`), names a variable that is not there
            (`undefined_variable`), or becomes too long (`string_too_long`).
    """
    if not has_marks(source):
        return source
    if len(source) > MAX_TEXT:
        raise TemplateFault(f"has more than {MAX_TEXT:,} characters", "string_too_long")
    try:
        return _bounded(_compiled(source), {**variables, "vars": variables})
    except UndefinedError as error:
        raise TemplateFault(_undefined(error, variables), "undefined_variable") from None
    except TemplateError as error:
        raise TemplateFault(f"is no template: {told(error)}", "invalid_template") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise TemplateFault("a filter or a comparison does not fit its value", "invalid_template") from None


def _render_within(value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return render(value, variables)
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _render_within(each, variables) for name, each in named.items()}
    if isinstance(value, list):
        return [_render_within(each, variables) for each in cast("list[Any]", value)]
    return value


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


@lru_cache(maxsize=256)
def _compiled(source: str) -> Template:
    """Looked at before it is compiled, as the compiler computes what is constant."""
    _check(SANDBOX.parse(source))
    return SANDBOX.from_string(source)


def _check(tree: nodes.Template) -> None:
    for node in tree.find_all(nodes.Node):
        line = node.lineno
        if not isinstance(node, _NODES):
            raise TemplateSyntaxError(f"{type(node).__name__.lower()} is not possible here", line)
        if isinstance(node, nodes.Filter):
            _check_filter(node)


def _check_filter(node: nodes.Filter) -> None:
    if node.name not in FILTERS:
        raise TemplateSyntaxError(
            f"there is no filter {node.name!r}; there are {', '.join(sorted(FILTERS))}", node.lineno
        )
    if node.dyn_args is not None or node.dyn_kwargs is not None or not all(map(_is_short, node.args)):
        raise TemplateSyntaxError(f"{node.name} takes short constants only", node.lineno)


def _is_short(argument: nodes.Expr) -> bool:
    """A number may stand for so many blanks or digits."""
    value = argument.value if isinstance(argument, nodes.Const) else None
    if isinstance(value, str):
        return len(value) <= _ARGUMENT_MAX
    return isinstance(value, int | float) and abs(value) <= _ARGUMENT_MAX


def _bounded(template: Template, variables: Mapping[str, Any]) -> str:
    pieces: list[str] = []
    length = 0
    for piece in template.generate(variables):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_TEXT:
            raise TemplateFault(f"becomes longer than {MAX_TEXT:,} characters", "string_too_long")
    return "".join(pieces)


def _undefined(error: UndefinedError, variables: Mapping[str, Any]) -> str:
    words = (error.message or "a variable is not there").rstrip(".")
    names = sorted(variables)
    missing = words.split("'")[1] if words.startswith("'") else ""
    near = get_close_matches(missing, names, 1)
    guess = f" (did you mean {near[0]}?)" if near else ""
    given = ", ".join(names[:_NAMES_SHOWN]) or "none"
    return f"{words}{guess}; the row's vars are: {given}"
