"""What a model or a user wrote is shown, and does nothing: cases E12 and E16, attributes of htmx, a line of 5 MB."""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select

from api.pages.parts.markdown import link_plain, markers_of, render_markdown
from redraft.domain.evaluation.ratings import RateEvaluation
from redraft.operations.evaluation import ratings
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from redraft.storage.engine.tables import iterations, jobs
from tests.model_server import ModelServer, Reply
from tests.pages.conftest import Visitor
from tests.support.api_server import ApiServer
from tests.support.html_pages import Reader
from tests.support.waiting import patient

BROWSER = {"Accept": "text/html"}
# Case E12
E12 = (
    "<img src=x onerror=alert(1)><script>alert(2)</script> [click](javascript:alert(3)) "
    "[d](data:text/html;base64,PHNjcmlwdD4=) ![t](https://evil.test/p.png?c=1) abc\u202egnp.exe "
    "\u05e9\u05dc\u05d5\u05dd {{7*7}} </textarea></script>"
)
SHOWN = "abc\\u202egnp.exe \u05e9\u05dc\u05d5\u05dd {{7*7}} </textarea></script>"
HTMX = (
    '<div hx-get="/v1/jobs" hx-trigger="load" hx-on:htmx:load="alert(4)" data-live="/news" data-live-on="changed" '
    'id="live"></div> [x](/v1/jobs "hx-get=/v1/jobs")'
)
# Case E16, as far as an instruction can be so
E16 = {
    "質問 ü 😀": ("u", "質問 ü 😀.txt"),
    'a"b\r\nX-Evil: 1': ("a_b X-Evil_ 1", "a_b X-Evil_ 1.txt"),
    "../../etc/passwd": ("etc_passwd", "etc_passwd.txt"),
    "x" * 500: ("x" * 59, "x" * 59 + "….txt"),
    "///": ("job_", "job_"),
}
TABS = ("", "?view=raw", "/iterations", "/calls", "/events", "/request", "/delete")
LINE = "w" * 5_000_000
Stored = Callable[..., str]


@pytest.fixture
def quiet(visitor: Visitor) -> Visitor:
    """No page opens a dialog."""

    def fail(dialog: object) -> None:
        visitor.errors.append(f"a dialog: {dialog}")

    visitor.page.on("dialog", fail)
    return visitor


def check_harmless(page: Page) -> None:
    loaded = 'a[href^="javascript:" i], a[href^="data:" i], main img, main script, main iframe'
    acting = (
        "main [onerror], main [hx-on\\:htmx\\:load], main [data-live], main [hx-get]:not([data-key], .pick, .details a)"
    )
    expect(page.locator(f"{loaded}, {acting}")).to_have_count(0)
    assert "\u202e" not in page.content()
    assert "alert" not in page.evaluate("[...document.scripts].map((each) => each.textContent).join()")


def test_e12_nothing_in_a_text_runs_loads_or_hides(
    quiet: Visitor, model_server: ModelServer, stored: Stored, services: Services
):
    said = {"evaluation_reasoning": E12, "score": 0.1, "meets_criteria": False, "improvement_suggestions": [E12]}
    refused = Reply(status=400, raw={"error": {"message": E12}})
    model_server.script(generate=[E12, HTMX + E12, refused], evaluate=[said])
    source = {"content": E12, "title": E12}
    job_id = stored(instruct=E12, eval_crit=E12, sources=[source], metadata={"a<b": E12}, stop={"plateau_patience": 0})
    evaluation = queries.list_iterations(services, job_id)[0].evaluation
    assert evaluation
    ratings.rate(services, job_id, 1, RateEvaluation(verdict="agree", note=E12), "<b>me</b>")
    call_id = queries.list_calls(services, job_id)[0].id
    for path in (*TABS, f"/calls/{call_id}"):
        page = quiet.go(f"/jobs/{job_id}{path}")
        assert quiet.status == 200, path
        expect(page.get_by_role("heading", level=1)).to_contain_text("<script>alert(2)</script>")
        expect(page.locator("body")).to_contain_text(SHOWN[:20], use_inner_text=True)
        check_harmless(page)
        expect(page).to_have_title(re.compile("<img src=x onerror="))
    page = quiet.go(f"/jobs/{job_id}")
    expect(page.locator("header.job .banner.bad")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator(".foreign")).to_have_attribute("dir", "auto")
    expect(page.locator(".foreign")).to_contain_text(SHOWN)
    expect(page.locator("#source-1")).to_have_text(re.compile("^<img"), use_inner_text=True)
    page = quiet.go(f"/jobs/{job_id}/iterations")
    expect(page.locator(".said").first).to_contain_text(SHOWN)
    expect(page.locator("#iteration-1 li").first).to_contain_text(SHOWN)
    page = quiet.go("/ratings?blind=1")
    check_harmless(page)
    page = quiet.go("/ratings")
    expect(page.locator(".said").last).to_contain_text(SHOWN)
    check_harmless(page)
    assert quiet.requests
    assert not [url for url in quiet.requests if "evil.test" in url or url.endswith("/v1/jobs")]


