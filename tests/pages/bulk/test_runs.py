"""The pages of runs: lists, a run while it goes on, its report and downloads, resuming and deleting."""

import codecs
import json
import re
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect
from pydantic import SecretStr

from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.bulk import run_results, runs
from redraft.operations.bulk.run_resources import Run
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.settings import ModelPrice
from tests.model_server import ModelServer, Reply
from tests.operations.bulk.test_runs import dataset, rows, start, under_way, work_off
from tests.operations.driving import Driver
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.browsers import expect_text, width_of
from tests.support.html_pages import Reader, text_of
from tests.support.processes import WorkerProcess
from tests.support.receiver import SECRET
from tests.support.waiting import patient

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egpj.exe <b hx-get=/x>b</b>"
DISPOSITION = r"(attachment|inline); filename=\"[^\"\\]+\"; filename\*=UTF-8''(\S+)"
RELOAD_LIST = """
() => new Promise((done) => {
  document.addEventListener("htmx:after:swap", () => done(), { once: true });
  document.getElementById("live").dispatchEvent(new CustomEvent("news"));
})
"""
REPORT = "Did iterating help?"
SHOWN = "<img src=x onerror=alert(1)><script>alert(2)</script>\\u202egpj.exe <b hx-get=/x>b</b>"


def test_without_runs_the_list_says_how_to_start_one(reader: Reader, api: ApiServer):
    page = reader.go("/runs")
    assert 'redraft eval questions.jsonl --crit "Correct and complete."' in page.text
    assert f"{api.url}/v1/datasets?name=questions.jsonl" in page.text
    reader.click("Start a run")
    assert reader.click("Add a dataset").path == "/datasets/new"


def test_two_runs_are_marked_and_compared(visitor: Visitor, driver: Driver, mixed: Run):
    newer = work_off(driver, start(driver, rows(3, iter_max=2) + b"nonsense\n", name="again"))
    page = visitor.go("/runs")
    row = page.get_by_role("row", name="mixed")
    said = "mixed ✓ succeeded 4 of 4 50.0 % 1 of 2 accepted 1 1 invalid "
    expect(row).to_contain_text(said, use_inner_text=True)
    for key in "jxjx":
        page.keyboard.press(key)
        page.evaluate(RELOAD_LIST)
    page.get_by_role("button", name="Compare the selected runs").click()
    expect(page).to_have_url(f"{visitor.base_url}/runs/compare?baseline={mixed.id}&run={newer.id}")


def test_pages_of_runs_say_where_they_are_and_link_to_their_sections(reader: Reader, mixed: Run):
    dataset_path = f"/datasets/{mixed.dataset_id}"
    paths = {f"/runs/{mixed.id}": "Runs / rows.jsonl / mixed", f"/runs/{mixed.id}/items": "Runs / mixed / Items"}
    paths |= {dataset_path: "Datasets / rows.jsonl", f"{dataset_path}/delete": "Datasets / rows.jsonl / Delete"}
    for path, words in paths.items():
        [crumbs] = reader.go(path).of_class("crumbs")
        assert " ".join(text_of(crumbs).split()) == words
    page = reader.go(f"/runs/{mixed.id}")
    [jump] = page.of_class("jump")
    assert page.texts("a", jump)[:2] == ["Progress", REPORT]
    for link in page.all("a", jump):
        page.by_id(link.attrib["href"].removeprefix("#"))


def test_a_run_goes_on_before_the_eyes_until_its_report(
    visitor: Visitor, services: Services, start_worker: Callable[..., WorkerProcess], model_server: ModelServer
):
    model_server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    run = start(Driver(services), rows(12), max_in_flight=4)
    page = visitor.go(f"/runs/{run.id}")
    expect(page.get_by_text("0 of 12 items have ended")).to_be_visible()
    expect(page.get_by_role("heading", name=REPORT)).to_have_count(0)
    page.evaluate("window.stays = true")
    bar = page.get_by_role("img", name="items have ended")
    expect(bar.locator("rect.accepted")).to_have_count(0)
    start_worker(services)
    # The bar grows by outcome while the page stays
    expect(bar.locator("rect.accepted")).to_have_attribute("height", "1", timeout=patient(30_000))
    expect(page.get_by_text("12 of 12 items have ended")).to_be_visible(timeout=patient(30_000))
    expect(page.get_by_role("heading", name=REPORT)).to_be_visible()
    assert page.evaluate("window.stays")
    expect(bar).to_have_accessible_name("12 of 12 items have ended")
    widths = bar.locator("rect").evaluate_all(
        "found => found.map(each => [each.getAttribute('class'), each.getAttribute('width')])"
    )
    assert widths == [["accepted", "12"]]


