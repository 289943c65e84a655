"""The calls and events of a job on its pages: what was sent, what came back, when, and after which wait."""

import re
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from api.pages.jobs.job_calls import Message, messages_of, reply_of, verdict_of
from redraft.operations.jobs import queries
from redraft.operations.services import Services
from tests.model_server import ModelServer
from tests.operations.rubrics import criterion, found
from tests.support.api_server import ApiServer

Stored = Callable[..., str]


@pytest.fixture
def client(api: ApiServer) -> httpx2.Client:
    return api.client(headers={"Accept": "text/html"})


def test_a_call_is_read_as_messages_and_its_verdict_as_a_table(
    client: httpx2.Client, services: Services, model_server: ModelServer, stored: Stored
):
    model_server.script(generate=["# Sky <b>\n\nIt is *blue*.", "It scatters light."], evaluate=[0.4, 0.9])
    job_id = stored(instruct="Why <i>blue</i>?")
    ids = [each.id for each in queries.list_calls(services, job_id)]
    base = f"/jobs/{job_id}/calls/"
    pages = [client.get(base + each).text for each in ids]
    assert "Why &lt;i&gt;blue&lt;/i&gt;?" in pages[0]
    assert re.search(r"<summary>system .*?</summary>.*<summary>user ", pages[0], re.DOTALL)
    assert f'href="{base}{ids[1]}" rel="next"' in pages[0]
    assert 'rel="prev"' not in pages[0]
    assert f'href="{base}{ids[0]}" rel="prev"' in pages[1]
    assert re.search(r'<th scope="row">score</th><td class="said">0.4</td>', pages[1])
    assert f'What changed since the prompt of <a href="{base}{ids[0]}">iteration 1</a>' in pages[2]
    assert "<ins>" in pages[2]
    iterations = client.get(f"/jobs/{job_id}/iterations").text
    assert re.search(r"<h4[^>]*>Sky &lt;b&gt;</h4>\n<p>It is <em>blue</em>.</p>", iterations)


def test_equal_answers_have_no_difference(client: httpx2.Client, model_server: ModelServer, stored: Stored):
    model_server.script(generate=["The same."], evaluate=[0.4])
    assert "No difference: the two answers are the same." in client.get(f"/jobs/{stored()}/iterations").text


def test_a_fault_is_absent_or_present(client: httpx2.Client, model_server: ModelServer, stored: Stored):
    model_server.script(evaluate=[found(long=True, rude=True, vague=False)])
    rubric = [criterion("long"), criterion("rude", weight=-1), criterion("vague", weight=-1)]
    text = client.get(f"/jobs/{stored(rubric=rubric, eval_crit=None, iter_max=1)}/iterations").text
    matrix = text.partition('id="matrix-title"')[2].partition("</table>")[0]
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in matrix.split("<tr>")[2:]]
    assert [row[-1] for row in rows] == ["met", "present", "absent"]


def test_each_wire_format_is_read_and_an_unknown_part_is_shown_as_json():
    assert messages_of({"system": [{"type": "text", "text": "S"}], "messages": [{"role": "user", "content": "U"}]}) == [
        Message("system", "S"),
        Message("user", "U"),
    ]
    assert messages_of({"instructions": "S", "input": "U"}) == [Message("system", "S"), Message("user", "U")]
    (odd,) = messages_of({"messages": [{"role": "user", "content": [{"type": "image", "url": "<x>"}]}]})
    assert '"url": "<x>"' in odd.text
    assert messages_of(None) == messages_of([1]) == []
    assert reply_of({"choices": [{"message": {"content": "R"}}]}) == "R"
    assert reply_of({"content": [{"type": "text", "text": "R"}]}) == "R"
    assert reply_of({"output": [{"type": "message", "content": [{"type": "output_text", "text": "R"}]}]}) == "R"
    assert reply_of(None) == ""
    assert verdict_of('Here: {"score": 0.5, "criteria": [{"id": "a", "met": true}]}') == [
        ("score", "0.5"),
        ("criteria 1 · id", "a"),
        ("criteria 1 · met", "True"),
    ]
    odd_replies: list[Any] = [{"choices": [{"message": None}]}, {"choices": [{}]}, {"choices": 3}, {"content": 7}, "R"]
    for odd_reply in odd_replies:
        assert isinstance(reply_of(odd_reply), str)
    assert [each.role for each in messages_of({"messages": 7})] == ["user"]
    nested: Any = "deep"
    for _ in range(5000):
        nested = [nested]
    assert reply_of({"content": nested}) == "…"
    assert verdict_of('{"a":' * 900 + "1" + "}" * 900) in ([], [(" · ".join("a" * 900), "1")])
    assert verdict_of("no JSON") == verdict_of("[" * 100_000) == []
