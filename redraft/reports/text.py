"""Reports for a terminal: tables drawn by rich where one is, plain lines elsewhere."""

from collections.abc import Iterator
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from redraft.domain.bulk.gates import GateResult
from redraft.domain.text.screens import one_line
from redraft.reports.comparison_outline import outline_comparison
from redraft.reports.outlines import GATE_NAMES, Outline, Section, Table
from redraft.reports.run_outline import outline_run
from redraft.reports.sheets import ComparisonSheet, RunSheet

_PLAIN_WIDTH = 10_000


def print_report(console: Console, sheet: RunSheet) -> None:
    """Rich on a terminal; elsewhere the same lines as `render_text`, whatever the console's width."""
    _print(console, outline_run(sheet))


def print_comparison(console: Console, sheet: ComparisonSheet) -> None:
    _print(console, outline_comparison(sheet))


def render_text(sheet: RunSheet) -> str:
    """Plain lines, aligned by spaces."""
    return _plain(outline_run(sheet))


def render_comparison_text(sheet: ComparisonSheet) -> str:
    return _plain(outline_comparison(sheet))


def _print(console: Console, outline: Outline) -> None:
    if not console.is_terminal:
        console.print(Text(_plain(outline)), soft_wrap=True, end="")
        return
    for part in _parts(outline, is_plain=False):
        console.print(part)


def _plain(outline: Outline) -> str:
    stream = StringIO()
    console = Console(file=stream, width=_PLAIN_WIDTH, color_system=None, force_terminal=False)
    for part in _parts(outline, is_plain=True):
        console.print(part, soft_wrap=isinstance(part, Text))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def _parts(outline: Outline, *, is_plain: bool) -> Iterator[Text | RichTable]:
    yield _styled(outline.title, "bold")
    yield Text("  ".join(f"{name}: {_clean(value)}" for name, value in outline.facts), style="dim")
    yield Text("")
    yield _draw(
        Table("", ("", "", ""), tuple((each.name, each.value, each.detail) for each in outline.figures), numeric=False),
        is_plain=is_plain,
    )
    for gate in outline.gates:
        yield _gate(gate)
    for note in outline.notes:
        yield _styled(f"Note: {note}", "yellow")
    for section in outline.sections:
        yield from _section(section, is_plain=is_plain)


def _gate(gate: GateResult) -> Text:
    return _styled(f"Gate {GATE_NAMES[gate.gate].lower()}: {gate.words}", "green" if gate.passed else "bold red")


def _section(section: Section, *, is_plain: bool) -> Iterator[Text | RichTable]:
    yield Text("")
    yield _styled(section.title, "bold")
    for sentence in section.sentences:
        yield _styled(sentence)
    for at, table in enumerate(section.tables):
        if at or section.sentences:
            yield Text("")
        yield _draw(table, is_plain=is_plain)


def _draw(table: Table, *, is_plain: bool) -> RichTable:
    drawn = RichTable(
        box=None if is_plain else box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="bold",
        show_header=any(table.headers),
    )
    for at, header in enumerate(table.headers):
        drawn.add_column(_styled(header), justify="right" if table.numeric and at else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(_styled(cell) for cell in row))
    return drawn


def _styled(text: str, style: str = "") -> Text:
    return Text(_clean(text), style=style)


def _clean(text: str) -> str:
    return one_line(text)
