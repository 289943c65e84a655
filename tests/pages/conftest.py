"""The pages on the real app: in a real Chromium where scripts, layout or the policy matter, else over HTTP.

What a browser must never see is looked for after every test in one.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from redraft.operations.services import Services
from tests.api.conftest import _no_failures_before, _plain_logs, api, start_api, submit_job  # noqa: F401 - fixtures
from tests.pages.accessibility import Axe
from tests.support.api_server import ApiServer
from tests.support.browsers import browser_of, chromium
from tests.support.html_pages import Reader
from tests.support.waiting import patient

# Where this is set, a machine without Chromium fails instead of leaving the browser's tests out.
NEEDED = "TESTS_NEED_CHROMIUM"
expect.set_options(timeout=patient(5_000))
_WATCH = """
document.addEventListener("securitypolicyviolation", (event) => reportViolation(
  `${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest, make_database_url: Callable[[str], str]) -> str:
    """What pages show does not depend on the database; `pytest.mark.parametrize` asks for the other."""
    return make_database_url(request.param)


@pytest.fixture(scope="session")
def chromium_of_all() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """One browser per test process, and the event loop that playwright keeps for it; no loop counts as running."""
    program = chromium()
    if program is None:
        if os.environ.get(NEEDED):
            pytest.fail("Chromium is not found")
        pytest.skip("Chromium is not found: install it to test the pages in a browser")
    with browser_of(program) as started:
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield started, loop
        asyncio._set_running_loop(loop)


@pytest.fixture
def browser(chromium_of_all: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """Its loop counts as running during the test only: others run loops of their own in this thread."""
    started, loop = chromium_of_all
    asyncio._set_running_loop(loop)
    yield started
    asyncio._set_running_loop(None)


class Visitor:
    """A person with a browser: `page` after `go`; every page must keep the rules when the test ends."""

    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self.base_url = base_url
        self.context = context
        self.requests: list[str] = []
        self.errors: list[str] = []
        context.expose_function("reportViolation", self._record)
        context.add_init_script(_WATCH)
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        self.page = context.new_page()

    def _record(self, violation: str) -> None:
        self.errors.append(violation)

    def go(self, path: str) -> Page:
        response = self.page.goto(self.base_url + path)
        assert response
        self.status = response.status
        return self.page

    def check_rules(self) -> None:
        """No script failed, nothing was asked of others, the policy was never violated."""
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith((self.base_url, "data:", "about:"))] == []

    def check_accessible(self) -> None:
        """axe finds nothing in either theme. `test_every_page` looks at all pages that an address leads to."""
        axe = Axe()
        assert axe.of_structure(self.page) == []
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            assert axe.of_colours(self.page) == [], scheme


@pytest.fixture
def visit(browser: Browser, api: ApiServer) -> Iterator[Callable[..., Visitor]]:  # noqa: F811
    """Open a browser of its own for a person; keywords are playwright's (`java_script_enabled`, `viewport`, …)."""
    visitors: list[Visitor] = []

    def open_for(*, base_url: str = api.url, **options: Any) -> Visitor:
        visitors.append(Visitor(browser.new_context(**options), base_url))
        visitors[-1].page.set_default_timeout(patient(10_000))
        return visitors[-1]

    yield open_for
    for visitor in visitors:
        visitor.context.close()
    for visitor in visitors:
        visitor.check_rules()


@pytest.fixture
def visitor(visit: Callable[..., Visitor]) -> Visitor:
    return visit()


@pytest.fixture
def reader(api: ApiServer) -> Reader:  # noqa: F811
    """A person whose browser runs no scripts."""
    return Reader.of(api)


@pytest.fixture
def stored(services: Services, submit_job: Callable[..., str]) -> Callable[..., str]:  # noqa: F811
    """A job that was done to its end, against the scripted model server; returns its id."""
    from tests.support.shells import drain

    def do(**fields: Any) -> str:
        job_id = submit_job(**fields)
        drain(services)
        return job_id

    return do
