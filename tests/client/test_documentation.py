"""The code in README.md and in client/README.md runs as it is written there."""

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from api.pages.parts.snippets import snippets_of
from tests.client.test_webhooks import signed
from tests.journeys.desks import TASK
from tests.journeys.offices import Office
from tests.support.receiver import SECRET

ROOT = Path(__file__).parents[2]


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("page", "server"),
    [("README.md", '"http://127.0.0.1:8000"'), ("client/README.md", '"https://redraft.example.com", api_key="rd_…"')],
)
def test_an_answer_in_four_lines(page: str, server: str, office: Office, url: str, capsys: pytest.CaptureFixture[str]):
    office.model_server.script(generate=["Clocks of several processes."], evaluate=[0.9])
    [code, *_] = snippets(page)
    assert server in code
    assert len([line for line in code.splitlines() if line]) == 4
    exec(code.replace(server, repr(url)), {})
    assert capsys.readouterr().out.endswith("Clocks of several processes. True 0.9 accepted\n")


def test_the_snippet_of_the_pages(office: Office, url: str, capsys: pytest.CaptureFixture[str]):
    office.model_server.script(generate=["Paris"], evaluate=[0.9])
    [_, _, snippet] = snippets_of({**TASK, "rubric": [{"id": "city", "text": "Names it."}]}, url, with_key=True)
    exec(snippet.text, {})
    assert capsys.readouterr().out.endswith("Paris\n")


def test_an_app_that_receives_webhooks(capsys: pytest.CaptureFixture[str]):
    [_, code] = snippets("client/README.md")
    names: dict[str, Any] = {}
    exec(code.replace("whsec_…", SECRET), names)
    event = {"message": "m", "at": "2026-01-01T00:00:00Z", "status": "succeeded", "result": {"final_answer": "Bern"}}
    data = {"job_id": "job_1", "url": "/v1/jobs/job_1", "metadata": {}, "seq": 9, "truncated": False, "event": event}
    body = httpx2.Request("POST", "http://x", json={"type": "job.done", "timestamp": "…", "data": data}).content

    async def deliver(content: bytes) -> int:
        transport = httpx2.ASGITransport(app=names["app"])
        async with httpx2.AsyncClient(transport=transport, base_url="http://app") as sender:
            return (await sender.post("/hooks/redraft", content=content, headers=signed(body))).status_code

    assert asyncio.run(deliver(body)) == 200
    assert asyncio.run(deliver(body + b" ")) == 401
    assert "job_1 succeeded Bern\n" in capsys.readouterr().out
