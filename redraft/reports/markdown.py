"""Renders reports as GitHub Markdown for pull requests. Less important sections are folded.

Names and error texts are escaped, so that they cannot become markup, mentions, references or links.
"""

import re
from collections.abc import Iterator

from redraft.domain.text.control_characters import one_line
from redraft.reports.comparison_report import report_of
from redraft.reports.model import GATE_NAMES, Passage, Report, Section, ShownExample
from redraft.reports.tables import AnyTables

_FOLDED = frozenset({"items", "lowest", "helped", "hurt", "scores", "times", "people", "rows", "left_out", "sides"})
_MARKUP = re.compile(r"[\\`*_\[\]|~$]")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# GitHub and GitLab turn these characters into mentions, references and links even if they are escaped. An HTML comment
# after each match prevents this
_LINKING = re.compile(r"(@|#|\bgh-|\bwww(?=\.)|:(?=//))", re.IGNORECASE)


def render_markdown(tables: AnyTables) -> str:
    # GitHub reads Markdown within HTML, such as `<details>`, only after a blank line
    return "\n\n".join(_blocks(report_of(tables))) + "\n"


def escape(text: str) -> str:
    """Escape a text, so that Markdown shows it unchanged on one line, even in a table."""
    escaped = _MARKUP.sub(r"\\\g<0>", one_line(text)).translate(_ENTITIES)
    return _LINKING.sub(r"\1<!-- -->", escaped)


def _blocks(report: Report) -> Iterator[str]:
    yield f"## {escape(report.title)}"
    figures = [(f"**{each.name}**", escape(each.value), escape(each.detail)) for each in report.figures]
    yield _table(("", "", ""), figures, 0)
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
    for example in section.examples:
        yield from _example(example)
    for table in section.tables:
        headers, *rows = [tuple(map(escape, row)) for row in (table.headers, *table.rows)]
        yield _table(headers, rows, len(headers) - 1 if table.numeric else 0)


def _example(example: ShownExample) -> Iterator[str]:
    """Write an example as a table, because text in a cell cannot become a heading, a list or a block of code."""
    yield f"#### {escape(example.name)}"
    yield _passage(example.question)
    if example.detail:
        yield escape(example.detail)
    rows = [tuple(_passage(each.answer) for each in example.attempts)]
    rows.append(tuple(_passage(each.reasoning) if each.reasoning else "" for each in example.attempts))
    rows.append(tuple("<br>".join(f"✗ {escape(gap)}" for gap in each.gaps) for each in example.attempts))
    yield _table(tuple(escape(each.title) for each in example.attempts), [row for row in rows if any(row)], 0)


def _passage(passage: Passage) -> str:
    lines = "<br>".join(escape(line) for line in passage.text.strip().splitlines())
    note = f" *({escape(passage.note)})*" if passage.note else ""
    return f"**{passage.name}:** {lines}{note}"


def _table(headers: tuple[str, ...], rows: list[tuple[str, ...]], figures: int) -> str:
    """Write a table whose last `figures` columns are aligned to the right."""
    rule = ["---"] * (len(headers) - figures) + ["---:"] * figures
    return "\n".join("| " + " | ".join(row) + " |" for row in (headers, tuple(rule), *rows))
