"""Renders templates in texts of requests, datasets and run defaults, and generator templates.

Double braces contain names of `vars`.

Users send these texts, so a text must not keep a worker busy for long. The language is small: values, their members, a
few filters and `if`, without loops, calls and multiplication. The tokens are counted before parsing, because the time
of Jinja's compiler grows faster than the text. The length of each filter's result is limited, and so is the total
length of the inputs and results of all filters of a text.
"""

import re
from collections.abc import Callable, Mapping, Sized
from contextvars import ContextVar
from difflib import get_close_matches
from functools import lru_cache, wraps
from typing import Any, cast

from jinja2 import Template, TemplateError, TemplateSyntaxError, UndefinedError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from redraft.domain.bodies.fields import MAX_TEXT
from redraft.errors import FieldError
from redraft.prompts.templates import OPTIONS, describe_template_error

# The fields whose texts may be templates. Sources, conversations and answers are untrusted, so they are not rendered
RENDERED = frozenset({"instruct", "resp_format", "eval_crit", "system_instructions", "reference", "rubric"})

FILTERS = frozenset(
    {"capitalize", "default", "first", "int", "float", "join", "last", "length", "lower", "round", "title", "tojson"}
    | {"trim", "upper"}
)
_MARKS = ("{{", "{%", "{#")
_MARK = re.compile(r"\{[{%#]")
_OPENING = {"block_begin", "variable_begin", "comment_begin", "raw_begin"}
_NODES = (
    *(nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.Filter),
    *(nodes.If, nodes.CondExpr, nodes.Test, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
)
# Maximum number of tokens in one tag, and in all tags
_TAG_TOKENS_MAX = 60
_TOKENS_MAX = 3_000
_FILTERS_MAX = 8
_DEPTH_MAX = 10
# A filter's argument can set the length of its output
_ARGUMENT_MAX = 20
_INDENT_MAX = 4
_NAMES_SHOWN = 20
# Maximum number of characters and members in the inputs and results of all filters of a text
_FILTERED_MAX = 2_000_000
_filtered: ContextVar[int] = ContextVar("filtered")


class TemplateFault(Exception):  # noqa: N818 - an error of a row, not of the program
    """Raised if a text cannot be rendered. The message continues a sentence that begins with the field's name."""

    def __init__(self, words: str, code: str) -> None:
        super().__init__(words)
        self.code = code


def _bounded_filter(apply: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(apply)  # copies the attribute by which Jinja passes the environment
    def bounded(*arguments: Any) -> Any:
        _add_filtered(arguments)
        value = apply(*arguments)
        _add_filtered((value,))
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise TemplateFault(f"a filter makes more than {MAX_TEXT:,} characters", "string_too_long")
        return value

    return bounded


def _add_filtered(values: tuple[Any, ...]) -> None:
    sized = cast("list[Sized]", [value for value in values if isinstance(value, str | list | dict)])
    total = _filtered.get(0) + sum(map(len, sized))
    _filtered.set(total)
    if total > _FILTERED_MAX:
        words = f"has filters that read and make more than {_FILTERED_MAX:,} characters in all"
        raise TemplateFault(words, "string_too_long")


class _Rows(ImmutableSandboxedEnvironment):
    """An environment in which a dot reads a member of a JSON value.

    A dot never reads a method, because a column may have the name of one, such as `items`.
    """

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)


# Jinja's optimizer takes cubic time for a long chain of operators, so it is off
_ROWS = _Rows(**OPTIONS, optimized=False)
# A template may use only the given values. By default, Jinja also offers functions such as `range`
_ROWS.globals.clear()
_ROWS.filters = {name: _bounded_filter(_ROWS.filters[name]) for name in FILTERS}


def has_placeholders(value: Any) -> bool:
    """Return whether a text in the value contains the opening braces of a template."""
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    return any(has_placeholders(each) for each in _parts(value))


def literal(text: str) -> str:
    """Return a template that becomes this text."""
    return _MARK.sub(lambda mark: f'{{{{ "{mark[0]}" }}}}', text)


def render_field(name: str, value: Any, variables: Mapping[str, Any], errors: list[FieldError]) -> Any:
    """Render all texts of a field. If a text fails, add a field error and return the value unchanged."""
    try:
        return _render_within(value, variables)
    except TemplateFault as fault:
        errors.append(FieldError(f"/{name}", f"{name}: {fault}.", fault.code))
        return value


def names_in(source: str) -> frozenset[str]:
    """Return the variables that a text names; the name `vars` if the text uses all of them as one value.

    Raises TemplateFault if the text is not a valid template (`invalid_template`).
    """
    if not has_placeholders(source):
        return frozenset()
    try:
        return _names_in(source)
    except TemplateError as error:
        raise TemplateFault(f"is no template: {describe_template_error(error)}", "invalid_template") from None


@lru_cache(maxsize=256)
def _names_in(source: str) -> frozenset[str]:
    tree = _parsed(source)
    members: set[str] = set()
    for node in list(tree.find_all((nodes.Getattr, nodes.Getitem))):
        if not (isinstance(node.node, nodes.Name) and node.node.name == "vars"):
            continue
        named = node.attr if isinstance(node, nodes.Getattr) else getattr(node.arg, "value", None)
        if isinstance(named, str):
            members.add(named)
            node.node = nodes.Name(named, "load")
    return frozenset(members | meta.find_undeclared_variables(tree))


def expressions_in(source: str) -> frozenset[str]:
    """Return the expressions that a text shows or tests. Raises TemplateFault as `names_in` does."""
    if not names_in(source):
        return frozenset()
    tree = _parsed(source)
    shown = {repr(node) for node in tree.find_all(nodes.Expr) if not isinstance(node, nodes.TemplateData)}
    return frozenset(shown | {f"if {node.test!r}" for node in tree.find_all(nodes.If)})


class _Part(str):
    """A text that remains the same object when a template shows it."""

    __slots__ = ()

    # Jinja calls `str` for each value. The same object allows `_check_shown` to recognise the part
    def __str__(self) -> str:
        return self


def render(
    source: str, variables: Mapping[str, Any], *, parts: Mapping[str, str] | None = None, most: int = MAX_TEXT
) -> str:
    """Replace the variables of a text: `{{ name }}` or `{{ vars.name }}`.

    `parts` are further values, which error messages do not list. The result shows each part that is not blank exactly
    once, and unchanged.

    Raises TemplateFault if the text is not a valid template or does not show a part (`invalid_template`), names an
    unknown variable (`undefined_variable`), or has more than `most` characters after rendering (`string_too_long`).
    """
    shown = {name: _Part(text) for name, text in (parts or {}).items()}
    if not (shown or has_placeholders(source)):
        return source
    if len(source) > MAX_TEXT:
        raise TemplateFault(f"has more than {MAX_TEXT:,} characters", "string_too_long")
    try:
        pieces = _pieces(_compiled(source), {**variables, "vars": variables, **shown}, most)
    except UndefinedError as error:
        raise TemplateFault(_undefined(error, variables), "undefined_variable") from None
    except TemplateError as error:
        raise TemplateFault(f"is no template: {describe_template_error(error)}", "invalid_template") from None
    except TemplateFault:
        raise
    except Exception:  # noqa: BLE001 - any exception of a template is a validation error of its row
        raise TemplateFault(_misfit(source, variables), "invalid_template") from None
    _check_shown(shown, pieces)
    return "".join(pieces)


def _check_shown(parts: Mapping[str, _Part], pieces: list[str]) -> None:
    for name, part in parts.items():
        if part.strip() and sum(piece is part for piece in pieces) != 1:
            raise TemplateFault(f"must show {{{{ {name} }}}} exactly once, and unchanged", "invalid_template")


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
    return _ROWS.from_string(_parsed(source))


def _parsed(source: str) -> nodes.Template:
    # The checks come before the compilation, because the compiler evaluates constant expressions
    _count(source)
    tree = _ROWS.parse(source)
    for node in tree.find_all(nodes.Node):
        line = node.lineno
        if not isinstance(node, _NODES):
            raise TemplateSyntaxError(f"{type(node).__name__.lower()} is not possible here", line)
        if isinstance(node, nodes.Name) and node.name == "self":  # An object that Jinja defines
            raise TemplateFault("'self' is undefined", "undefined_variable")
        if isinstance(node, nodes.Filter):
            _check_filter(node)
    return tree


def _count(source: str) -> None:
    """Raise TemplateSyntaxError if there are too many tokens."""
    # The parser and the compiler recurse, so a long tag could overflow the stack
    total = in_tag = filters = depth = 0
    for line, kind, text in _ROWS.lex(source):
        if kind in _OPENING:
            in_tag = filters = 0
        elif kind == "name" and in_tag == 1:
            depth += (text == "if") - (text == "endif")
        if kind in {"data", "whitespace"}:
            continue
        total, in_tag, filters = total + 1, in_tag + 1, filters + (text == "|")
        for count, most, what in (
            (in_tag, _TAG_TOKENS_MAX, "words and signs in a tag"),
            (filters, _FILTERS_MAX, "filters in a tag"),
            (depth, _DEPTH_MAX, "levels of if"),
            (total, _TOKENS_MAX, "words and signs in all tags"),
        ):
            if count > most:
                raise TemplateSyntaxError(f"there are more than {most:,} {what}", line)


def _check_filter(node: nodes.Filter) -> None:
    if node.name not in FILTERS:
        raise TemplateSyntaxError(
            f"there is no filter {node.name!r}; there are {', '.join(sorted(FILTERS))}", node.lineno
        )
    most = _INDENT_MAX if node.name == "tojson" else _ARGUMENT_MAX
    if node.dyn_args is not None or node.dyn_kwargs is not None or not all(_is_short(each, most) for each in node.args):
        raise TemplateSyntaxError(f"{node.name} takes short constants only", node.lineno)


def _is_short(argument: nodes.Expr, most: int) -> bool:
    """Return whether an argument is a short constant.

    Numbers have a limit as well, because a number can set the number of blanks in the output.
    """
    value = argument.value if isinstance(argument, nodes.Const) else None
    if isinstance(value, str):
        return len(value) <= most
    return isinstance(value, int | float) and abs(value) <= most


def _pieces(template: Template, variables: Mapping[str, Any], most: int) -> list[str]:
    pieces: list[str] = []
    length = 0
    _filtered.set(0)
    for piece in template.generate(variables):
        pieces.append(piece)
        length += len(piece)
        if length > most:
            raise TemplateFault(f"becomes longer than {most:,} characters", "string_too_long")
    return pieces


def _misfit(source: str, variables: Mapping[str, Any]) -> str:
    uses = _parsed(source).find_all((nodes.Filter, nodes.Compare))
    names = {each.name for use in uses for each in use.find_all(nodes.Name)} & variables.keys()
    # The usual cause is a text in place of a number, because the values of --var are texts
    shown = [f"{name} (a text)" if isinstance(variables[name], str) else name for name in sorted(names)[:_NAMES_SHOWN]]
    return "a filter or a comparison does not fit its value" + (f"; it uses: {', '.join(shown)}" if shown else "")


def _undefined(error: UndefinedError, variables: Mapping[str, Any]) -> str:
    words = (error.message or "a variable is not there").rstrip(".")
    names = sorted(variables)
    missing = words.split("'")[1] if words.startswith("'") else ""
    near = get_close_matches(missing, names, 1)
    guess = f" (did you mean {near[0]}?)" if near else ""
    given = ", ".join(names[:_NAMES_SHOWN]) or "none"
    return f"{words}{guess}; the vars are: {given}"
