"""Renders a report as one HTML file without scripts and URLs.

The content security policy of the file allows only its own style sheet, by a hash. The Jinja environment cleans and
escapes all texts. Only the SVG pictures of this package are not escaped.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from redraft.domain.text.control_characters import one_line, reveal
from redraft.reports.comparison_report import report_of
from redraft.reports.model import GATE_NAMES
from redraft.reports.pictures import Picture, draw_costs, draw_differences, draw_pairs, draw_pass_rates, draw_scores
from redraft.reports.tables import AnyTables, RunTables

_TEMPLATES = Path(__file__).parent / "templates"

Links = Mapping[str, Callable[[str], str | None]]
"""For each section key, a function that returns the URL for a cell in the first column of the section's tables."""


def render_html(tables: AnyTables) -> str:
    return _render("report.html", tables, {}, policy=content_security_policy(), style=Markup(_style()))  # noqa: S704


def render_body(tables: AnyTables, links: Links | None = None) -> Markup:
    """Render a report without head, title and facts, for a page that already shows these."""
    return Markup(_render("body.html", tables, links or {}))  # noqa: S704 - escaped by the template


def content_security_policy() -> str:
    """Return the Content-Security-Policy of the file's meta element. The API also sends it as a header."""
    digest = b64encode(sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _pictures(tables: AnyTables) -> Mapping[str, Sequence[Picture | None]]:
    if not isinstance(tables, RunTables):
        return {"differences": [draw_differences(tables.comparison)]}
    report, threshold = tables.report, tables.facts.score_threshold
    yields = report.uplift.iterations
    return {
        "loop": [draw_pairs(tables.items, threshold)],
        "iterations": [draw_pass_rates(yields), draw_costs(yields)],
        "scores": [draw_scores(report.first_scores, report.final_scores, threshold)],
    }


def _render(template: str, tables: AnyTables, links: Links, **more: str) -> str:
    drawn = {key: [each for each in some if each] for key, some in _pictures(tables).items()}
    known: dict[str, Any] = {"report": report_of(tables), "pictures": drawn, "links": links, "gate_names": GATE_NAMES}
    return _environment().get_template(template).render(**known, **more)


@lru_cache(maxsize=1)
def _style() -> str:
    return (_TEMPLATES / "report.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Jinja calls this for each value of each template, so that no template can forget to clean a value
        finalize=_clean,
    )
    environment.filters["lines"] = _lines
    return environment


def _lines(text: str) -> Markup:
    """Escape a text that keeps its lines."""
    return escape(reveal(text))


def _clean(value: Any) -> Any:
    return value if isinstance(value, Markup) else one_line(str(value))