def test_a_list_that_is_open_hears_of_runs(
    visitor: Visitor, services: Services, start_worker: Callable[..., WorkerProcess], model_server: ModelServer
):
    model_server.script(generate=["one"], evaluate=[0.9])
    run = start(Driver(services), rows(3))
    page = visitor.go("/runs")
    mark = page.get_by_role("checkbox")
    mark.check()
    start_worker(services)
    expect(page.locator(f"#{run.id}")).to_contain_text("3 of 3", timeout=patient(30_000))
    expect(mark).to_be_checked()


@pytest.mark.parametrize(
    ("name", "stem"),
    [("質問 ü 😀", "質問 ü 😀"), ('a"b\r\nX-Evil: 1', "a_b X-Evil_ 1"), ("../../etc/passwd", "etc_passwd")],
)
def test_case_e16_downloads_have_the_names_of_their_runs(reader: Reader, driver: Driver, name: str, stem: str):
    run = work_off(driver, start(driver, rows(1), name=name))
    page = reader.go(f"/runs/{run.id}")
    [downloads] = [each for each in page.all("ul") if each.get("aria-label") == "Download"]
    found: list[str] = []
    for link in page.all("a", downloads):
        response = reader.follow(text_of(link), downloads)
        assert "x-evil" not in response.headers
        told = re.fullmatch(DISPOSITION, response.headers["content-disposition"])
        assert told, response.headers["content-disposition"]
        found.append(unquote(told[2]))
        assert told[1] == "attachment" or "download" in link.attrib
        # Case T2-19: spreadsheets recognize UTF-8 only by this mark
        assert response.content.startswith(codecs.BOM_UTF8) is found[-1].endswith(".csv")
    ends = ("report.html", "report.md", "report.json", "report.xml", "results.jsonl", "results.csv")
    assert found == [f"{stem} {end}" for end in ends]


def test_error_groups_lead_to_their_items(visitor: Visitor, mixed: Run):
    page = visitor.go(f"/runs/{mixed.id}")
    legend = page.get_by_role("region", name="Progress").get_by_role("listitem")
    expect(legend).to_have_text([re.compile("^1 ")] * 4, use_inner_text=True)
    page.get_by_role("region", name="Errors by code").get_by_role("link", name="provider_bad_request").click()
    items = page.get_by_role("region", name="Items").get_by_role("row")
    expect(items).to_have_count(2)
    expect(items.nth(1)).to_contain_text("r2")
    page.go_back()
    page.get_by_role("heading", name="r1").get_by_role("link").first.click()
    expect(items).to_have_count(2)
    expect(items.nth(1)).to_contain_text("not accepted")
    page.get_by_role("link", name="all 4").click()
    expect(items.nth(1)).to_contain_text("0.40 → , then 0.90 threshold 0.80", use_inner_text=True)
    page.get_by_role("link", name="invalid 1").click()
    expect(items).to_have_count(2)
    expect(items.nth(1)).to_contain_text("line 4")
    page.get_by_role("link", name="not accepted 1").click()
    expect(items.nth(1).get_by_role("link", name="r1")).to_have_attribute("href", re.compile("/jobs/job_"))


def test_a_run_is_canceled_resumed_and_its_errors_tried_again_without_javascript(
    reader: Reader, driver: Driver, model_server: ModelServer
):
    model_server.script(generate=[Reply(status=400), "fine"], evaluate=[0.9], case="r0")
    run = start(driver, rows(2), max_in_flight=1)
    reader.go(f"/runs/{run.id}")
    page = reader.click("Cancel …")
    assert "items have not ended; they are canceled" in page.text
    assert "Canceled." in reader.press("Cancel the run").text
    assert "2 canceled items are started again." in reader.click("Resume 2").text
    assert "The run is resumed." in reader.press("Resume 2").text
    work_off(driver, run)
    assert REPORT in reader.go(f"/runs/{run.id}").text
    assert "The provider rejected the request" in reader.click("Retry 1 failed").text
    reader.press("Retry 1")
    assert work_off(driver, run).counts.failed == 0


