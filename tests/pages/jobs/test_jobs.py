"""The list of jobs: what a line tells, filters in the address, many at once, new ones announced and not jumping."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import event, insert

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.jobs import job_lists, lifecycle, queries
from redraft.operations.jobs.queries import JobFilter
from redraft.operations.services import Services
from redraft.storage.engine.tables import jobs as table
from tests.model_server.server import ModelServer
from tests.pages.conftest import Visitor
from tests.storage.conftest import job_values
from tests.support.api_server import ApiServer
from tests.support.browsers import width_of
from tests.support.shells import drain
from tests.support.waiting import patient

HOSTILE = "<script>alert(1)</script><b hx-get='/x' hx-trigger='load'>\u202eoops"


def rows(page: Page) -> Any:
    return page.locator("#live tbody tr")


def tasks(page: Page) -> list[str]:
    return page.locator("#live th.task > a").all_inner_texts()


def statuses(services: Services) -> dict[str, str]:
    return {job.id: job.status for job in queries.list_jobs(services, JobFilter(limit=100))[0]}


def test_an_empty_list_teaches_and_fills_itself(visitor: Visitor, submit_job: Callable[..., str]):
    page = visitor.go("/jobs")
    assert "A job asks for an answer" in page.inner_text("main")
    assert page.get_by_role("link", name="Send your first job").get_attribute("href") == "/new"
    visitor.check_accessible()
    submit_job(instruct="The first")
    expect(rows(page)).to_have_count(1)


def test_a_line_tells_of_a_job(visitor: Visitor, stored: Callable[..., str], model_server: ModelServer):
    model_server.script(evaluate=[0.4, 0.9])
    job_id = stored(instruct="First line.\nSecond line.", metadata={"team": "docs"})
    page = visitor.go("/jobs")
    row = rows(page).first
    text = row.inner_text()
    for words in ("succeeded", "accepted", "First line.", "2/3", "0.90", "of 0.80", "openai:writer", "openai:judge"):
        assert words in text
    assert "Second" not in text
    assert row.get_by_role("img").get_attribute("aria-label") == "Scores 0.40, 0.90; threshold 0.80"
    assert row.get_by_role("link", name="First line.").get_attribute("href") == f"/jobs/{job_id}"
    assert row.locator("time").count() == 1
    visitor.check_accessible()


def test_a_click_on_a_value_filters_by_it_and_filters_are_in_the_address(
    visitor: Visitor, stored: Callable[..., str], submit_job: Callable[..., str]
):
    stored(instruct="Done", metadata={"team": "a=b&c"})
    submit_job(instruct="Waiting", metadata={"team": "other"})
    page = visitor.go("/jobs")
    page.get_by_role("link", name="succeeded").click()
    assert page.url.endswith("/jobs?status=succeeded")
    assert tasks(page) == ["Done"]
    page.get_by_role("link", name="team=a=b&c").click()
    assert tasks(page) == ["Done"]
    page.get_by_role("link", name=re.compile("status: succeeded")).click()
    assert page.url.endswith("/jobs?metadata.team=a%3Db%26c")
    page.get_by_label("failed").check()
    page.get_by_label("Created from (UTC)").fill("2026-01-01")
    page.get_by_role("button", name="Filter").click()
    assert page.url.endswith("/jobs?status=failed&created_after=2026-01-01&metadata.team=a%3Db%26c")
    assert "No job fits these filters" in page.inner_text("main")
    visitor.check_accessible()
    page.get_by_role("link", name="Clear the filters").click()
    assert tasks(page) == ["Waiting", "Done"]


def test_a_filter_that_is_none_is_told_at_its_field_and_never_passed_over(visitor: Visitor, submit_job: Any):
    submit_job(instruct="Waiting")
    page = visitor.go("/jobs?kind=odd&created_after=soon&metadata=team")
    assert visitor.status == 422
    assert tasks(page) == []
    for label in ("Kind", "Created from (UTC)", "Metadata"):
        field = page.get_by_label(label)
        expect(field).to_have_attribute("aria-invalid", "true")
        assert page.get_by_role("alert").get_by_role("link", name=label).is_visible()
    expect(page.get_by_label("Metadata")).to_have_value("team")
    expect(page.get_by_label("Metadata")).to_have_accessible_description(re.compile("key=value"))
    assert "Input should be" not in page.inner_text("main")
    visitor.check_accessible()
    for query in ("status=nonsense", "after=nowhere", "metadata.=x", "statuz=failed"):
        visitor.go(f"/jobs?{query}")
        assert visitor.status == 422, query
        assert page.locator('a[href^="/jobs/bulk"]').count() == 0
    for filters in ("metadata%3Dteam", "statuz%3Dfailed", "%26a%3Db" * 101):
        visitor.go(f"/jobs/bulk?do=cancel&filters={filters}")
        assert visitor.status == 422


def test_all_can_be_meant_only_where_a_filter_says_which(visitor: Visitor, submit_job: Any):
    submit_job(metadata={"a": "b"})
    page = visitor.go("/jobs?order=asc")
    everyone = page.locator("#bulk .group").nth(1)
    assert everyone.inner_text().split() == ["All", "jobs:", "Export"]
    page.goto(visitor.base_url + "/jobs?metadata.a=b")
    assert everyone.inner_text().startswith("All that match:")
    everyone.get_by_role("link", name="Cancel …").click()
    expect(page.get_by_role("button", name="Cancel it")).to_be_visible()
    assert page.get_by_role("link", name="Leave it").is_visible()


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
    assert tasks(page) == [HOSTILE.replace("\u202e", "\\u202e")]
    text = rows(page).first.inner_text()
    assert "<i>k=<img src=x onerror=alert(1)>" in text
    assert "openai:<b>m" in text
    page.get_by_role("link", name=re.compile("<i>k=")).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert page.locator("#live img, #live script, #live b, #live i").count() == 0


def test_new_jobs_are_announced_and_others_change_in_their_place(
    visitor: Visitor, services: Services, submit_job: Callable[..., str]
):
    first, second = submit_job(instruct="First"), submit_job(instruct="Second")
    page = visitor.go("/jobs?status=queued")
    page.get_by_label("Mark First").check()
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
    assert tasks(page) == ["Second", "First"]
    expect(page.get_by_label("Mark First")).to_be_checked()
    expect(page.locator(f"#{first}")).to_have_attribute("aria-selected", "true")
    visitor.check_accessible()
    page.get_by_role("link", name="1 new job").click()
    assert page.url.endswith("/jobs?status=queued")
    assert tasks(page) == ["Third", "First"]


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
    assert page.get_by_label("Mark Two").is_checked()
    expect(page.locator("#marked")).to_have_text(" (1)")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{two}")


def test_marked_and_matching_jobs_are_canceled_deleted_and_exported_without_javascript(
    visit: Callable[..., Visitor], services: Services, submit_job: Callable[..., str]
):
    ids = [submit_job(instruct=f"Job {number}", metadata={"n": str(number % 2)}) for number in range(4)]
    page = visit(java_script_enabled=False).go("/jobs")
    page.get_by_role("button", name="Cancel …").click()
    assert "No job is marked" in page.get_by_role("status").first.inner_text()
    page.get_by_label("Mark Job 1").check()
    page.get_by_label("Mark Job 2").check()
    page.get_by_role("button", name="Cancel …").click()
    expect(page.get_by_role("heading", name="Cancel 2 jobs?")).to_be_visible()
    page.get_by_role("button", name="Cancel them").click()
    expect(page.get_by_role("heading", name="2 jobs canceled")).to_be_visible()
    assert statuses(services) == {ids[0]: "queued", ids[1]: "canceled", ids[2]: "canceled", ids[3]: "queued"}
    page.goto(page.url.partition("/jobs")[0] + "/jobs?metadata.n=1")
    page.get_by_role("link", name="Delete …").click()
    expect(page.get_by_role("heading", name="Delete 1 job?")).to_be_visible()
    page.get_by_role("button", name="Delete it").click()
    page.get_by_role("link", name="Back to the jobs").click()
    assert page.url.endswith("/jobs?metadata.n=1")
    assert tasks(page) == ["Job 3"]
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    assert download.value.suggested_filename == "redraft-jobs.jsonl"
    assert [json.loads(line)["id"] for line in download.value.path().read_text().splitlines()] == [ids[3]]
    page.goto(page.url.partition("/jobs")[0] + "/jobs")
    page.get_by_label("Mark Job 0").check()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert [json.loads(line)["id"] for line in download.value.path().read_text().splitlines()] == [ids[0]]


def test_very_many_are_done_in_batches(visitor: Visitor, services: Services):
    now = datetime.now(UTC)
    ended = {"status": "canceled", "stop_reason": "canceled", "finished_at": now, "deadline_at": now}
    rows = [job_values(**ended, available_at=now) for _ in range(job_lists.BATCH + 2)]
    with services.database.write() as connection:
        connection.execute(insert(table), rows)
    page = visitor.go("/jobs/bulk?do=delete&filters=")
    assert page.get_by_role("heading", name="Delete 502 jobs?").is_visible()
    visitor.check_accessible()
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
    assert (shown, numbers) == ([1, 50], [2, 2])


def test_it_fits_a_phone(visit: Callable[..., Visitor], stored: Callable[..., str]):
    stored(instruct="w" * 400, metadata={"k" * 60: "v" * 300})
    visitor = visit(viewport={"width": 390, "height": 800})
    page = visitor.go("/jobs?status=succeeded")
    assert width_of(page) <= 390
    visitor.check_accessible()


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
