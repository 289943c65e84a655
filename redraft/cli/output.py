"""Writes data to stdout, and messages to stderr.

Texts of models can contain escape sequences, markup and bidi overrides. `reveal` escapes every text for a terminal, and
rich does not interpret markup.
"""

import json
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from redraft.domain.text import control_characters
from redraft.domain.text.control_characters import reveal, reveal_in_json

is_debug: ContextVar[bool] = ContextVar("is_debug", default=False)
given_checks: ContextVar[Mapping[str, str]] = ContextVar("given_checks")
"""The values of the option --check. Each key is the JSON pointer to the criterion that the value became."""
command_options: ContextVar[Collection[str] | None] = ContextVar("command_options", default=None)
"""The options and arguments of the command; None if no command runs."""

# If stdout is not a terminal, a program reads the table, so rich must not cut its cells
_PIPED_WIDTH = 400
# The width of the separator of `box.SIMPLE_HEAD` between two columns
_PADDING = 3
# The last column has free text, which may be cut. Other columns are dropped until the last has this width
_LAST_COLUMN_WIDTH = 24
_ID_CHARS_MIN = 12

NONE = "-"
"""The text of a table cell without a value."""

SIGNS = {
    "queued": ("○", "dim"),
    "running": ("●", "cyan"),
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "canceled": ("■", "yellow"),
    "invalid": ("!", "red"),
    "accepted": ("✓", "green"),
    "not accepted": ("≈", "yellow"),
    "not evaluated": ("?", "magenta"),
}


class _Console(Console):
    """A console that raises BrokenPipeError, so that the entry point can exit with 0. Rich would exit with 1."""

    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)
        if not self.is_terminal:
            self.width = _PIPED_WIDTH

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def stdout() -> Console:
    return _Console(stderr=False)


def stderr() -> Console:
    return _Console(stderr=True)


def one_line(text: str, limit: int = 600) -> str:
    """Fold white space, cut the text with an ellipsis, and escape terminal control characters."""
    return control_characters.one_line(text, limit)


def styled(text: str, style: str = "") -> Text:
    return Text(reveal(text), style=style)


def say(text: str, style: str = "") -> None:
    """Print a message on stderr."""
    console = stderr()
    # On a pipe, rich must not wrap lines, because a program reads them
    console.print(styled(text, style), soft_wrap=not console.is_terminal)


def status(text: str) -> AbstractContextManager[object]:
    """Show a text with a spinner on a terminal. If stderr is not a terminal, print the text."""
    console = stderr()
    if console.is_interactive:
        return console.status(styled(text, "dim"))
    say(text)
    return nullcontext()


def show(text: Text | str, style: str = "") -> None:
    """Print a line of a report on stdout."""
    console = stdout()
    console.print(text if isinstance(text, Text) else styled(text, style), soft_wrap=not console.is_terminal)


def show_section(title: str, lines: Iterable[tuple[str, str]], style: str = "bold") -> None:
    """Print an empty line, a title, and lines with their styles."""
    show("")
    show(title, style)
    for text, line_style in lines:
        show(text, line_style)


def write_data(text: str) -> None:
    """Write a text as data to stdout. Control characters are escaped on a terminal only."""
    write_lines([text if text.endswith("\n") else text + "\n"])


