"""The trace of a job: its iterations, calls and waits as a tree, on one axis, with details beside it."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from api.pages.jobs.job_trace import Row, Trace, trace_of
from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.jobs import lifecycle, queries, views
from redraft.operations.jobs.resources import Call, PlacedCall
from redraft.operations.services import Services
from tests.model_server import ModelServer, Reply
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import HtmlPage, Reader, text_of
from tests.support.shells import drain

Stored = Callable[..., str]
TOO_MANY = Reply(status=429, raw={"error": {"message": "Slow down"}})
GAP_OF_1_S = "waited 1.0 s for a worker or a limit"
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def client(api: ApiServer) -> httpx2.Client:
    return api.client(headers={"Accept": "text/html"})


@pytest.fixture
def retried(model_server: ModelServer, stored: Stored) -> str:
    """A job of two iterations: its first call is refused, and its second verdict is repaired."""
    model_server.script(generate=[TOO_MANY, "It is <b>blue</b>.", "Light scatters."], evaluate=[0.4, "What?", 0.9])
    return stored(instruct="Why <i>blue</i>?")


def calls_of(services: Services, job_id: str) -> list[Call]:
    return queries.list_calls(services, job_id)


def lines_of(page: HtmlPage) -> list[str]:
    [tree] = page.of_class("tree")
    return [text_of(each) for each in page.of_class("line") if each in list(tree.iter())]


def names_of(rows: tuple[Row, ...]) -> list[Any]:
    return [(row.words, names_of(row.children)) if row.children else row.words for row in rows]


def line_of(call_id: str, start_s: float, took_s: float, **changes: Any) -> PlacedCall:
    values: dict[str, Any] = {**dict.fromkeys(PlacedCall.model_fields), "id": call_id, "type": "generate"}
    values |= {"step": "generate", "iteration": 1, "candidate": 1, "seq": 0, "attempt": 1, "model": "openai:m"}
    values |= {"status": "succeeded", "cached": False, "latency_ms": round(took_s * 1000)}
    values |= {"started_at": AT + timedelta(seconds=start_s), **changes}
    return PlacedCall.model_construct(None, **values)


def drawn(services: Services, job_id: str, calls: list[PlacedCall], **changes: Any) -> Trace:
    """The trace of these calls, as if they were those of the job, which was submitted at `AT`."""
    view = views.view_trace(services, job_id)
    times = {"created_at": AT, "started_at": AT, "finished_at": AT, **changes.pop("job", {})}
    job = view.job.model_copy(update=times)
    return trace_of(replace(view, job=job, calls=calls, **changes), AT)


def place_of(trace: Trace, row_id: str) -> list[float]:
    row = trace.find(row_id)
    assert row
    return [float(re.findall(rf' {name}="([\d.]+)%"', row.bar)[0]) for name in ("x", "width")]


def test_iterations_hold_their_calls_retries_and_waits_with_cost_and_score(
    reader: Reader, services: Services, retried: str
):
    lines = lines_of(reader.go(f"/jobs/{retried}/calls"))
    words = [re.sub(r" duration.*", "", line) for line in lines if not line.startswith("waited") or "after" in line]
    assert words[:5] == [
        "Iteration 1",
        "✗failed: generate 429 writer",
        words[2],
        "generate attempt 2 writer",
        "evaluate judge",
    ]
    assert re.fullmatch(r"waited [\d.]+ m?s after 429", words[2])
    assert words[5:] == ["Iteration 2", "generate writer", "evaluate judge", "repair judge"]
    scores = [re.findall(r"score ([\d.]+)", line) for line in lines if "Iteration" in line or "judge" in line]
    assert scores == [["0.40"], ["0.40"], ["0.90"], [], ["0.90"]]
    for line in lines:
        assert re.search(r"duration [\d.]+ m?s", line)
        assert ("cost" in line) == (not line.startswith("waited"))


def test_bars_and_waits_are_true_to_scale(services: Services, stored: Stored):
    job_id = stored()
    refused = line_of("call_1", 0, 1, status="failed", http_status=503)
    trace = drawn(services, job_id, [refused, line_of("call_2", 7, 1, attempt=2), line_of("call_3", 8, 2, seq=1)])
    assert names_of(trace.rows) == [("Iteration 1", ["generate", "waited 6.0 s after 503", "generate", "generate"])]
    assert [place_of(trace, each) for each in ("call_1", "wait-call_2", "call_2", "call_3")] == [
        [0, 10],
        [10, 60],
        [70, 10],
        [80, 20],
    ]
    assert place_of(trace, "iteration-1") == [0, 100]
    assert re.findall(r">([^<>]+)</text>", trace.axis) == ["0 s", "2.5 s", "5 s", "7.5 s"]
    assert ("wait", "waiting", "6.0 s") in trace.legend
    assert ("bad", "failed", "1.0 s") in trace.legend


def test_a_failed_reply_is_named_by_its_error_and_not_by_the_status_200(services: Services, stored: Stored):
    cut = {"status": "failed", "http_status": 200, "finish_reason": "length"}
    named = line_of("call_1", 0, 1, **cut, error={"code": "output_truncated"})
    trace = drawn(services, stored(), [named, line_of("call_2", 1, 1, seq=1, **cut)])
    assert [row.note for row in trace.rows[0].children] == ["output truncated", "length"]


def test_without_colours_bars_differ_by_their_lines(services: Services, stored: Stored):
    kinds = ["generate", "evaluate", "repair", "verify_claims"]
    calls = [line_of(f"call_{at}", at, 1, seq=2 * at, type=kind) for at, kind in enumerate(kinds)]
    failed = line_of("call_4", 4, 1, seq=8, status="failed")
    audit = line_of("call_5", 5, 1, seq=10, step="audit", type="evaluate")
    trace = drawn(services, stored(), [*calls, failed, audit])
    rows = [trace.find(f"call_{at}") for at in range(6)]
    hatches = [tuple(re.findall(r"url\(#([\w-]+)\)", row.bar)) for row in rows if row]
    assert len(set(hatches)) == 6, hatches
    drawn_lines = dict(re.findall(r'<pattern id="([\w-]+)"[^>]*><path d="([^"]+)"', trace.grid))
    assert [name for hatch in hatches for name in hatch if name not in drawn_lines] == []
    assert len(set(drawn_lines.values())) == len(drawn_lines)


def test_a_short_call_beside_a_long_wait_has_its_place(services: Services, stored: Stored):
    calls = [line_of("call_1", 0, 0.001), line_of("call_2", 1000, 1, iteration=2)]
    trace = drawn(services, stored(), calls)
    assert place_of(trace, "call_2") == [99.9, 0.1]
    assert re.findall(r">([^<>]+)</text>", trace.axis)[-1] == "15 min"


def test_a_time_without_any_call_is_a_row_where_it_belongs(services: Services, stored: Stored):
    calls = [line_of("call_1", 0, 1), line_of("call_2", 4, 1, seq=1), line_of("call_3", 5.5, 1, seq=2)]
    trace = drawn(services, stored(), [*calls, line_of("call_4", 8, 2, iteration=2)])
    assert names_of(trace.rows) == [
        ("Iteration 1", ["generate", "waited 3.0 s for a worker or a limit", "generate", "generate"]),
        "waited 1.5 s for a worker or a limit",
        ("Iteration 2", ["generate"]),
    ]
    assert place_of(trace, trace.rows[1].id) == [65, 15]


def test_a_wait_for_a_worker_is_a_row_and_one_of_hours_is_no_part_of_the_scale(services: Services, stored: Stored):
    job_id = stored()
    for waited_s, first in ((5, [50, 50]), (7200, [0, 100])):
        started_at = AT + timedelta(seconds=waited_s)
        trace = drawn(services, job_id, [line_of("call_1", waited_s, 5)], job={"started_at": started_at})
        row = trace.find("queue")
        assert row
        assert row.words == f"waited {'5.0 s' if waited_s == 5 else '2 h 0 min'} for a worker"
        assert row.note == ("" if waited_s == 5 else "not to scale")
        assert place_of(trace, "call_1") == first
        assert ("break" in trace.grid) == (waited_s == 7200)


def test_a_pause_before_a_continuation_is_named_and_no_part_of_the_scale(
    reader: Reader, services: Services, model_server: ModelServer, stored: Stored
):
    model_server.script(generate=["One.", "Two."], evaluate=[0.3, 0.9])
    job_id = stored(iter_max=1)
    lifecycle.continue_job(services, job_id, ContinueJob(guidance="Say why.", iter_max=1))
    drain(services)
    calls = [line_of("call_1", 0, 1), line_of("call_2", 901, 3, iteration=2)]
    pauses = [(AT + timedelta(seconds=1), AT + timedelta(seconds=901))]
    trace = drawn(services, job_id, calls, pauses=pauses)
    words = [row.words for row in trace.rows]
    assert words == ["Iteration 1", "continued after 15 min 0 s", "Iteration 2"]
    failed = line_of("call_0", 0, 0.5, status="failed", http_status=500)
    repeated = drawn(services, job_id, [failed, line_of("call_1", 902, 1)], pauses=pauses)
    assert names_of(repeated.rows) == [("Iteration 1", ["generate", GAP_OF_1_S, "generate"]), words[1]]
    assert place_of(trace, "call_2") == [25, 75]
    seq = views.view_trace(services, job_id).continued[0].seq
    page = reader.go(f"/jobs/{job_id}/calls?at=pause-{seq}")
    assert page.link("Continuation").get("href") == f"/jobs/{job_id}/iterations#continuation-{seq}"
    assert page.link("Event").get("href") == f"/jobs/{job_id}/events#event-{seq}"
    assert reader.go(f"/jobs/{job_id}/events").by_id(f"event-{seq}") is not None


def test_a_job_that_waits_before_a_further_attempt_says_so(services: Services, submit_job: Stored):
    view = views.view_trace(services, submit_job())
    failed = line_of("call_1", -3, 1, status="failed", http_status=429)
    job = view.job.model_copy(update={"created_at": AT - timedelta(seconds=3), "started_at": AT})
    row = trace_of(replace(view, job=job, calls=[failed]), AT).find("waiting")
    assert row
    assert (row.words, row.is_open, row.duration_ms) == ("waiting after 429", True, 2000)


def test_speculative_calls_and_audits_are_named(
    reader: Reader, services: Services, model_server: ModelServer, stored: Stored
):
    model_server.script(generate=["One.", "Two."], evaluate=[0.3, 0.9, 0.5, 0.6])
    job_id = stored(iter_max=2, evaluation={"when": "overlap", "audit": "openai:auditor"})
    lines = lines_of(reader.go(f"/jobs/{job_id}/calls"))
    [early] = [line for line in lines if "before verdict 1" in line]
    assert early.startswith("generate before")
    audit = lines[[line.startswith("Audit") for line in lines].index(True) :]
    assert [line.split()[:2] for line in audit[1:]] == [["evaluate", "auditor"]] * 2
    assert sorted(re.findall(r"score ([\d.]+)", " ".join(audit[1:]))) == ["0.50", "0.60"]
    assert "iteration 2" not in audit[0]


def test_members_of_a_panel_have_their_own_scores(reader: Reader, model_server: ModelServer, stored: Stored):
    model_server.script(evaluate=[0.8, 0.6])
    job_id = stored(iter_max=1, evaluation={"panel": ["openai:judge", "anthropic:other"]})
    lines = [line for line in lines_of(reader.go(f"/jobs/{job_id}/calls")) if line.startswith("evaluate")]
    assert sorted(re.findall(r"score ([\d.]+)", " ".join(lines))) == ["0.60", "0.80"]


def test_calls_events_and_iterations_link_to_each_other(reader: Reader, services: Services, retried: str):
    base = f"/jobs/{retried}"
    made = calls_of(services, retried)
    page = reader.go(f"{base}/events")
    for call in made:
        assert page.by_id(call.id).get("href") == f"{base}/calls?at={call.id}#{call.id}"
    [retry] = [row for row in page.all("tr") if "step.retrying" in text_of(row)]
    assert page.by_id(made[0].id) in list(retry.iter())
    assert page.by_id("iteration-2").get("href") == f"{base}/iterations#iteration-2"
    page = reader.go(f"{base}/iterations")
    assert page.all(f"a[@href='{base}/calls?at=iteration-2']")
    assert page.all(f"a[@href='{base}/events#iteration-2']")
    page = reader.go(f"{base}/calls?at={made[1].id}")
    assert page.by_id(made[1].id) is not None
    shown = page.by_id("selected")
    assert [each.get("href") for each in shown.iter("a")][1:4] == [
        f"{base}/calls/{made[1].id}",
        f"{base}/iterations#iteration-1",
        f"{base}/events#{made[1].id}",
    ]
    page = reader.go(f"{base}/calls/{made[1].id}")
    assert page.link("« Trace").get("href") == f"{base}/calls?at={made[1].id}#{made[1].id}"
    assert page.link("event").get("href") == f"{base}/events#{made[1].id}"


def test_events_have_exact_times_and_offsets(client: httpx2.Client, retried: str):
    text = client.get(f"/jobs/{retried}/events").text
    exact = r"<time data-exact [^>]+>\d\d:\d\d:\d\d\.\d{3}</time>"
    assert re.search(exact + r' <span class="quiet">\+0\.\d\d s</span>', text)


def test_without_javascript_a_link_shows_the_details_of_a_row(reader: Reader, services: Services, retried: str):
    made = calls_of(services, retried)
    page = reader.go(f"/jobs/{retried}/calls")
    assert not page.of_class("details")
    page = reader.click("evaluate")
    shown = text_of(page.by_id("selected"))
    assert "openai:judge" in shown
    assert "score 0.4" in shown
    assert [text_of(each) for each in page.all("a[@aria-current='true']")] == ["evaluate"]
    for at, words in (
        (f"wait-{made[1].id}", "The job waited because this call failed"),
        (made[0].id, "The provider's rate limit was hit."),
        ("iteration-1", "It is <b>blue</b>."),
        ("iteration-2", "Feedback for this answer"),
    ):
        assert words in text_of(reader.go(f"/jobs/{retried}/calls?at={at}").by_id("selected"))


@pytest.mark.parametrize("at", ["call_none", "<b>x</b>", "wait-"])
def test_an_unknown_row_is_refused_in_words(reader: Reader, retried: str, at: str):
    page = reader.go(f"/jobs/{retried}/calls?at={at}")
    assert f"This trace has no row {at}." in text_of(page.of_class("warn")[-1])
    assert not page.of_class("details")


@pytest.mark.parametrize("width", [390, 1440])
def test_a_row_shows_its_details_beside_the_tree(visit: Callable[..., Visitor], retried: str, width: int):
    visitor = visit(viewport={"width": width, "height": 900})
    page = visitor.go(f"/jobs/{retried}/calls")
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))
    page.locator(".group > .line .pick").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator(".pick", has_text="evaluate").first).to_be_focused()
    page.keyboard.press("Enter")
    details = page.locator("#selected")
    expect(details).to_contain_text("openai:judge")
    expect(page).to_have_url(re.compile(r"\?at=call_\w+$"))
    if width == 390:
        expect(details).to_be_focused()
    else:
        expect(page.locator(".pick[aria-current]")).to_be_focused()
        tree = page.locator(".tree").bounding_box()
        beside = details.bounding_box()
        assert tree is not None
        assert beside is not None
        assert beside["x"] > tree["x"] + tree["width"]
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.get_by_role("link", name="Close").click()
    expect(details).to_have_count(0)
    expect(page.locator(".pick", has_text="evaluate").first).to_be_focused()
    expect(page).to_have_url(re.compile(r"/calls$"))
    assert loads == []


def test_iterations_collapse_by_keyboard_and_stay_so(visitor: Visitor, retried: str):
    page = visitor.go(f"/jobs/{retried}/calls")
    first = page.locator(".group > .line .pick").first
    first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(first).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("details").first).not_to_have_attribute("open", "")
    page.keyboard.press("ArrowDown")
    second = page.locator(".group > .line .pick").nth(1)
    expect(second).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#selected")).to_contain_text("Light scatters.")
    expect(page.locator("details").first).not_to_have_attribute("open", "")
    expect(second).to_be_focused()
    page.locator("summary").first.click()
    expect(page.locator("details").first).to_have_attribute("open", "")
