"""Writes to the terminal: data on stdout, messages on stderr.

Model texts may hold escape sequences, markup and bidi overrides: every text for a terminal goes through
`reveal`, and none is read as rich markup.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from redraft.domain.text import screens
from redraft.domain.text.screens import reveal, reveal_in_json

is_debug: ContextVar[bool] = ContextVar("is_debug", default=False)

_PIPED_WIDTH = 400
# Padding of a table column; minimum width of the last column.
_PADDING = 3
_LAST_COLUMN_WIDTH = 24


SIGNS = {
    "queued": ("○", "dim"),
    "running": ("●", "cyan"),
    "succeeded": ("✓", "green"),
    "failed": ("✗", "red"),
    "canceled": ("■", "yellow"),
    "invalid": ("!", "red"),
    "not accepted": ("≈", "yellow"),
}


class QuietConsole(Console):
    """A console for a reader that may close the pipe: rich would exit with 1, the entry point exits quietly."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def stdout() -> Console:
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = QuietConsole(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


def one_line(text: str, limit: int = 600) -> str:
    """White space folded, cut with an ellipsis, unable to act on the terminal."""
    return screens.one_line(text, limit)


def styled(text: str, style: str = "") -> Text:
    return Text(reveal(text), style=style)


def say(text: str, style: str = "") -> None:
    """A line for the person at the terminal, on stderr."""
    console = stderr()
    console.print(styled(text, style), soft_wrap=not console.is_terminal)


def show(text: Text | str, style: str = "") -> None:
    """A line of a report, on stdout."""
    console = stdout()
    line = text if isinstance(text, Text) else styled(text, style)
    console.print(line, soft_wrap=not console.is_terminal)


def write_data(text: str) -> None:
    """A text as data: exact where a program reads it, printable where a person does."""
    shown = reveal(text) if sys.stdout.isatty() else text
    sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
    sys.stdout.flush()


def write_lines(lines: Iterable[str]) -> None:
    """Lines of data as they come, each with its end: exact where a program reads them, printable for a person."""
    is_read = sys.stdout.isatty()
    for line in lines:
        sys.stdout.write(reveal(line) if is_read else line)
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """JSON that is safe on a terminal: what could act there is escaped as JSON allows."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=_as_json)
    sys.stdout.write(reveal_in_json(text) + "\n")
    sys.stdout.flush()


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


def say_deleted(deleted_id: str, *, as_json: bool) -> None:
    """Report a deletion: as JSON on stdout if asked for, and in words on stderr."""
    if as_json:
        write_json({"id": deleted_id, "deleted": True})
    say(f"Deleted {deleted_id}.")


def show_facts(facts: Iterable[tuple[str, Text | str]], width: int) -> None:
    """Print names and values, one pair on a line."""
    for name, value in facts:
        show(Text.assemble((f"{name:<{width}}", "dim"), value if isinstance(value, Text) else styled(value)))


def sign_of(status: str, words: str) -> Text:
    """The words of a status behind the sign that stands for it."""
    sign, style = SIGNS[status]
    return Text(f"{sign} {words}", style=style)


def show_table(headers: Sequence[str], rows: Iterable[Sequence[Text | str]], droppable: Sequence[str] = ()) -> None:
    """A table as wide as the terminal; whole lines elsewhere.

    Where it does not fit, the `droppable` columns go, the first named first; then the last column is cut.
    """
    console = stdout()
    cells = [[cell if isinstance(cell, Text) else styled(cell) for cell in row] for row in rows]
    titles = [Text(header) for header in headers]
    widths = [max(cell.cell_len for cell in column) for column in zip(titles, *cells, strict=True)]
    widths[-1] = min(widths[-1], _LAST_COLUMN_WIDTH)
    shown = list(range(len(headers)))
    for name in droppable:
        if sum(widths[i] + _PADDING for i in shown) <= console.width:
            break
        shown.remove(headers.index(name))
    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else None, pad_edge=False, header_style="bold")
    for i in shown:
        is_last = i == len(headers) - 1
        table.add_column(headers[i], no_wrap=True, overflow="ellipsis", min_width=None if is_last else widths[i])
    for row in cells:
        table.add_row(*(row[i] for i in shown))
    console.print(table)


def short_ids(ids: Sequence[str], least: int = 12) -> list[str]:
    """Ids without their prefix, as short as tells them apart; whole ones where a program may read them."""
    if not stdout().is_terminal:
        return list(ids)
    bare = [each.partition("_")[2] for each in ids]
    longest = max(map(len, bare), default=0)
    lengths = range(least, longest + 1)
    length = next((n for n in lengths if len({each[:n] for each in bare}) == len(bare)), longest)
    return [each[:length] for each in bare]


def span(seconds: float) -> str:
    """A length of time in the unit that fits."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"


def age(moment: datetime) -> str:
    """How long ago, in one unit."""
    seconds = max(0.0, (datetime.now(UTC) - moment).total_seconds())
    sizes = ((2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
    return next(f"{seconds // size:.0f} {unit}" for least, size, unit in sizes if seconds >= least)
