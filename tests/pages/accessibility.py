"""What axe finds on a page as it is shown.

The contrast of colours takes axe most of its time. It is asked for once for each look: a text's colour, size, and what
lies behind it. Lists and pages repeat few looks many times.
"""

from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_COLOURS = ("color-contrast", "link-in-text-block")
_STRUCTURE: dict[str, Any] = {"rules": {each: {"enabled": False} for each in _COLOURS}, "resultTypes": ["violations"]}
_OF_LOOKS: dict[str, Any] = {"runOnly": list(_COLOURS), "resultTypes": ["violations"]}
# Of each new look, since axe cannot tell the colours of what is out of sight in a box that scrolls
_EXAMPLES = 3
_RUN = Path(__file__).with_suffix(".js").read_text("utf-8")


class Axe:
    """Looks at the pages of one test, and at each look of a text once."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of_structure(self, page: Page) -> list[str]:
        """What is wrong besides colours."""
        page.wait_for_load_state()
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE_SCRIPT)
        return page.evaluate(_RUN, [_STRUCTURE, None, 0])["found"]

    def of_colours(self, page: Page) -> list[str]:
        """What is wrong with the colours of the current theme, after `of_structure`."""
        told = page.evaluate(_RUN, [_OF_LOOKS, sorted(self._known), _EXAMPLES])
        self._known.update(told["looks"])
        return told["found"]
