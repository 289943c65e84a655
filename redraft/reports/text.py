"""Renders reports with rich for a terminal, and as plain lines for files and pipes."""

from collections.abc import Iterator
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from redraft.domain.bulk.phrases import count
from redraft.domain.text.control_characters import one_line
from redraft.reports.comparison_report import report_of
from redraft.reports.model import GATE_NAMES, Passage, Report, Section, ShownExample, Table
from redraft.reports.tables import AnyTables

# Rich wraps the cells of a table that is wider than this. No table of a report is that wide
_PLAIN_WIDTH = 10_000
# The terminal shows only a few examples and the beginnings of their texts. The other formats show more
_PASSAGE_CHARS = 200
_EXAMPLES = 3


def print_report(console: Console, tables: AnyTables) -> None:
    """Print a report with rich on a terminal. Elsewhere, print the lines of `render_text`, which are not wrapped."""
    if not console.is_terminal:
        console.print(Text(render_text(tables)), soft_wrap=True, end="")
        return
    for part in _parts(report_of(tables), is_plain=False):
        console.print(part)


def render_text(tables: AnyTables) -> str:
    """Render a report as plain lines, aligned by spaces."""
    stream = StringIO()
    console = Console(file=stream, width=_PLAIN_WIDTH, color_system=None, force_terminal=False)
    for part in _parts(report_of(tables), is_plain=True):
        console.print(part, soft_wrap=isinstance(part, Text))
    # Rich fills the last column with blanks
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def _parts(report: Report, *, is_plain: bool) -> Iterator[Text | RichTable]:
    yield _styled(report.title, "bold")
    yield Text("  ".join(f"{name}: {one_line(value)}" for name, value in report.facts), style="dim")
    yield Text("")
    figures = tuple((each.name, each.value, each.detail) for each in report.figures)
    yield _draw(Table("", ("", "", ""), figures, numeric=False), is_plain=is_plain)
    for gate in report.gates:
        yield _styled(f"Gate {GATE_NAMES[gate.gate].lower()}: {gate.words}", "green" if gate.passed else "bold red")
    for note in report.notes:
        yield _styled(f"Note: {note}", "yellow")
    for section in report.sections:
        yield from _section(section, is_plain=is_plain)


def _section(section: Section, *, is_plain: bool) -> Iterator[Text | RichTable]:
    yield Text("")
    yield _styled(section.title, "bold")
    for sentence in section.sentences:
        yield _styled(sentence)
    for example in section.examples[:_EXAMPLES]:
        yield Text("")
        yield from _example(example)
    if (left_out := len(section.examples) - _EXAMPLES) > 0:
        yield Text("")
        yield _styled(f"{count(left_out, 'more example')} in the report as a file, with `--report report.html`.")
    for at, table in enumerate(section.tables):
        if at or section.sentences or section.examples:
            yield Text("")
        yield _draw(table, is_plain=is_plain)


def _example(example: ShownExample) -> Iterator[Text]:
    yield _styled(example.name, "bold")
    yield _passage(example.question)
    for attempt in example.attempts:
        yield _styled(attempt.title)
        yield _passage(attempt.answer)
        if attempt.reasoning:
            yield _passage(attempt.reasoning)
        for gap in attempt.gaps:
            yield Text(f"  Gap: {one_line(gap, _PASSAGE_CHARS)}")
    if example.detail:
        yield _styled(example.detail)


def _passage(passage: Passage) -> Text:
    return Text(f"  {passage.name}: {one_line(passage.text, _PASSAGE_CHARS)}")


def _draw(table: Table, *, is_plain: bool) -> RichTable:
    drawn = RichTable(
        box=None if is_plain else box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_header=any(table.headers)
    )
    for at, header in enumerate(table.headers):
        # By default, rich cuts long words, such as ids, with an ellipsis
        drawn.add_column(_styled(header), justify="right" if table.numeric and at else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(_styled(cell) for cell in row))
    return drawn


def _styled(text: str, style: str = "") -> Text:
    return Text(one_line(text), style=style)
