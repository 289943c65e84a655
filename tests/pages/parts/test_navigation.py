"""Navigation: jumps to an id or a name, keys, neighbours of a row, a row's panel, and the choice of colours."""

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.storage.engine.tables import jobs
from tests.model_server import ModelServer
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import Reader, text_of


def test_an_id_its_beginning_or_a_name_leads_to_its_page(api: ApiServer, submit_job: Callable[..., str]):
    job_id = submit_job(metadata={"name": "first"})
    client = api.client(headers={"Accept": "text/html"})
    for wanted in (job_id, job_id[:-2], "first", f" {job_id} "):
        assert client.get("/go", params={"q": wanted}).headers["location"] == f"/jobs/{job_id}"
    assert client.get("/go", params={"q": "runs"}).headers["location"] == "/runs"
    missing = client.get("/go", params={"q": "run_none"})
    assert missing.status_code == 404
    assert "There is no job, run or dataset &#39;run_none&#39;." in missing.text
    assert client.get("/go").status_code == 200


def test_colours_are_chosen_without_javascript(reader: Reader):
    page = reader.go("/jobs?limit=5")
    assert "data-theme" not in page.source
    page = reader.press("Dark")
    assert page.path == "/jobs?limit=5"
    assert 'data-theme="dark"' in page.source
    assert 'data-theme="dark"' in reader.go("/runs").source
    assert "data-theme" not in reader.press("System").source


def test_keys_lead_to_pages_neighbours_and_panels(visitor: Visitor, submit_job: Callable[..., str]):
    for number in range(3):
        submit_job(instruct=f"Task {number}", metadata={"team": "docs"})
    page = visitor.go("/")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("p")
    panel = page.get_by_role("dialog", name="The selected row")
    expect(panel.get_by_role("heading", name="Task 2")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Task 1", level=1)).to_be_visible()
    beside = page.get_by_role("navigation", name="Neighbours in the list")
    expect(beside).to_contain_text("2 of 3 in the list")
    with page.expect_navigation():
        page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Task 0", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("runs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs")


@pytest.mark.parametrize(("query", "order"), [("", [3, 1, 0]), ("sort=cost", [3, 1, 0]), ("q=odd", [3, 1])])
def test_neighbours_in_a_list_need_no_javascript(
    reader: Reader, submit_job: Callable[..., str], services: Services, query: str, order: list[int]
):
    ids = [submit_job(instruct=f"{'odd' if number % 2 else 'even'} {number}") for number in range(4)]
    lifecycle.cancel(services, ids[2])
    with services.database.write() as connection:
        for cost, job_id in enumerate(ids):
            connection.execute(update(jobs).where(jobs.c.id == job_id).values(cost_nano_usd=cost))
    place = "&".join([*([query] if query else []), "status=queued"])
    reader.go(f"/jobs?{place}")
    page = reader.click(f"{'odd' if order[0] % 2 else 'even'} {order[0]}")
    for number in order[1:]:
        page = reader.click("Next")
        assert page.path.startswith(f"/jobs/{ids[number]}?list=")
    # The tabs keep the place in the list
    page = reader.click("Events")
    assert next(text_of(each) for each in page.of_class("crumbs")).startswith("Jobs / ")
    reader.click("Previous")
    assert reader.page.path.startswith(f"/jobs/{ids[order[-2]]}?list=")
    reader.click("Next")
    page = reader.click("Next")
    assert "That was the last job" in page.text
    assert page.path.startswith("/jobs?")
    assert page.texts("tbody/tr/th")


def test_a_place_in_a_list_that_makes_no_sense_is_refused(reader: Reader, submit_job: Callable[..., str]):
    job_id = submit_job()
    for place in ("nonsense=1", "after=x"):
        assert reader.go(f"/jobs/{job_id}/beside?to=next&{urlencode({'list': place})}").status == 422
    page = reader.go(f"/jobs/{job_id}?list=%22%3E%3Cscript%3Ex")
    assert "<script>x" not in page.source


def test_long_pages_have_links_to_their_sections(reader: Reader, model_server: ModelServer, stored: Callable[..., str]):
    model_server.script(evaluate=[0.2])
    job_id = stored(iter_max=1)
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/iterations", f"/jobs/{job_id}/request", "/settings"):
        page = reader.go(path)
        [jump] = page.of_class("jump")
        goals = [each.attrib["href"] for each in page.all("a", jump)]
        assert len(goals) > 2
        assert all(page.by_id(goal.removeprefix("#")) is not None for goal in goals)


def test_the_description_of_the_api_opens_at_its_links(visitor: Visitor):
    page = visitor.go("/docs#generate_answer")
    operation = page.locator("#generate_answer")
    expect(operation).to_be_visible()
    operation.get_by_role("link", name="GenerateAnswer").click()
    expect(page.locator("#schema-GenerateAnswer")).to_be_visible()


def test_search_and_the_palette_open_by_keys(visitor: Visitor, submit_job: Callable[..., str]):
    job_id = submit_job(metadata={"name": "first"})
    page = visitor.go("/jobs")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("zebra")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?q=zebra*")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    page.keyboard.type("first")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{job_id}")
    # A page without a search opens the palette
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
