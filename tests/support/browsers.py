"""The browser of the tests of pages: a Chromium that is installed on this machine."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from api.pages.parts.rendering import NOTICES
from tests.support.waiting import wait_until

# The shell is the same browser without windows, and loads a page in a third of the time.
_PROGRAMS = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--no-sandbox", "--in-process-gpu", "--disable-gpu", "--disable-background-networking", "--disable-sync"),
    "--no-first-run",
)


def chromium() -> str | None:
    """Return the path of the program, or None if it is not installed."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


@contextmanager
def browser_of(program: str, *flags: str) -> Iterator[Browser]:
    """Run a browser of that program until the block ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*_FLAGS, *flags])
        yield browser
        browser.close()


def expect_copied(page: Page, text: str) -> None:
    """Wait until the clipboard contains that text. The page must be allowed to read the clipboard."""
    wait_until(lambda: page.evaluate("navigator.clipboard.readText()") == text, what=f"the copy of {text[:40]!r}")


def expect_text(page: Page, text: str, *, times: int = 1) -> None:
    """Wait until the page shows that text at least so many times."""
    whole = re.compile(".*".join([re.escape(text)] * times), re.DOTALL)
    expect(page.locator("main")).to_contain_text(whole, use_inner_text=True)


def width_of(page: Page) -> int:
    """Wait until the page is loaded, and return its width in pixels."""
    page.wait_for_load_state()
    return page.evaluate("document.documentElement.scrollWidth")


def expect_notice(page: Page, name: str) -> None:
    """Wait until the page shows the notice after a form, and the notice is no longer in its address."""
    expect(page.get_by_role("status").filter(has_text=NOTICES[name])).to_be_visible()
    expect(page).not_to_have_url(re.compile("notice="))
    page.wait_for_load_state()