def test_e12_the_policy_lets_no_script_run_but_ours(api: ApiServer, stored: Stored):
    for path in ("/iterations", ""):
        policy = api.client(headers=BROWSER).get(f"/jobs/{stored()}{path}").headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy


def test_e16_no_name_breaks_a_download(api: ApiServer, stored: Stored):
    client = api.client()
    for instruct, (plain, whole) in E16.items():
        headers = client.get(f"/jobs/{stored(instruct=instruct)}/answer.txt?download=1").headers
        told = headers["content-disposition"]
        assert told.startswith(f'attachment; filename="{plain}'), told
        assert quote(whole, safe="") in told
        assert "x-evil" not in headers


def test_a_line_of_5_mb_freezes_nothing(api: ApiServer, services: Services, stored: Stored, model_server: ModelServer):
    model_server.script(evaluate=[0.1, 0.9])
    job_id = stored()
    with services.database.write() as connection:
        for number, answer in ((1, LINE), (2, "v" + LINE)):
            of_number = iterations.update().where(iterations.c.job_id == job_id, iterations.c.number == number)
            connection.execute(of_number.values(answer=answer))
        of_job = connection.execute(select(jobs.c.result).where(jobs.c.id == job_id)).scalar_one()
        connection.execute(
            jobs.update().where(jobs.c.id == job_id).values(result={**of_job, "final_answer": "v" + LINE})
        )
    client = api.client(headers=BROWSER, timeout=patient(30))
    for path in (*(f"/jobs/{job_id}{tab}" for tab in TABS), "/ratings"):
        response = client.get(path)
        assert response.status_code == 200, path
        assert len(response.text) < 300_000, path
    page = Reader.of(api).go(f"/jobs/{job_id}")
    assert "This is the beginning of 5,000,001 characters." in page.text
    assert page.link("Show all").get("href") == f"/jobs/{job_id}/answer.txt"
    assert client.get(f"/jobs/{job_id}/answer.txt").text == "v" + LINE


def test_marks_are_links_wherever_they_stand_and_nothing_else_is():
    text = '**Bold.**[Source 1] `[Source 2]` [x](http://a.test "t [Source 3]") [Source 1, 2]'
    text += " &#x2e4a;1&#x2e4c; \u2e4a2\u2e4c"

    def citation(mark: str, number: int) -> dict[str, int]:
        start = text.index(mark)
        return {"start_pos": start, "end_pos": start + len(mark), "source_number": number}

    marks = markers_of(
        [
            citation("[Source 1]", 1),
            citation("[Source 2]", 2),
            citation("[Source 3]", 3),
            citation("[Source 1, 2]", 1),
            citation("[Source 1, 2]", 2),
        ],
        len(text),
    )
    html = render_markdown(text, marks)
    assert '<strong>Bold.</strong><a class="cite" id="cite-1" href="#source-1">[Source 1]</a>' in html
    assert '<code><a class="cite" id="cite-2" href="#source-2">[Source 2]</a></code>' in html
    assert 'title="t [Source 3]"' in html
    assert '[Source 1, 2]</a> <a class="cite" href="#source-2">2</a>' in html
    assert html.count("<a ") == html.count("</a>") == 5
    assert "\u2e4a" not in html
    plain = link_plain("<b> [Source 1]\u202e", markers_of([{"start_pos": 4, "end_pos": 14, "source_number": 1}], 99))
    assert plain == '&lt;b&gt; <a class="cite" id="cite-1" href="#source-1">[Source 1]</a>\\u202e'
