"""The overview: tiles, live jobs, and what is missing with its remedy."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from sqlalchemy import event, update

from api.pages.parts.filters import UNKNOWN
from redraft.operations.jobs import lifecycle
from redraft.operations.services import Services
from redraft.storage.engine.tables import jobs
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.browsers import width_of
from tests.support.html_pages import HtmlPage, Reader, text_of
from tests.support.processes import WorkerProcess

CUT = "[...document.querySelectorAll('.table')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"


def tile(page: HtmlPage, name: str) -> str:
    [found] = [text_of(each) for each in page.of_class("tiles")[0] if text_of(each).startswith(name)]
    return found


def test_an_empty_installation_teaches_and_says_what_is_missing(reader: Reader, api: ApiServer):
    page = reader.go("/")
    [trouble] = page.texts("*[@role='alert']")
    assert trouble == "No worker is alive. Jobs wait until one is started. Run redraft worker"
    assert "A job has an instruction" in page.text
    assert f"curl {api.url}/v1/generate-answer" in text_of(page.by_id("curl"))
    assert page.link("Create the first job").get("href") == "/new"
    assert "midnight UTC" in page.text


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_tiles_and_lines_tell_of_today(
    reader: Reader, services: Services, stored: Callable[..., str], submit_job: Callable[..., str]
):
    accepted = stored(instruct="Why is the sky blue?")
    stored(instruct="Why <b>not</b>?", score_threshold=0.95, iter_max=1)
    submit_job(instruct="Still waiting")
    lifecycle.cancel(services, submit_job(instruct="Not any more"))
    page = reader.go("/")
    assert tile(page, "Queued").endswith("1")
    assert tile(page, "Running").endswith("0")
    assert re.search(r"\d+ s\s*of a queued job", tile(page, "Oldest wait"))
    assert "none failed, 1 canceled" in tile(page, "Succeeded today")
    assert re.search(r"50\.0 %\s*1 of 2 answers", tile(page, "Accepted today"))
    # What the scripted server's models cost nobody knows: that is not 0
    assert re.search(rf"{UNKNOWN}\s*a price is unknown", tile(page, "Cost today"))
    lines = page.all("tbody/tr", page.region("Last jobs"))
    assert "■ canceled" in text_of(lines[0])
    assert "Why <b>not</b>?" in text_of(lines[1])
    assert "≈ not accepted iteration limit" in text_of(lines[1])
    assert "✓ accepted" in text_of(lines[-1])
    assert re.search(r"0.90\s+threshold 0.80", text_of(lines[-1]))
    assert page.one("a", lines[-1]).get("href") == f"/jobs/{accepted}"
    same = text_of(reader.go("/jobs").by_id(accepted))
    assert "✓ accepted" in same
    assert re.search(r"0.90\s+threshold 0.80", same)


def test_it_works_without_javascript(reader: Reader, stored: Callable[..., str]):
    stored(instruct="x" * 5_000)
    page = reader.go("/")
    assert tile(page, "Succeeded today")
    assert page.link("x" * 109 + "…") is not None
    assert len(page.all("noscript/meta[@http-equiv='refresh']")) == 1


def test_it_fits_a_phone(visit: Callable[..., Visitor], stored: Callable[..., str]):
    stored(instruct="x" * 5_000)
    visitor = visit(viewport={"width": 390, "height": 800})
    page = visitor.go("/")
    assert width_of(page) <= 390
    assert page.evaluate(CUT) == []
    label = "getComputedStyle(document.querySelectorAll('.lines td')[2], '::before').content"
    assert "Iterations" in page.evaluate(label)


def test_it_is_live(
    visitor: Visitor,
    services: Services,
    model_server: ModelServer,
    start_worker: Callable[..., WorkerProcess],
    submit_job: Callable[..., str],
):
    model_server.script(generate=[Reply(text="Slowly.", is_held=True)])
    start_worker(services).wait_ready()
    page = visitor.go("/")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("main")).to_contain_text("1 alive")
    submit_job(instruct="Why is water wet?")
    row = page.get_by_role("region", name="Running jobs").locator("tbody tr")
    expect(row).to_contain_text("Why is water wet?")
    expect(row).to_contain_text("1 of 3")
    expect(row).to_contain_text("generate")
    expect(page.get_by_role("region", name="Workers").locator("tbody tr td").first).to_have_text(re.compile("^1 of "))
    model_server.release()
    expect(page.get_by_role("region", name="Last jobs")).to_contain_text("✓ accepted")
    # As wide as each of three cards side by side
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate(CUT) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"openai_api_key": None, "openai_base_url": None},
            r"openai:writer needs a key: set OPENAI_API_KEY\. Then start Redraft again\. REDRAFT_MODEL=",
        ),
        ({"model": "odd"}, r"'odd'.+REDRAFT_MODEL=provider:name chooses another model\. Run redraft models"),
        (
            {"evaluator_model": "anthropic:x", "anthropic_api_key": None, "anthropic_base_url": None},
            "ANTHROPIC_API_KEY",
        ),
        ({"model": "local:other"}, "The bundled model is"),
        ({"broker_url": "redis://127.0.0.1:1/0"}, "REDRAFT_BROKER_URL names it. Run redraft doctor"),
    ],
)
def test_whatever_is_missing_is_said_with_its_remedy(
    start_api: Callable[..., ApiServer], settings: dict[str, Any], words: str
):
    text = start_api(**settings).client(headers={"Accept": "text/html"}).get("/").text
    troubles = re.findall(r'(?s)<div class="banner bad trouble".+?</div>', text)
    said = [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", each)).replace("&#39;", "'") for each in troubles]
    assert any(re.search(words, each) for each in said), said


def test_without_a_schema_it_says_what_to_run(start_api: Callable[..., ApiServer], tmp_path: Path):
    api = start_api(database_url=f"sqlite:///{tmp_path / 'empty.db'}")
    response = api.client(headers={"Accept": "text/html"}).get("/")
    assert response.status_code == 200
    assert "<code>redraft db upgrade</code>" in response.text


@contextmanager
def counted(services: Services) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(services.database.engine, "before_cursor_execute", note)
    yield statements
    event.remove(services.database.engine, "before_cursor_execute", note)


def test_the_number_of_queries_does_not_grow(
    api: ApiServer, stored: Callable[..., str], submit_job: Callable[..., str]
):
    context: Services = api.app.state.context.services
    client = api.client(headers={"Accept": "text/html"})
    client.get("/")
    with counted(context) as before:
        client.get("/")
    for _ in range(3):
        stored()
        submit_job()
    with counted(context) as after:
        client.get("/")
    assert len(after) == len(before) < 25


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_charts_and_their_table_show_ended_jobs_by_hour_and_by_day(
    reader: Reader, services: Services, stored: Callable[..., str], submit_job: Callable[..., str]
):
    stored()
    stored(score_threshold=0.95, iter_max=1)
    late = stored()
    lifecycle.cancel(services, submit_job())
    now = datetime.now(UTC)
    older = {"finished_at": now - timedelta(hours=25), "cost_nano_usd": 2 * 10**9, "unpriced_calls": 0}
    with services.database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.finished_at.is_not(None)).values(finished_at=now))
        connection.execute(update(jobs).where(jobs.c.id == late).values(**older))
    page = reader.go("/")
    names = [text_of(each) for each in page.all("figure/figcaption")]
    assert names == ["Ended jobs", "Accepted, of all answers", "Cost in USD", "Failed jobs"]
    drawn = text_of(page.all("figure")[0])
    assert "1 accepted, 1 not accepted, 1 canceled" in drawn
    assert "50.0 %, 1 of 2" in text_of(page.all("figure")[1])
    # The price of the scripted models is unknown, which is not a cost of 0
    assert "?" in text_of(page.all("figure")[2])
    assert table_of(page) == [["3", "1 50.0 %", "1", "0", "0", "1", UNKNOWN]]
    days = reader.click("by day")
    assert page_name(days) == "The last 14 days, UTC"
    # Not as elements for times, which a script would replace with the age
    assert days.texts("tbody/tr/th", days.region("Figures of the charts"))[0] == f"{now:%m-%d}"
    assert days.all("time", days.region("Figures of the charts")) == []
    assert table_of(days)[1] == ["1", "1 100.0 %", "0", "0", "0", "0", "$2.00"]
    assert "Cost today" in days.text
    # A live page asks for the same charts again
    assert days.by_id("live").get("hx-get") == "/?by=day"
    assert "by" in reader.go("/?by=month").text


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_the_charts_count_each_outcome_as_the_list_does(reader: Reader, services: Services, stored: Callable[..., str]):
    stored()
    stored(score_threshold=0.95, iter_max=1)
    unread = stored()
    kept = stored()
    with services.database.write() as connection:
        without = {"stop_reason": "evaluator_error", "best_score": None}
        connection.execute(update(jobs).where(jobs.c.id == unread).values(**without))
        # A continuation after which the earlier answer is still the accepted one
        connection.execute(update(jobs).where(jobs.c.id == kept).values(**without, continuations=1))
    overview = reader.go("/")
    [row] = table_of(overview)
    names = overview.texts("thead/tr/th", overview.region("Figures of the charts"))[1:]
    shown = {name: int(cell.split()[0]) for name, cell in zip(names, row, strict=True) if name != "Cost"}
    assert shown.pop("Ended") == 4
    outcomes = {name.lower().replace(" ", "_"): number for name, number in shown.items()}
    listed = {name: len(reader.go(f"/jobs?outcome={name}").all("tbody/tr")) for name in outcomes}
    assert outcomes == listed == {"accepted": 2, "not_accepted": 1, "not_evaluated": 1, "failed": 0, "canceled": 0}


def table_of(page: HtmlPage) -> list[list[str]]:
    rows = page.all("tbody/tr", page.region("Figures of the charts"))
    return [page.texts("td", row) for row in rows]


def page_name(page: HtmlPage) -> str:
    return text_of(page.by_id("history"))


def test_without_ended_jobs_the_page_says_so_instead_of_a_chart(reader: Reader, submit_job: Callable[..., str]):
    submit_job()
    page = reader.go("/")
    assert page.all("figure") == []
    assert "No job ended in this time." in page.text
