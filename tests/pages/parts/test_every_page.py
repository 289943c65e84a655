"""Each page in each state: axe finds nothing in both themes and both sizes, and the layout suits a phone.

One browser, one server and one visit per page, because each of them takes longer than the checks.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.pages.accessibility import Axe
from tests.pages.page_states import SETTINGS, States, add_states
from tests.support.api_server import ApiServer
from tests.support.receiver import Answer, Receiver
from tests.support.showcase import Showcase, showcase
from tests.support.waiting import patient

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}
_LAYOUT = Path(__file__).with_name("layout.js").read_text("utf-8")
_OPEN = "document.querySelectorAll('main details').forEach((each) => { each.open = true; })"
# A page that renews itself would do so while it is looked at
_NO_STREAMS = "window.EventSource = class { addEventListener() {} close() {} };"
Look = tuple[str, dict[str, int]]
Place = tuple[str, str, Callable[[Page], object] | None]


def _send_empty(page: Page) -> None:
    """Send the first form of the page as it is, past what the browser checks."""
    with page.expect_navigation():
        page.evaluate(
            "const form = document.querySelector('main form[method=post]:has(.primary)');"
            "form.removeAttribute('hx-post'); form.noValidate = true;"
            "form.requestSubmit(form.querySelector('.primary'));"
        )


def _send_wrong_key(page: Page) -> None:
    page.fill("#key", "rd_wrong")
    with page.expect_navigation():
        page.press("#key", "Enter")


def _expand(page: Page) -> None:
    page.locator("[data-expands]").first.click()
    page.locator(".expanded:not([hidden]) section").first.wait_for()


def _open_dialog(page: Page, key: str) -> None:
    page.keyboard.press(key)
    page.locator("dialog[open]").wait_for()


class Tour:
    """Goes through pages with one browser; `found` is what is wrong."""

    def __init__(self, page: Page, base_url: str, looks: list[Look]) -> None:
        self._page, self._base_url, self._axe = page, base_url, Axe()
        # The layout is for a phone, so the first look is at one
        self._looks = looks
        self._scheme, self._size = "", {}
        self.found: list[str] = []
        page.on("console", self._note_policy)

    def _note_policy(self, said: ConsoleMessage) -> None:
        """Note what the policy of the page has refused, also where it sends no event."""
        if "Content Security Policy" in said.text:
            self.found.append(f"{self._page.url}: {said.text}")

    def go(self, name: str, path: str, prepare: Callable[[Page], object] | None = None) -> None:
        page = self._page
        self._show_as(*self._looks[0])
        response = page.goto(self._base_url + path)
        assert response, path
        assert response.status < 500, path
        if prepare:
            prepare(page)
        self.found += [f"{name}, closed: {each}" for each in page.evaluate(_LAYOUT)]
        page.evaluate(_OPEN)
        self.found += [f"{name}: {each}" for each in page.evaluate(_LAYOUT)]
        for scheme, size in self._looks:
            self._show_as(scheme, size)
            if (width := page.evaluate("document.documentElement.scrollWidth")) > size["width"]:
                self.found.append(f"{name} is {width} wide at {size['width']}")
            found = self._axe.of_structure(page) + self._axe.of_colours(page)
            self.found += [f"{name} at {size['width']}, {scheme}: {each}" for each in found]

    def _show_as(self, scheme: str, size: dict[str, int]) -> None:
        if scheme != self._scheme:
            self._page.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        if size != self._size:
            self._page.set_viewport_size(size)  # pyright: ignore[reportArgumentType]
        self._scheme, self._size = scheme, size


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[Showcase, States]]:
    made: list[States] = []
    with (
        Receiver(usual=Answer(503)) as receiver,
        showcase(lambda services: made.append(add_states(services, receiver)), **SETTINGS) as shown,
    ):
        yield shown, made[0]


# Each theme and each size once; `make chaos` shows the other two pairs
@pytest.fixture(
    params=[
        [("light", PHONE), ("dark", DESK)],
        pytest.param([("dark", PHONE), ("light", DESK)], marks=pytest.mark.long),
    ],
    ids=["light-phone", "dark-phone"],
)
def looks(request: pytest.FixtureRequest) -> list[Look]:
    return request.param


@pytest.fixture
def tour(browser: Browser, looks: list[Look]) -> Iterator[Callable[..., Tour]]:
    with ExitStack() as stack:

        def start(base_url: str) -> Tour:
            context = browser.new_context()
            context.add_init_script(_NO_STREAMS)
            context.add_init_script(AXE_SCRIPT)
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(patient(10_000))
            return Tour(page, base_url, looks)

        yield start


def _job_pages(shown: Showcase, states: States) -> list[Place]:
    tabs = {
        states.failed: ("", "/iterations", "/calls"),
        states.canceled: ("", "/calls"),
        states.long: ("", "/iterations", "/calls", "/events", "/request"),
        shown.running_id: ("", "/iterations", "/calls"),
        shown.job_id: ("/iterations",),
    }
    names = {states.failed: "failed", states.canceled: "canceled", states.long: "long", shown.running_id: "running"}
    return [
        *((f"{names.get(each, 'sky')} job{tab}", f"/jobs/{each}{tab}", None) for each in tabs for tab in tabs[each]),
        ("details of an iteration", f"/jobs/{states.long}/calls?at=iteration-1", None),
        ("call", f"/jobs/{states.long}/calls/{states.call}", None),
        ("call beside the trace", f"/jobs/{states.long}/calls?at={states.call}", None),
        ("continuation with an error", f"/jobs/{states.long}", _send_empty),
        ("deletion of a job", f"/jobs/{states.failed}/delete", None),
        ("jobs", "/jobs", None),
        ("criteria of jobs", "/jobs/criteria", None),
        ("jobs, a wrong filter", "/jobs?created_after=soon", None),
        ("jobs, bulk", "/jobs/bulk?do=cancel&filters=status%3Dqueued", None),
        ("copied job", f"/new?from={states.long}", None),
        ("new job with errors", "/new", _send_empty),
        ("ratings", "/ratings", None),
        ("calibration", "/ratings/calibration", None),
        ("no such page", "/nowhere", None),
        ("the API", "/docs", None),
        ("overview", "/", None),
        ("go", "/go?q=customer", None),
        ("palette", "/", lambda page: _open_dialog(page, "Control+k")),
        ("keys of the pages", "/", lambda page: _open_dialog(page, "?")),
    ]


def _bulk_pages(shown: Showcase, states: States) -> list[Place]:
    both = f"baseline={shown.baseline_id}&run={shown.run_id}"
    return [
        ("runs", "/runs", None),
        ("schedules", "/runs/schedules", None),
        ("schedule", f"/runs/schedules/{states.schedule}", None),
        ("tunings", "/ratings/tunings", None),
        ("run", f"/runs/{shown.run_id}", None),
        ("items", f"/runs/{shown.run_id}/items", None),
        ("unfinished run", f"/runs/{states.run}", None),
        ("items of an unfinished run", f"/runs/{states.run}/items", None),
        ("comparison", f"/runs/compare?{both}", _expand),
        ("row of a comparison", f"/runs/compare/row?{both}&row=track-a-parcel", None),
        ("retry", f"/runs/{shown.run_id}/resume?retry=failed", None),
        ("deletion of a run", f"/runs/{shown.run_id}/delete", None),
        ("cancellation of a run", f"/runs/{states.run}/cancel", None),
        ("new run", "/runs/new", None),
        ("new run with errors", "/runs/new", _send_empty),
        ("datasets", "/datasets", None),
        ("dataset", f"/datasets/{shown.dataset_id}", None),
        ("new dataset", "/datasets/new", None),
        ("new dataset with errors", "/datasets/new", _send_empty),
        ("settings", "/settings", None),
        ("webhooks", "/settings/webhooks", None),
        ("profiles", "/settings/profiles", None),
        ("profile", "/settings/profiles/quality?with=criteria", None),
        ("templates", "/settings/templates", None),
        ("keys", "/settings/keys", None),
        ("keys with errors", "/settings/keys", _send_empty),
        ("configuration", "/settings/configuration", None),
    ]


def test_every_page_suits_a_phone_and_axe(filled: tuple[Showcase, States], tour: Callable[..., Tour]):
    found = tour(filled[0].api.url)
    for place in (*_job_pages(*filled), *_bulk_pages(*filled)):
        found.go(*place)
    assert found.found == [], "\n".join(found.found)


def test_an_empty_installation_and_its_sign_in_suit_a_phone_and_axe(
    tour: Callable[..., Tour], start_api: Callable[..., ApiServer], services: Any
):
    found = tour(start_api().url)
    for path in ("/", "/jobs", "/runs", "/datasets", "/ratings", "/ratings/calibration", "/settings/webhooks"):
        found.go(f"empty {path}", path)
    guarded = start_api(require_auth=True)
    found_too = tour(guarded.url)
    found_too.go("sign-in", "/sign-in?next=%2Fjobs")
    found_too.go("wrong key", "/sign-in", _send_wrong_key)
    both = found.found + found_too.found
    assert both == [], "\n".join(both)
