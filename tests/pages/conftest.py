"""The pages in a real Chromium, on the real app; what a browser must never see is looked for after every test."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import DEFAULT_OPTIONS, Axe
from playwright.sync_api import Browser, BrowserContext, Page

from redraft.operations.services import Services
from tests.api.conftest import _no_failures_before, _plain_logs, api, start_api, submit_job  # noqa: F401 - fixtures
from tests.support.api_server import ApiServer
from tests.support.browsers import browser_of, chromium
from tests.support.waiting import patient

# Where this is set, a machine without Chromium fails instead of leaving the browser's tests out.
NEEDED = "TESTS_NEED_CHROMIUM"
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(
  `${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
_SERIOUS = {"serious", "critical"}


@pytest.fixture(params=["sqlite"])
def database_url(request: pytest.FixtureRequest, make_database_url: Callable[[str], str]) -> str:
    """What pages show does not depend on the database; `pytest.mark.parametrize` asks for the other."""
    return make_database_url(request.param)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser per module: its event loop must be gone when other tests run in this process."""
    program = chromium()
    if program is None:
        if os.environ.get(NEEDED):
            pytest.fail("Chromium is not found")
        pytest.skip("Chromium is not found: install it to test the pages in a browser")
    with browser_of(program) as started:
        yield started


class Visitor:
    """A person with a browser: `page` after `go`; every page must keep the rules when the test ends."""

    def __init__(self, context: BrowserContext, base_url: str) -> None:
        self.base_url = base_url
        self.context = context
        self.requests: list[str] = []
        self.errors: list[str] = []
        context.add_init_script(_WATCH)
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        self.page = context.new_page()

    def go(self, path: str) -> Page:
        response = self.page.goto(self.base_url + path)
        assert response
        self.status = response.status
        return self.page

    def check_rules(self) -> None:
        """No script failed, nothing was asked of others, the policy was never violated."""
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith((self.base_url, "data:", "about:"))] == []
        for page in self.context.pages:
            assert page.evaluate("window.violations || []") == []

    def check_accessible(self) -> None:
        """No finding of axe that is serious or critical, in both themes, which differ in their colours."""
        colours = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}
        for scheme, options in (("light", DEFAULT_OPTIONS), ("dark", colours)):
            self.page.emulate_media(color_scheme=scheme)
            found = Axe().run(self.page, options=options).response["violations"]
            told = [
                (each["id"], [node["target"] for node in each["nodes"]]) for each in found if each["impact"] in _SERIOUS
            ]
            assert told == [], scheme


@pytest.fixture
def visit(browser: Browser, api: ApiServer) -> Iterator[Callable[..., Visitor]]:  # noqa: F811
    """Open a browser of its own for a person; keywords are playwright's (`java_script_enabled`, `viewport`, …)."""
    visitors: list[Visitor] = []

    def open_for(*, base_url: str = api.url, **options: Any) -> Visitor:
        visitors.append(Visitor(browser.new_context(**options), base_url))
        visitors[-1].page.set_default_timeout(patient(10_000))
        return visitors[-1]

    yield open_for
    try:
        for visitor in visitors:
            visitor.check_rules()
    finally:
        for visitor in visitors:
            visitor.context.close()


@pytest.fixture
def visitor(visit: Callable[..., Visitor]) -> Visitor:
    return visit()


@pytest.fixture
def stored(services: Services, submit_job: Callable[..., str]) -> Callable[..., str]:  # noqa: F811
    """A job that was done to its end, against the scripted model server; returns its id."""
    from tests.support.shells import drain

    def do(**fields: Any) -> str:
        job_id = submit_job(**fields)
        drain(services)
        return job_id

    return do
