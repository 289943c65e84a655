"""The list of jobs: what a line tells, filters in the address, many at once, new ones announced and not jumping."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import event, insert

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.jobs import job_lists, lifecycle, queries
from redraft.operations.services import Services
from redraft.storage.engine.tables import jobs as table
from redraft.storage.jobs.job_filters import JobFilter
from tests.model_server.server import ModelServer
from tests.pages.conftest import Visitor
from tests.storage.conftest import job_values
from tests.support.api_server import ApiServer
from tests.support.browsers import width_of
from tests.support.html_pages import HtmlPage, Reader, text_of, value_of
from tests.support.shells import drain
from tests.support.waiting import patient

HOSTILE = "<script>alert(1)</script><b hx-get='/x' hx-trigger='load'>\u202eoops"


def rows(page: Page) -> Any:
    return page.locator("#live tbody tr")


def expect_tasks(page: Page, *tasks: str) -> None:
    expect(page.locator("#live th.task > a")).to_have_text(tasks)


def tasks_read(page: HtmlPage) -> list[str]:
    """The same without a browser."""
    return [page.texts("a", each)[0] for each in page.all("th") if "task" in each.get("class", "").split()]


def statuses(services: Services) -> dict[str, str]:
    return {job.id: job.status for job in queries.list_jobs(services, JobFilter(limit=100))[0]}


def test_an_empty_list_teaches_and_fills_itself(visitor: Visitor, submit_job: Callable[..., str]):
    page = visitor.go("/jobs")
    expect(page.locator("main")).to_contain_text("A job generates, evaluates")
    expect(page.get_by_role("link", name="Send your first job")).to_have_attribute("href", "/new")
    submit_job(instruct="The first")
    expect(rows(page)).to_have_count(1)


def test_a_line_tells_of_a_job(visitor: Visitor, stored: Callable[..., str], model_server: ModelServer):
    model_server.script(evaluate=[0.4, 0.9])
    job_id = stored(instruct="First line.\nSecond line.", metadata={"team": "docs"})
    page = visitor.go("/jobs")
    row = rows(page).first
    for words in ("✓ accepted", "First line.", "2/3", "0.90", "threshold 0.80", "openai:writer"):
        expect(row).to_contain_text(words, use_inner_text=True)
    # Hidden where the list is wide
    expect(row).to_contain_text("openai:judge")
    expect(row).not_to_contain_text("Second")
    expect(row.get_by_role("img")).to_have_attribute("aria-label", "Scores 0.40, 0.90; threshold 0.80")
    expect(row.get_by_role("link", name="First line.")).to_have_attribute("href", f"/jobs/{job_id}?list=")
    expect(row.locator("time")).to_have_count(1)


def test_a_click_on_a_value_filters_by_it_and_filters_are_in_the_address(
    reader: Reader, stored: Callable[..., str], submit_job: Callable[..., str]
):
    stored(instruct="Done", metadata={"team": "a=b&c"})
    submit_job(instruct="Waiting", metadata={"team": "other"})
    reader.go("/jobs")
    page = reader.click("accepted")
    assert page.path == "/jobs?outcome=accepted"
    assert tasks_read(page) == ["Done"]
    assert tasks_read(reader.click("team=a=b&c")) == ["Done"]
    page = reader.click("Outcome: accepted")
    assert page.path == "/jobs?metadata.team=a%3Db%26c"
    page = reader.press("Filter", {"failed": True, "Created from (UTC)": "2026-01-01"})
    asked = dict(parse_qsl(urlsplit(page.path).query))
    assert asked == {"outcome": "failed", "created_after": "2026-01-01", "metadata.team": "a=b&c"}
    assert "No job matches these filters" in page.text
    assert tasks_read(reader.click("Clear the filters")) == ["Waiting", "Done"]


def test_a_filter_that_is_none_is_told_at_its_field_and_never_passed_over(reader: Reader, submit_job: Any):
    submit_job(instruct="Waiting")
    page = reader.go("/jobs?kind=odd&created_after=soon&metadata=team")
    assert page.status == 422
    assert tasks_read(page) == []
    links = page.texts("a", page.one("*[@role='alert']"))
    for label in ("Kind", "Created from (UTC)", "Metadata"):
        assert page.field(label).get("aria-invalid") == "true"
        assert label in links
    assert value_of(page.field("Metadata")) == "team"
    assert "key=value" in page.described(page.field("Metadata"))
    assert "Input should be" not in page.text
    for query in ("status=nonsense", "after=nowhere", "metadata.=x", "statuz=failed"):
        page = reader.go(f"/jobs?{query}")
        assert page.status == 422, query
        assert [each for each in page.all("a[@href]") if each.get("href", "").startswith("/jobs/bulk")] == []
    for filters in ("metadata%3Dteam", "statuz%3Dfailed", "%26a%3Db" * 101):
        assert reader.go(f"/jobs/bulk?do=cancel&filters={filters}").status == 422


def test_all_can_be_meant_only_where_a_filter_says_which(reader: Reader, submit_job: Any):
    submit_job(metadata={"a": "b"})
    page = reader.go("/jobs?order=asc")
    everyone = page.of_class("group", page.by_id("bulk"))[1]
    assert text_of(everyone).split() == ["All", "jobs:", "Export"]
    page = reader.go("/jobs?metadata.a=b")
    everyone = page.of_class("group", page.by_id("bulk"))[1]
    assert text_of(everyone).startswith("All matching jobs:")
    page = reader.click("Cancel …", everyone)
    assert page.button("Cancel it") is not None
    assert page.link("Keep it") is not None


@pytest.mark.parametrize("shown", ["junk", "0" * 32])
def test_a_list_of_which_nothing_is_left_shows_that_there_are_new_jobs(api: ApiServer, submit_job: Any, shown: str):
    for _ in range(51):
        submit_job()
    answer = api.client(headers={"Accept": "text/html"}).get(f"/jobs?shown={shown}")
    assert answer.status_code == 200
    assert "50 or more new jobs" in answer.text


@pytest.mark.parametrize("back", ["x" * 100_000, "a\r\nSet-Cookie: b=c", "\\evil"])
def test_where_one_goes_back_to_is_a_short_path_of_ours(api: ApiServer, submit_job: Any, back: str):
    client = api.client(headers={"Accept": "text/html"})
    answer = client.post("/jobs/bulk", data={"do": "cancel", "job": submit_job(), "back": back})
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/bulk?do=cancel&done=1&kept=0&back=")


def test_hostile_words_are_shown_as_they_are(visitor: Visitor, stored: Callable[..., str]):
    stored(instruct=HOSTILE, metadata={"<i>k": "<img src=x onerror=alert(1)>"}, model="openai:<b>m", iter_max=1)
    page = visitor.go("/jobs")
    expect_tasks(page, HOSTILE.replace("\u202e", "\\u202e"))
    for words in ("<i>k=<img src=x onerror=alert(1)>", "openai:<b>m"):
        expect(rows(page).first).to_contain_text(words, use_inner_text=True)
    page.get_by_role("link", name=re.compile("<i>k=")).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("#live img, #live script, #live b, #live i")).to_have_count(0)


def test_new_jobs_are_announced_and_others_change_in_their_place(
    visitor: Visitor, services: Services, submit_job: Callable[..., str]
):
    first, second = submit_job(instruct="First"), submit_job(instruct="Second")
    page = visitor.go("/jobs?status=queued")
    page.get_by_label("Select First").check()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(f"#{first}")).to_have_attribute("aria-selected", "true")
    with page.expect_response(lambda response: "shown=" in response.url):
        submit_job(instruct="Third")
    expect(page.get_by_role("status").filter(has_text="1 new job")).to_be_visible()
    lifecycle.cancel(services, second)
    expect(page.locator(f"#{second}")).to_contain_text("canceled")
    expect_tasks(page, "Second", "First")
    expect(page.get_by_label("Select First")).to_be_checked()
    expect(page.locator(f"#{first}")).to_have_attribute("aria-selected", "true")
    page.get_by_role("link", name="1 new job").click()
    expect(page).to_have_url(f"{visitor.base_url}/jobs?status=queued")
    expect_tasks(page, "Third", "First")


def test_a_job_is_followed_to_its_end(visitor: Visitor, services: Services, submit_job: Callable[..., str]):
    submit_job()
    page = visitor.go("/jobs")
    expect(rows(page).first).to_contain_text("queued")
    drain(services)
    expect(rows(page).first).to_contain_text("accepted")
    expect(rows(page).first.get_by_role("img")).to_be_visible()


def test_keys_move_mark_and_open(visitor: Visitor, submit_job: Callable[..., str]):
    submit_job(instruct="One")
    two = submit_job(instruct="Two")
    page = visitor.go("/jobs")
    for key in "jjk":
        page.keyboard.press(key)
    page.keyboard.press("x")
    expect(page.get_by_label("Select Two")).to_be_checked()
    expect(page.locator("#marked")).to_have_text(" (1)")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{two}?list=*")


def test_marked_and_matching_jobs_are_canceled_deleted_and_exported_without_javascript(
    reader: Reader, services: Services, submit_job: Callable[..., str]
):
    ids = [submit_job(instruct=f"Job {number}", metadata={"n": str(number % 2)}) for number in range(4)]
    reader.go("/jobs")
    assert "No job is selected" in reader.press("Cancel …").texts("*[@role='status']")[0]
    page = reader.press("Cancel …", {"Select Job 1": True, "Select Job 2": True})
    assert "Cancel 2 jobs?" in page.texts("h1")
    assert "2 jobs canceled" in reader.press("Cancel them").texts("h1")
    assert statuses(services) == {ids[0]: "queued", ids[1]: "canceled", ids[2]: "canceled", ids[3]: "queued"}
    reader.go("/jobs?metadata.n=1")
    assert "Delete 1 job?" in reader.click("Delete …").texts("h1")
    reader.press("Delete it")
    page = reader.click("Back to the jobs")
    assert page.path == "/jobs?metadata.n=1"
    assert tasks_read(page) == ["Job 3"]
    assert exported(reader.follow("Export")) == [ids[3]]
    reader.go("/jobs")
    assert exported(reader.submit("Export", {"Select Job 0": True})) == [ids[0]]


def exported(response: httpx2.Response) -> list[str]:
    assert response.headers["content-disposition"].startswith('attachment; filename="redraft-jobs.jsonl";')
    return [json.loads(line)["id"] for line in response.text.splitlines()]


def test_very_many_are_done_in_batches(visitor: Visitor, services: Services):
    now = datetime.now(UTC)
    ended = {"status": "canceled", "stop_reason": "canceled", "finished_at": now, "deadline_at": now}
    rows = [job_values(**ended, available_at=now) for _ in range(job_lists.BATCH + 2)]
    with services.database.write() as connection:
        connection.execute(insert(table), rows)
    page = visitor.go("/jobs/bulk?do=delete&filters=")
    expect(page.get_by_role("heading", name="Delete 502 jobs?")).to_be_visible()
    page.get_by_role("button", name="Delete them").click()
    expect(page.get_by_role("heading", name="502 jobs deleted")).to_be_visible(timeout=patient(30_000))
    assert statuses(services) == {}


@pytest.fixture
def counted(api: ApiServer) -> Iterator[list[str]]:
    """The statements that the server runs."""
    told: list[str] = []

    def listen(*given: Any) -> None:
        told.append(given[2])

    engine = api.app.state.context.services.database.engine
    event.listen(engine, "before_cursor_execute", listen)
    yield told
    event.remove(engine, "before_cursor_execute", listen)


def test_a_page_takes_as_many_queries_for_one_job_as_for_fifty(
    api: ApiServer, counted: list[str], submit_job: Callable[..., str]
):
    client = api.client(headers={"Accept": "text/html"})
    shown, numbers = list[int](), list[int]()
    for jobs in (1, 55):
        for _ in range(jobs):
            submit_job()
        counted.clear()
        text = client.get("/jobs").text
        numbers.append(len([each for each in counted if each.startswith("SELECT")]))
        shown.append(text.count("<tr id="))
        assert ('rel="next"' in text) is (jobs > 1)
    [after] = re.findall(r'href="([^"]*)" rel="next"', text)
    second = client.get(after).text
    assert (second.count("<tr id="), second.count('href="/jobs" rel="first"')) == (6, 1)
    assert (shown, numbers) == ([1, 50], [7, 7])


def test_it_fits_a_phone(visit: Callable[..., Visitor], stored: Callable[..., str]):
    stored(instruct="w" * 400, metadata={"k" * 60: "v" * 300})
    visitor = visit(viewport={"width": 390, "height": 800})
    page = visitor.go("/jobs?status=succeeded")
    assert width_of(page) <= 390


def test_a_key_that_reads_changes_nothing(start_api: Callable[..., ApiServer], services: Services, submit_job: Any):
    job_id = submit_job(instruct="Mine")
    client = start_api(require_auth=True).client(headers={"Accept": "text/html"})
    key = keys.create_key(services, "reader", [Scope.READ])[1]
    client.post("/sign-in", data={"key": key, "next": "/"})
    text = client.get("/jobs").text
    assert "Mine" in text
    assert "Cancel …" not in text
    assert "Delete …" not in text
    assert client.post("/jobs/bulk", data={"do": "cancel", "job": job_id}).status_code == 403
    assert json.loads(client.get("/jobs/export").text)["id"] == job_id
    drain(services)
    assert statuses(services)[job_id] == "succeeded"


def test_sixteen_jobs_fit_a_screen(visit: Callable[..., Visitor], submit_job: Callable[..., str]):
    for _ in range(20):
        submit_job(instruct="Say why the sky is blue, and why the sunset is red, in words for a ten-year-old. " * 3)
    visitor = visit(viewport={"width": 1440, "height": 900})
    fit = "[...document.querySelectorAll('[data-row]')].filter(row => row.getBoundingClientRect().bottom <= 900).length"
    # A narrowed list shows its filter as a chip
    for path, least in (("/jobs", 16), ("/jobs?outcome=queued", 15)):
        page = visitor.go(path)
        assert page.evaluate(fit) >= least
        assert width_of(page) <= 1440
    # The heads stay in sight
    page.set_viewport_size({"width": 1440, "height": 300})
    tops = page.evaluate("[scrollTo(0, 500), scrollY, document.querySelector('thead th').getBoundingClientRect().top]")
    assert tops[1] > 0
    assert tops[2] == 0