def test_a_retry_starts_the_failed_items_only_and_names_its_cost(
    start_api: Callable[..., ApiServer], make_services: Callable[..., Services], model_server: ModelServer
):
    price = ModelPrice(input=1.0, output=10.0)
    prices = {"openai:writer": price, "openai:judge": price}
    driver = Driver(make_services(prices=prices))
    model_server.script(generate=[Reply(status=400), "fine"], evaluate=[0.9], case="r0")
    run = start(driver, rows(4), max_in_flight=1)
    driver.run(under_way(driver, run)[0])
    runs.cancel_run(driver.services, run.id)
    api = start_api(prices=prices)
    reader = Reader.of(api)
    reader.go(f"/runs/{run.id}")
    both = reader.click("Resume 3")
    choices = both.texts("a", both.one("nav[@aria-label='What to start']"))
    assert choices == ["Resume 3 canceled", "Retry 1 failed", "Resume 3 and retry 1"]
    asked = reader.click("Retry 1 failed")
    assert "1 failed item is started again. No other item is started." in asked.text
    assert re.search(r"at most \$0\.\d+", asked.text)
    assert "no: the same request most likely fails again" in asked.text
    # A run does not start more items than the person has confirmed
    confirmed = {"retry": "errors", "items": "1"}
    refused = api.client().post(f"/runs/{run.id}/resume", data=confirmed)
    assert refused.status_code == 409
    assert "the button said 1, and now there are 4 such items" in refused.text
    assert "The run is resumed." in reader.press("Retry 1").text
    ended = work_off(driver, run)
    assert (ended.counts.succeeded, ended.counts.canceled, ended.counts.failed) == (1, 3, 0)


def test_a_run_whose_budget_is_used_up_goes_on_with_a_larger_one(
    visit: Callable[..., Visitor], start_api: Callable[..., ApiServer], make_services: Callable[..., Services]
):
    price = ModelPrice(input=1.0, output=10.0)
    prices = {"openai:writer": price, "openai:judge": price}
    driver = Driver(make_services(prices=prices))
    run = work_off(driver, start(driver, rows(2), max_cost_usd=0.0001))
    visitor = visit(base_url=start_api(prices=prices).url)
    page = visitor.go(f"/runs/{run.id}")
    expect_text(page, "of $0.0001 are spent")
    visitor.check_accessible()
    page.get_by_label("Larger budget in USD").fill("5")
    page.get_by_role("button", name="Resume").click()
    expect_text(page, "The run is resumed.")
    assert work_off(driver, run).counts.succeeded == 2


def test_who_only_reads_changes_nothing(start_api: Callable[..., ApiServer], services: Services, mixed: Run):
    guarded = start_api(require_auth=True)
    key = keys.create_key(services, "reader", [Scope.READ])[1]
    client = guarded.client(headers={"Accept": "text/html"})
    client.post("/sign-in", data={"key": key})
    for path in (f"/runs/{mixed.id}", "/runs", "/datasets", f"/datasets/{mixed.dataset_id}"):
        page = client.get(path)
        assert page.status_code == 200
        assert 'method="post" action="/runs' not in page.text
    for path in ("/runs/new", "/datasets/new"):
        shown = client.get(path).text
        assert "--scope read --scope write" in shown
        assert 'action="/runs' not in shown
    of_run = (f"/runs/{mixed.id}/{verb}" for verb in ("cancel", "resume", "delete"))
    for path in (*of_run, "/runs/new", "/datasets/new", f"/datasets/{mixed.dataset_id}/delete"):
        assert client.post(path, data={"retry": "errors"}).status_code == 403


def test_a_large_run_is_reckoned_after_its_page_is_there(visitor: Visitor, reader: Reader, driver: Driver):
    run, other = (runs.cancel_run(driver.services, start(driver, rows(1001), max_in_flight=1).id)[0] for _ in range(2))
    assert REPORT not in reader.go(f"/runs/{run.id}").text
    assert REPORT in reader.click("Show the report").text
    expect(visitor.go(f"/runs/{run.id}").get_by_role("heading", name=REPORT)).to_be_visible()
    reader.go(f"/runs/compare?baseline={run.id}&run={other.id}")
    assert "No row can be compared" in reader.click("Compare them").text


def test_hostile_texts_are_read_and_do_nothing(visitor: Visitor, driver: Driver, model_server: ModelServer):
    model_server.script(generate=[HOSTILE], evaluate=[0.2])
    row = {"custom_id": HOSTILE, "instruct": f"{HOSTILE} [[case:r0]]", HOSTILE: "x", "metadata": {"a": HOSTILE}}
    data = json.dumps(row).encode() + b'\n{"custom_id": "b", "instruct": "x", "iter_max": "' + b"<b>" * 50 + b'"}\n'
    old, new = (work_off(driver, start(driver, data, name=HOSTILE, repeat=2)) for _ in range(2))
    page = visitor.go("/runs")
    expect_text(page, SHOWN)
    page.get_by_role("link", name=SHOWN[:20]).first.click()
    expect(page.locator("h1")).to_contain_text(SHOWN)
    expect(page.locator("main img, main b")).to_have_count(0)
    page.get_by_role("navigation", name="Run").get_by_role("link", name="Items").click()
    expect(page).to_have_url(re.compile("/items$"))
    expect_text(page, SHOWN[:60])
    visitor.go(f"/runs/compare?baseline={old.id}&run={new.id}")
    lines = page.get_by_role("region", name="Rows side by side")
    lines.get_by_role("link").first.click()
    expect_text(page, SHOWN, times=3)
    visitor.go(f"/datasets/{old.dataset_id}")
    expect_text(page, SHOWN[:60], times=3)
    expect(page.locator("main img, main b")).to_have_count(0)


