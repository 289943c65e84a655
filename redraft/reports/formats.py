"""Lists the formats of reports by name, each with its media type, file suffix and render function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from redraft.reports.figures import render_json
from redraft.reports.html import render_html
from redraft.reports.junit import render_junit
from redraft.reports.markdown import render_markdown
from redraft.reports.tables import AnyTables, RunTables
from redraft.reports.text import render_text

Tables_contra = TypeVar("Tables_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Format(Generic[Tables_contra]):
    """A format of a report. `render` returns the whole file."""

    media_type: str
    suffix: str
    render: Callable[[Tables_contra], str]


COMPARISON_FORMATS: Mapping[str, Format[AnyTables]] = {
    "text": Format("text/plain; charset=utf-8", ".txt", render_text),
    "html": Format("text/html; charset=utf-8", ".html", render_html),
    "markdown": Format("text/markdown; charset=utf-8", ".md", render_markdown),
    "json": Format("application/json", ".json", render_json),
}

# JUnit is not a format of comparisons, because its test cases are the items of one run
FORMATS: Mapping[str, Format[RunTables]] = {
    **COMPARISON_FORMATS,
    "junit": Format("application/xml", ".xml", render_junit),
}
