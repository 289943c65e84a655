"""Report files in a browser: nothing is cut, at any usual width."""

import pytest
from playwright.sync_api import Browser

from redraft.reports.html import render_html
from redraft.reports.tables import AnyTables
from tests.domain.bulk.outcomes import many
from tests.reports.sheets import comparison_tables, run_tables

_CUT = """() => [
  ...[...document.querySelectorAll(".table")].filter((table) => table.scrollWidth > table.clientWidth),
  ...[...document.querySelectorAll("svg text")].filter((text) => {
    const box = text.getBBox(), whole = text.ownerSVGElement.viewBox.baseVal;
    return box.x < 0 || box.y < 0 || box.x + box.width > whole.width || box.y + box.height > whole.height;
  }),
].map((each) => each.ariaLabel ?? each.textContent)"""
_BETTER = comparison_tables(many("a", 30, 0.5), many("a", 30, 0.9))
_WORSE = comparison_tables(many("a", 30, 0.9), many("a", 30, 0.5))


@pytest.mark.parametrize("tables", [run_tables(), _BETTER, _WORSE], ids=["run", "better", "worse"])
def test_tables_and_labels_of_pictures_are_whole(browser: Browser, tables: AnyTables):
    page = browser.new_page()
    page.set_content(render_html(tables))
    for width in (1000, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(_CUT) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()