def write_lines(lines: Iterable[str]) -> None:
    """Write lines of data to stdout one by one, then flush. Control characters are escaped on a terminal only."""
    is_terminal = sys.stdout.isatty()
    for line in lines:
        sys.stdout.write(reveal(line) if is_terminal else line)
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """Write plain values, resources and dataclasses as JSON. Terminal control characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_as_json)
    sys.stdout.write(reveal_in_json(text) + "\n")
    sys.stdout.flush()


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    # A pydantic model. The check needs no import of pydantic, which would slow down `--help`
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump else str(value)


def say_more(command: str, after: int | str, **filters: str | Sequence[str] | None) -> None:
    """Print the command for the next page, which has the same filters as this page."""
    values = {name: [value] if isinstance(value, str) else value or () for name, value in filters.items()}
    options = "".join(
        f" --{name.replace('_', '-')} {shlex.quote(str(each))}" for name, some in values.items() for each in some
    )
    say(f"There are more: {command}{options} --after {after}", "dim")


def say_deleted(deleted_id: str, *, as_json: bool) -> None:
    """Report a deletion on stderr, and with `as_json` also as JSON on stdout."""
    if as_json:
        write_json({"id": deleted_id, "deleted": True})
    say(f"Deleted {deleted_id}.")


def show_facts(facts: Iterable[tuple[str, Text | str]], width: int) -> None:
    """Print pairs of names and values, one pair per line. Pairs without a value are omitted."""
    for name, value in facts:
        if value:
            show(Text.assemble((f"{name:<{width}}", "dim"), _cell(value)))


def sign_of(status: str, words: str) -> Text:
    sign, style = SIGNS[status]
    return Text(f"{sign} {words}", style=style)


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


Item = TypeVar("Item")
Named = TypeVar("Named", bound=_Identified)
Columns = Mapping[str, Callable[[Item], Text | str]]
"""For each column title, a function that returns the cell of an item."""


def show_list(items: Sequence[Named], columns: Columns[Named], droppable: Sequence[str] = ()) -> None:
    """Print a table of items. Its first column has the shortened ids."""
    ids = short_ids(each.id for each in items)
    show_table(items, {"id": lambda each: ids[each.id], **columns}, droppable)


def _cell(value: Text | str) -> Text:
    return value if isinstance(value, Text) else styled(value)


def show_table(items: Iterable[Item], columns: Columns[Item], droppable: Sequence[str] = ()) -> None:
    """Print a table of items in the width of the terminal, or with uncut lines if stdout is not a terminal.

    A table that is too wide loses `droppable` columns, in their order, until it fits. If it is still too wide, its last
    column is cut.
    """
    console, headers = stdout(), list(columns)
    cells = [[_cell(read(each)) for read in columns.values()] for each in items]
    titles = [Text(header) for header in headers]
    widths = [max(cell.cell_len for cell in column) for column in zip(titles, *cells, strict=True)]
    widths[-1] = min(widths[-1], _LAST_COLUMN_WIDTH)
    shown = list(range(len(headers)))
    for name in droppable:
        if sum(widths[i] + _PADDING for i in shown) <= console.width:
            break
        shown.remove(headers.index(name))
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, header_style="bold")
    # Without this width, rich takes the space for a long last column from the other columns
    rest = max(1, console.width - sum(widths[i] + _PADDING for i in shown[:-1]) - _PADDING)
    for i in shown:
        least, most = (None, rest) if i == len(headers) - 1 else (widths[i], None)
        table.add_column(headers[i], no_wrap=True, overflow="ellipsis", min_width=least, max_width=most)
    for row in cells:
        table.add_row(*(row[i] for i in shown))
    console.print(table)


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Map each id to its shortest unique beginning, without a prefix such as `job_`. On a pipe, ids stay whole."""
    bare = {each: each.partition("_")[2] for each in ids}
    if not stdout().is_terminal:
        return {each: each for each in bare}
    longest = max(map(len, bare.values()), default=0)
    lengths = range(_ID_CHARS_MIN, longest + 1)
    length = next((n for n in lengths if len({each[:n] for each in bare.values()}) == len(bare)), longest)
    return {each: short[:length] for each, short in bare.items()}


def cost_text(cost_usd: str | None) -> str:
    return "unknown cost" if cost_usd is None else f"${cost_usd}"


def tokens_text(usage: Any) -> str:
    """Return the numbers of tokens in words, such as `1,200 tokens in (1,000 cached), 350 out (200 reasoning)`."""
    parts = (("cached", usage.cached_input_tokens), ("cache writes", usage.cache_write_tokens))
    inputs = ", ".join(f"{number:,} {name}" for name, number in parts if number)
    reasoning = f" ({usage.reasoning_tokens:,} reasoning)" if usage.reasoning_tokens else ""
    return f"{usage.input_tokens:,} tokens in{inputs and f' ({inputs})'}, {usage.output_tokens:,} out{reasoning}"


def usage_text(usage: Any) -> str:
    tokens = f"{usage.input_tokens + usage.output_tokens:,} tokens"
    return f"{usage.calls} {'call' if usage.calls == 1 else 'calls'} · {tokens} · {cost_text(usage.cost_usd)}"


def span(seconds: float) -> str:
    """Return a duration in words, such as `9.6 s` or `3 min 5 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def age(moment: datetime) -> str:
    """Return the time since a moment in words, in one unit, such as `5 h`."""
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    sizes = ((2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
    return next(f"{seconds // size:.0f} {unit}" for least, size, unit in sizes if seconds >= least)