def test_pages_fit_a_phone(visit: Callable[..., Visitor], driver: Driver, mixed: Run):
    other = work_off(driver, start(driver, rows(3, iter_max=2) + b"nonsense\n", name="x" * 200))
    visitor = visit(viewport={"width": 390, "height": 800})
    both = f"baseline={mixed.id}&run={other.id}"
    for path in (
        *("/runs", f"/runs/{other.id}", f"/runs/{mixed.id}/items", "/runs/new", "/runs/compare", "/datasets"),
        *(f"/runs/compare?{both}", f"/runs/compare/row?{both}&row=r0", f"/datasets/{mixed.dataset_id}"),
        "/datasets/new",
    ):
        page = visitor.go(path)
        assert width_of(page) <= 390, path


def test_a_run_and_its_dataset_are_deleted_without_javascript(reader: Reader, mixed: Run):
    reader.go(f"/datasets/{mixed.dataset_id}/delete")
    assert mixed.id in text_of(reader.press("Delete permanently").one("*[@role='alert']"))
    reader.go(f"/runs/{mixed.id}")
    assert "its 4 items and their jobs" in reader.click("Delete").text
    assert reader.press("Delete permanently").path == "/runs?notice=deleted"
    reader.go(f"/datasets/{mixed.dataset_id}")
    reader.click("Delete")
    page = reader.press("Delete permanently")
    assert page.path == "/datasets?notice=deleted"
    assert "No datasets yet" in page.text


def test_a_run_whose_jobs_were_deleted_says_so(reader: Reader, driver: Driver, mixed: Run):
    for item in run_results.stream_results(driver.services, mixed.id):
        if item["custom_id"] in {"r0", "r2"}:
            lifecycle.delete(driver.services, item["job_id"])
    page = reader.go(f"/runs/{mixed.id}")
    assert "2 jobs of this run were deleted" in page.text
    legend = page.texts("li", page.region("Progress"))
    assert legend == ["0 accepted", "1 not accepted", "1 job deleted", "1 failed", "1 invalid"]


def test_lists_are_paged(reader: Reader, driver: Driver):
    for number in range(21):
        start(driver, rows(1, metadata={"n": str(number)}), name=f"run {number:02}")
    assert len(reader.go("/runs").all("*[@data-row]")) == 20
    page = reader.click("Next page")
    assert len(page.all("*[@data-row]")) == 1
    assert "run 00" in page.text
    assert len(reader.click("First page").all("*[@data-row]")) == 20
    reader.go("/datasets")
    assert len(reader.click("Next page").all("*[@data-row]")) == 1
    run = start(driver, rows(55), max_in_flight=1)
    reader.go(f"/runs/{run.id}/items")
    assert len(reader.click("Next").all("tbody/tr")) == 5


def test_a_run_shows_its_webhook_and_sends_a_delivery_again_without_javascript(
    start_api: Callable[..., ApiServer], services: Services
):
    dataset_id = dataset(services, rows(1))
    client = start_api(webhook_secret=SecretStr(SECRET)).client(headers={"Sec-Fetch-Site": "same-origin"})
    form = {"dataset_id": dataset_id, "eval_crit": "True.", "webhook": "http://10.1.2.3/"}
    refused = client.post("/runs/new", data=form)
    assert (refused.status_code, "10.1.2.3 is private" in refused.text) == (422, True)
    form["webhook"] = "https://hooks.example/runs"
    [seen] = re.findall(r'name="seen" value="(\w+)"', client.post("/runs/new", data=form).text)
    started = client.post("/runs/new", data={**form, "seen": seen})
    address = started.headers["Location"].partition("?")[0]
    assert "Nothing has been sent yet." in client.get(address).text
    client.post(f"{address}/cancel")
    page = client.get(address).text
    assert "<code>run.finished</code>" in page
    [target] = re.findall(rf'action="({address}/deliveries/whd_\w+/redeliver)"', page)
    assert client.post(target).headers["Location"] == f"{address}?notice=resent"
    assert "https://hooks.example/runs" in client.get(f"/runs/new?like={address.rpartition('/')[2]}").text
    listed = client.get("/settings/webhooks").text
    assert (f'href="{address}"' in listed, "hooks.example:443" in listed) == (True, True)
    chosen = {"owner_id": address.rpartition("/")[2], "delivery_id": target.split("/")[4]}
    resent = client.post("/settings/webhooks/resend", data=chosen)
    assert resent.headers["Location"] == "/settings/webhooks?notice=resent"
