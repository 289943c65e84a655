"""Navigation: jumps to an id or a name, keys, neighbours of a row, a row's panel, and the choice of colours."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import Reader


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
        submit_job(instruct=f"Task {number}")
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
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Task 1", level=1)).to_be_visible()
    beside = page.get_by_role("navigation", name="Neighbours in the list")
    expect(beside).to_contain_text("2 of 3 in the list")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Task 0", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("runs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs")
    visitor.check_accessible(in_the_dark=True)
