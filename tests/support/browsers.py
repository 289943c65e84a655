"""The browser in which pages are looked at: a Chromium that this machine has."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from api.pages.parts.rendering import NOTICES
from tests.support.waiting import wait_until

# The shell is the same browser without windows: a page takes a third of the time.
_PROGRAMS = ("chromium-headless-shell", "chrome-headless-shell", "chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--no-sandbox", "--in-process-gpu", "--disable-gpu", "--disable-background-networking", "--disable-sync"),
    "--no-first-run",
)


def chromium() -> str | None:
    """The program; None: there is none."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


@contextmanager
def browser_of(program: str, *flags: str) -> Iterator[Browser]:
    """A browser of that program, until the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*_FLAGS, *flags])
        yield browser
        browser.close()


def expect_copied(page: Page, text: str) -> None:
    """The clipboard comes to hold that text; the page must be allowed to read it."""
    wait_until(lambda: page.evaluate("navigator.clipboard.readText()") == text, what=f"the copy of {text[:40]!r}")


def expect_text(page: Page, text: str, *, times: int = 1) -> None:
    """Wait until the page shows that text at least so many times."""
    whole = re.compile(".*".join([re.escape(text)] * times), re.DOTALL)
    expect(page.locator("main")).to_contain_text(whole, use_inner_text=True)


def width_of(page: Page) -> int:
    """How wide a page is that may just have been asked for, in pixels."""
    page.wait_for_load_state()
    return page.evaluate("document.documentElement.scrollWidth")


def expect_notice(page: Page, name: str) -> None:
    """Wait for the page after a form: it says what became of the form, and its address does not any more."""
    expect(page.get_by_role("status").filter(has_text=NOTICES[name])).to_be_visible()
    expect(page).not_to_have_url(re.compile("notice="))
    page.wait_for_load_state()
