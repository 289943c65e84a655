"""The scripted server itself: what other tests rely on."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import ReplySchema
from redraft.providers.shared.transport import CALLS_LOOP
from tests.model_server import ModelServer, Reply
from tests.providers.conftest import VERDICT, Ask
from tests.support.waiting import patient, wait_until

ROOT = Path(__file__).parents[2]


def control(url: str, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data=data, method=method)
    with urllib.request.urlopen(request, timeout=patient(10)) as response:
        return json.load(response)


def test_unscripted_it_drafts_and_accepts(ask: Ask, dialect: str):
    assert [ask(dialect).text for _ in range(2)] == ["draft 1", "draft 2"]
    assert json.loads(ask(dialect, reply_schema=VERDICT).text)["score"] == 0.9


def test_cases_are_counted_apart(server: ModelServer, ask: Ask, dialect: str):
    server.script(generate=["one", "two"], evaluate=[0.4, 0.9])
    for case in ("a", "b"):
        got = [ask(dialect, f"[[case:{case}]] x").text for _ in range(3)]
        scores = [json.loads(ask(dialect, f"[[case:{case}]]", reply_schema=VERDICT).text) for _ in range(3)]
        assert got == ["one", "two", "two"]
        assert [verdict["score"] for verdict in scores] == [0.4, 0.9, 0.9]
    assert len(server.requests("generate", "a")) == 3


def test_a_case_has_its_own_script(server: ModelServer, ask: Ask, dialect: str):
    server.script(generate=["for all"])
    server.script(generate=["for a"], case="a")
    assert ask(dialect, "[[case:a]]").text == "for a"
    assert ask(dialect, "[[case:b]]").text == "for all"


def test_verdicts_and_functions_answer_too(server: ModelServer, ask: Ask, dialect: str):
    server.script(evaluate=[{"score": 0.3}, {"score": 1, "issues": []}, "no json"])
    texts = [ask(dialect, reply_schema=VERDICT).text for _ in range(3)]
    assert [json.loads(text) for text in texts[:2]] == [{"score": 0.3}, {"score": 1, "issues": []}]
    assert texts[2] == "no json"
    server.respond(lambda asked: Reply(text=f"{asked.role} {asked.model}") if asked.case == "f" else None)
    assert ask(dialect, "[[case:f]]").text == "generate test-model"


def test_an_answers_own_schema_is_no_verdict(server: ModelServer, ask: Ask, dialect: str):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    ask(dialect, reply_schema=ReplySchema("answer", schema))
    assert server.requests()[0].role == "generate"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"surprise": 1}, "surprise"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "developer", "content": "x"}]}, "developer"),
        ({"temperature": 9}, "temperature"),
    ],
)
def test_it_refuses_what_the_real_ones_refuse(
    catalog: ProviderCatalog, dialect: str, change: dict[str, Any], told: str
):
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 5, **change}
    with pytest.raises(ProviderError, match=told) as caught:
        CALLS_LOOP.run(catalog.get(ModelRef(dialect, "m")).send(body, timeout_s=5))
    assert caught.value.http_status == 400


def test_loose_schemas_and_blank_blocks_are_refused(catalog: ProviderCatalog):
    loose = {"type": "object", "properties": {"a": {"type": "number", "minimum": 0}}}
    body: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
    wanted = {"format": {"type": "json_schema", "schema": loose}}
    with pytest.raises(ProviderError, match="Invalid schema"):
        CALLS_LOOP.run(catalog.get(ModelRef("anthropic", "m")).send({**body, "output_config": wanted}, timeout_s=5))
    blank = {**body, "messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}
    with pytest.raises(ProviderError, match="non-empty"):
        CALLS_LOOP.run(catalog.get(ModelRef("anthropic", "m")).send(blank, timeout_s=5))


def test_the_log_tells_who_asked_and_hides_keys(server: ModelServer, ask: Ask, dialect: str):
    ask(dialect, "[[case:z]]")
    entry = wait_until(lambda: [e for e in server.requests() if e.finished_at])[0]
    assert (entry.role, entry.dialect, entry.case, entry.status, entry.answered) == (
        "generate",
        dialect,
        "z",
        200,
        True,
    )
    assert "Secret" not in json.dumps(entry.headers)
    assert server.log.max_in_flight == {"test-model": 1}


def test_a_client_that_leaves_is_seen(server: ModelServer, ask: Ask, dialect: str):
    server.script(generate=[Reply(text="late", latency_s=30)])
    with pytest.raises(ProviderError):
        ask(dialect, timeout_s=0.2)
    entry = wait_until(lambda: [e for e in server.requests() if e.finished_at])[0]
    assert not entry.answered


def test_another_process_can_run_script_and_read_it():
    command = [sys.executable, "-m", "tests.model_server", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        script = {"rules": [{"replies": ["hi", {"status": 503, "raw": {}}], "role": "generate"}], "scores": [0.1]}
        control(url, "PUT", "/_script", script)
        with_key = {"authorization": "Bearer k", "content-type": "application/json"}
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()
        request = urllib.request.Request(f"{url}/v1/chat/completions", data=body, headers=with_key)
        with urllib.request.urlopen(request, timeout=patient(10)) as response:
            assert json.load(response)["choices"][0]["message"]["content"] == "hi"
        log = control(url, "GET", "/_log")
        assert (log["total"], log["calls"][0]["headers"]["authorization"]) == (1, "[redacted]")
        assert log["max_in_flight"] == {"m": 1}
        control(url, "DELETE", "/_log")
        assert control(url, "GET", "/_log")["calls"] == []
        process.terminate()
        assert process.wait(timeout=patient(10)) == 0
