"""Renders reports as GitHub Markdown for pull requests; secondary sections are folded.

Names and error texts are escaped: they become neither markup nor mentions, references or links of the host.
"""

import re
from collections.abc import Iterator

from redraft.domain.text.screens import one_line
from redraft.reports.comparison_report import report_of
from redraft.reports.model import GATE_NAMES, Report, Section, Table
from redraft.reports.tables import AnyTables

_FOLDED = frozenset({"items", "lowest", "scores", "times", "people", "rows", "left_out", "sides"})
_MARKUP = re.compile(r"[\\`*_\[\]|~$]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# Hosts turn these into mentions, references and links even if escaped; an HTML comment prevents it invisibly.
_LINKING = re.compile(r"(@|#|\bgh-|\bwww(?=\.)|:(?=//))", re.IGNORECASE)


def render_markdown(tables: AnyTables) -> str:
    return "\n\n".join(_blocks(report_of(tables))) + "\n"


def escape(text: str) -> str:
    """A text as one line that reads the same in Markdown, in a table too."""
    escaped = _MARKUP.sub(lambda match: "\\" + match[0], one_line(text))
    escaped = re.sub("[&<>]", lambda match: _ENTITIES[match[0]], escaped)
    return _LINKING.sub(r"\1<!-- -->", escaped)


def _blocks(report: Report) -> Iterator[str]:
    yield f"## {escape(report.title)}"
    yield _table(
        ("", "", ""), [(f"**{each.name}**", escape(each.value), escape(each.detail)) for each in report.figures], 0
    )
    if report.gates:
        yield "\n".join(
            f"- {'✅' if gate.passed else '❌'} **{GATE_NAMES[gate.gate]}**: {escape(gate.words)}"
            for gate in report.gates
        )
    for note in report.notes:
        yield f"> {escape(note)}"
    for section in report.sections:
        if section.key not in _FOLDED:
            yield from _section(section)
    yield "<details><summary>More figures</summary>"
    for section in report.sections:
        if section.key in _FOLDED:
            yield from _section(section)
    yield "</details>"
    yield "<sub>" + " · ".join(f"{name}: {escape(value)}" for name, value in report.facts) + "</sub>"


def _section(section: Section) -> Iterator[str]:
    yield f"### {escape(section.title)}"
    if section.sentences:
        yield "\n".join(f"- {escape(sentence)}" for sentence in section.sentences)
    for table in section.tables:
        yield _escaped(table)


def _escaped(table: Table) -> str:
    rows = [tuple(escape(cell) for cell in row) for row in table.rows]
    return _table(
        tuple(escape(header) for header in table.headers), rows, len(table.headers) - 1 if table.numeric else 0
    )


def _table(headers: tuple[str, ...], rows: list[tuple[str, ...]], figures: int) -> str:
    """The last `figures` columns are aligned to the right."""
    marks = ["---"] * (len(headers) - figures) + ["---:"] * figures
    return "\n".join("| " + " | ".join(row) + " |" for row in (headers, tuple(marks), *rows))
