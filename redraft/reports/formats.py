"""The formats by name: what a file of each is called, how it is served, and who writes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from redraft.reports.figures import render_comparison_json, render_json
from redraft.reports.html import render_comparison_html, render_html
from redraft.reports.junit import render_junit
from redraft.reports.markdown import render_comparison_markdown, render_markdown
from redraft.reports.tables import ComparisonTables, RunTables
from redraft.reports.text import render_comparison_text, render_text

Tables = TypeVar("Tables")


@dataclass(frozen=True, slots=True)
class Format(Generic[Tables]):
    """One format of a report: `render` returns the whole file."""

    media_type: str
    suffix: str
    render: Callable[[Tables], str]


_TEXT = ("text/plain; charset=utf-8", ".txt")
_HTML = ("text/html; charset=utf-8", ".html")
_MARKDOWN = ("text/markdown; charset=utf-8", ".md")
_JSON = ("application/json", ".json")

FORMATS: Mapping[str, Format[RunTables]] = {
    "text": Format(*_TEXT, render_text),
    "html": Format(*_HTML, render_html),
    "markdown": Format(*_MARKDOWN, render_markdown),
    "json": Format(*_JSON, render_json),
    "junit": Format("application/xml", ".xml", render_junit),
}

COMPARISON_FORMATS: Mapping[str, Format[ComparisonTables]] = {
    "text": Format(*_TEXT, render_comparison_text),
    "html": Format(*_HTML, render_comparison_html),
    "markdown": Format(*_MARKDOWN, render_comparison_markdown),
    "json": Format(*_JSON, render_comparison_json),
}
