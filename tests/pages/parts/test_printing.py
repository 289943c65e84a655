"""Pages on paper: whole, without controls, within the width of the paper, and readable in black and white."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Page, expect

from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from tests.model_server import ModelServer, Reply
from tests.operations.bulk.test_runs import rows, start, work_off
from tests.operations.driving import Driver
from tests.operations.rubrics import criterion, found
from tests.pages.conftest import Visitor
from tests.pages.printed_pages import text_of_pdf
from tests.support.browsers import width_of

Visit = Callable[..., Visitor]
A4 = {"width": 718, "height": 1000}
_BRIGHTNESS = """
(selectors) => selectors.map((selector) => {
  const fill = getComputedStyle(document.querySelector(selector)).fill;
  const [red, green, blue] = fill.match(/[\\d.]+/g).map(Number);
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
})
"""


@pytest.fixture
def mixed(services: Services, model_server: ModelServer) -> tuple[Run, Run]:
    """Two runs over the same rows; one item is accepted, one not, one fails, and one is invalid."""
    model_server.script(generate=["one", "two long " * 30], evaluate=[0.4, 0.9], case="r0")
    model_server.script(generate=["no", "never"], evaluate=[0.4, 0.1], case="r1")
    model_server.script(generate=[Reply(status=400)], case="r2")
    driver, data = Driver(services), rows(3, iter_max=2) + b"nonsense\n"
    first, second = (work_off(driver, start(driver, data, name=name)) for name in ("base", "new"))
    return first, second


def printed(visit: Visit, path: str) -> str:
    """The text on paper. Without scripts, the style sheet alone opens what is closed."""
    page = visit(java_script_enabled=False, viewport=A4, color_scheme="dark").go(path)
    return text_of_pdf(page.pdf(format="A4"))


def on_paper(visitor: Visitor, path: str) -> Page:
    page = visitor.go(path)
    page.emulate_media(media="print")
    expect(page.locator(":is(button, .button, input, select, textarea, nav):visible")).to_have_count(0)
    assert width_of(page) <= A4["width"], path
    # Dark colours would be printed on white paper
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 33, 40)"
    return page


def test_a_job_prints_whole(visit: Visit, model_server: ModelServer, stored: Callable[..., str]):
    answers = ["**Alpha** one.", "Beta two.", "Gamma three.\n\n```\ncode\n```"]
    model_server.script(generate=answers, evaluate=[found(scatters=False), found(scatters=True), found(scatters=False)])
    more = [criterion("scatters"), criterion("short", kind="check", check={"kind": "max_words", "value": 1})]
    job_id = stored(rubric=more, eval_crit=None, score_threshold=0.9, stop={"plateau_patience": 0})
    text = printed(visit, f"/jobs/{job_id}/iterations")
    # Also what is in closed details: the oldest iteration, and the feedback
    for words in (
        "Alphaone.",
        "Betatwo.",
        "Gammathree.",
        "GAP-scatters",
        "feedbackthatthegeneratorgot",
        "Whattochange",
    ):
        assert words in text, words
    for words in ("Compare", "Ratethisverdict", "Cloneandedit", "Copy", "**Alpha**", "Alsodraw"):
        assert words not in text, words
    text = printed(visit, f"/jobs/{job_id}")
    assert "Betatwo." in text
    assert "Continuethisjob" not in text
    visitor = visit(viewport=A4, color_scheme="dark")
    for path in ("", "/iterations", "/request", "/calls"):
        page = on_paper(visitor, f"/jobs/{job_id}{path}")
    # The bars of the trace have lines, because paper may have no colours
    expect(page.locator("rect.hatch").first).to_be_visible()
    page.emulate_media(media="screen")
    expect(page.locator("rect.hatch").first).to_be_hidden()


def test_a_report_prints_whole(visit: Visit, mixed: tuple[Run, Run]):
    path = f"/runs/{mixed[0].id}"
    text = printed(visit, path)
    for words in ("Diditeratinghelp?", "Settingsofthisrun", '"eval_crit"', "provider_bad_request", "1notaccepted"):
        assert words in text, words
    for words in ("Runagain", "JUnit", "Delete"):
        assert words not in text, words
    page = on_paper(visit(viewport=A4, color_scheme="dark"), path)
    bar = page.evaluate(_BRIGHTNESS, [f".bar .{kind}" for kind in ("accepted", "missed", "failed", "invalid")])
    assert all(abs(one - other) > 0.25 for one, other in pairwise(bar)), bar
    helped, unchanged = page.evaluate(_BRIGHTNESS, [".report .helped", ".report .unchanged"])
    assert unchanged - helped > 0.25


def test_a_comparison_prints_whole(visit: Visit, mixed: tuple[Run, Run]):
    path = f"/runs/compare?baseline={mixed[0].id}&run={mixed[1].id}"
    text = printed(visit, path)
    for words in ("toofewtotell", "Passrate", "r0", "r1", "Thestatisticsinwords", "Byscore:0wins", "Threshold"):
        assert words in text, words
    assert "Swap" not in text
    on_paper(visit(viewport=A4, color_scheme="dark"), path)


def test_details_open_for_print_in_browsers_that_do_not_know_the_rule(visitor: Visitor, mixed: tuple[Run, Run]):
    page = visitor.go(f"/runs/{mixed[0].id}")
    settings = page.locator("details.card").last
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(settings).to_have_attribute("open", "")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    expect(settings).not_to_have_attribute("open", "")
