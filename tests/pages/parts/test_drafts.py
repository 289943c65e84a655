"""What people type in a form stays in their browser: over a reload, a dead server, and a session that has ended."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from redraft.operations.admin import keys
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from redraft.storage.engine.admin_tables import sign_ins
from tests.operations.bulk.test_runs import dataset, rows
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer

WORDS = "Words that took long to find"
# The page of each form by name, the field that is written in, and the button that sends it
FORMS = {
    "new": ("/new", "#instruct", "#job-form button.primary"),
    "continue": ("/jobs/{job}", "#guidance", "#continue button.primary"),
    "rating": ("/jobs/{job}/iterations", "{rate} textarea", "{rate} button.primary"),
    "queue": ("/ratings", ".decision textarea", ".verdicts [data-key='1']"),
    "run": ("/runs/new", "#instruct", "main form button.primary"),
}


# The page, the script and the server treat all forms alike
@pytest.fixture(
    params=[form if form in {"new", "queue"} else pytest.param(form, marks=pytest.mark.long) for form in FORMS]
)
def form(request: pytest.FixtureRequest, services: Services, stored: Callable[..., str]) -> tuple[str, str, str]:
    job_id = stored()
    dataset(services, rows(1))
    evaluation = queries.list_iterations(services, job_id)[0].evaluation
    assert evaluation
    names = {"job": job_id, "rate": f"#{evaluation.id} .rate"}
    path, field, button = (each.format(**names) for each in FORMS[request.param])
    return path, field, button


def write(page: Page, field: str) -> None:
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
    page.locator(field).first.evaluate("it => it.form.querySelector('[value=agree][type=radio]')?.click()")
    page.locator(field).first.fill(WORDS)
    page.wait_for_function("words => Object.values(localStorage).some((each) => each.includes(words))", arg=WORDS)


def expect_back(page: Page, field: str) -> None:
    expect(page.locator(field).first).to_have_value(WORDS)
    expect(page.get_by_text("Your draft of")).to_be_visible()


def test_a_draft_survives_a_reload_a_dead_server_and_an_ended_session(
    start_api: Callable[..., ApiServer],
    services: Services,
    visit: Callable[..., Visitor],
    form: tuple[str, str, str],
):
    path, field, button = form
    visitor = visit(base_url=start_api(require_auth=True).url)
    token = keys.create_key(services, "mine")[1]
    page = visitor.go(path)
    page.on("dialog", lambda dialog: dialog.accept())
    sign_in(page, token)
    write(page, field)
    page.reload()
    expect_back(page, field)

    page.route("**/*", lambda route: route.abort() if route.request.method == "POST" else route.continue_())
    with page.expect_event("requestfailed"):
        page.locator(button).first.click()
    page.unroute("**/*")
    # Another page first: the form was not accepted, so its draft stays
    visitor.go("/settings")
    visitor.go(path)
    expect_back(page, field)

    with services.database.write() as connection:
        connection.execute(sign_ins.delete())
    page.locator(button).first.click()
    expect(page.get_by_text("What you typed there is kept in this browser.")).to_be_visible()
    sign_in(page, token)
    expect_back(page, field)
    expect(page).to_have_url(re.compile(f"{re.escape(path)}$"))


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("API key").fill(token)
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()


@pytest.mark.parametrize("form", ["new"], indirect=True)
def test_the_draft_of_a_form_that_was_sent_is_gone(visitor: Visitor, form: tuple[str, str, str]):
    path, field, button = form
    page = visitor.go(path)
    write(page, field)
    page.fill("#eval_crit", "Any.")
    page.click(button)
    page.wait_for_url("**/jobs/job_*")
    visitor.go(path)
    expect(page.locator(field)).to_have_value("")
    assert page.evaluate("Object.keys(localStorage).length") == 0


def test_the_drafts_of_runs_belong_to_their_datasets(visitor: Visitor, services: Services):
    first, second = (dataset(services, rows(number)) for number in (1, 2))
    page = visitor.go(f"/runs/new?dataset={first}")
    write(page, "#instruct")
    visitor.go(f"/runs/new?dataset={second}")
    expect(page.locator("#dataset_id")).to_have_value(second)
    expect(page.locator("#instruct")).to_have_value("")

    visitor.go(f"/runs/new?dataset={first}")
    expect_back(page, "#instruct")
    page.fill("#eval_crit", "Any.")
    page.locator("main form button.primary").first.click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url("**/runs/run_*")
    assert page.evaluate("Object.keys(localStorage).length") == 0
