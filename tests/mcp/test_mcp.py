"""The tools of the MCP server, used by the client of the SDK: over HTTP at the API, and as a process on stdio."""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from api.app import create_app
from redraft.domain.admin.scopes import Scope
from redraft.operations.admin import keys
from redraft.operations.services import Services
from redraft.settings import Settings
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.processes import WorkerProcess, environment_of
from tests.support.shells import Shell
from tests.support.waiting import patient, wait_until

ASKED = {"instruct": "Name the capital of France.", "eval_crit": "It is Paris."}


@pytest.fixture
def database_url(make_database_url: Callable[[str], str]) -> str:
    return make_database_url("sqlite")


@pytest.fixture
def open_api(make_settings: Callable[..., Settings]) -> Iterator[Callable[..., ApiServer]]:
    opened: list[ApiServer] = []

    def start(**changes: Any) -> ApiServer:
        opened.append(ApiServer(create_app(make_settings(**changes))).start())
        return opened[-1]

    yield start
    for server in opened:
        server.close()


def over_http(api: ApiServer, work: Callable[[Client], Awaitable[Any]], **headers: str) -> Any:
    async def run() -> Any:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=patient(60)) as http,
            Client(streamable_http_client(f"{api.url}/mcp", http_client=http)) as client,
        ):
            return await work(client)

    return asyncio.run(run())


def on_stdio(environment: dict[str, str], folder: Path, work: Callable[[Client], Awaitable[Any]]) -> Any:
    program = "from redraft.cli.main import run; run()"
    server = StdioServerParameters(command=sys.executable, args=["-c", program, "mcp"], env=environment, cwd=folder)

    async def run() -> Any:
        async with Client(stdio_client(server)) as client:
            return await work(client)

    return asyncio.run(run())


async def answered(client: Client, told: list[tuple[float, str | None]]) -> dict[str, Any]:
    """Submit a job and wait for it; `told` receives the progress."""

    async def note(progress: float, _total: float | None, message: str | None) -> None:
        told.append((progress, message))

    submitted = await client.call_tool("generate_answer", {**ASKED, "iter_max": 2})
    assert submitted.is_error is False, submitted.content
    assert submitted.structured_content["status"] in {"queued", "running"}
    job_id = submitted.structured_content["id"]
    waited = await client.call_tool("wait_for_job", {"job_id": job_id}, progress_callback=note)
    assert waited.is_error is False, waited.content
    assert json.loads(waited.content[0].text) == waited.structured_content
    return waited.structured_content


def assert_accepted(job: dict[str, Any], told: list[tuple[float, str | None]]) -> None:
    assert (job["status"], job["stop_reason"]) == ("succeeded", "accepted")
    assert job["result"]["final_answer"] == "Paris"
    assert job["result"]["success"] is True
    assert "request" not in job
    numbers = [number for number, _ in told]
    assert numbers == sorted(set(numbers)), "progress must increase"
    messages = " ".join(message or "" for _, message in told)
    assert "0.4" in messages
    assert len(told) >= 5


def test_over_http_a_tool_submits_and_another_waits_with_progress(
    open_api: Callable[..., ApiServer], services: Services, start_worker: Callable[..., WorkerProcess],
    model_server: ModelServer,
):  # fmt: skip
    model_server.script(generate=["Lyon", "Paris"], evaluate=[0.4, 0.9])
    api = open_api()
    start_worker(services)
    told: list[tuple[float, str | None]] = []

    async def work(client: Client) -> None:
        listed = await client.list_tools()
        tools = {tool.name: tool for tool in listed.tools}
        assert {"generate_answer", "wait_for_job", "get_job", "continue_job", "evaluate_answer"} <= set(tools)
        assert tools["generate_answer"].input_schema["required"] == ["instruct"]
        assert "final_answer" in json.dumps(tools["wait_for_job"].output_schema)

        job = await answered(client, told)
        assert_accepted(job, told)

        read = await client.call_tool("get_job", {"job_id": job["id"], "include_iterations": True})
        scores = [each["evaluation"]["score"] for each in read.structured_content["iterations"]]
        assert scores == [0.4, 0.9]

        model_server.script(generate=["Paris, on the Seine"], evaluate=[0.95])
        more = await client.call_tool(
            "continue_job", {"job_id": job["id"], "guidance": "Name the river.", "iter_max": 1}
        )
        assert more.structured_content["continuations"] == 1
        again = await client.call_tool("wait_for_job", {"job_id": job["id"]})
        assert again.structured_content["result"]["final_answer"] == "Paris, on the Seine"

        model_server.script(evaluate=[0.2])
        given = await client.call_tool("evaluate_answer", {**ASKED, "answer": "Lyon"})
        verdict = await client.call_tool("wait_for_job", {"job_id": given.structured_content["id"]})
        assert verdict.structured_content["result"]["final_score"] == 0.2

        draft = await client.call_tool("refine_question", {"question": "capital of switzerland?"})
        assert draft.structured_content["instruct"] == "Name the capital of Switzerland."

    over_http(api, work)


def test_errors_are_tool_errors_with_clear_texts(open_api: Callable[..., ApiServer], services: Services):
    async def work(client: Client) -> None:
        async def error(name: str, arguments: dict[str, Any]) -> str:
            result = await client.call_tool(name, arguments)
            assert result.is_error is True
            assert result.structured_content is None
            return result.content[0].text

        missing = await error("generate_answer", {"eval_crit": "Right."})
        assert "/instruct: This is required" in missing
        assert "(invalid_request)" in missing
        assert "/iter_max: must be at most 10" in await error("generate_answer", {**ASKED, "iter_max": 11})
        assert "no_such" in await error("generate_answer", {**ASKED, "model": "no_such:model"})
        assert "There is no job 'job_none'. (not_found)" in await error("get_job", {"job_id": "job_none"})
        assert "/job_id: is not the id of a job" in await error("wait_for_job", {"job_id": "../keys"})
        assert "/timeout_s: must be at most 600" in await error("wait_for_job", {"job_id": "job_1", "timeout_s": 601})
        assert "/job_id" in await error("continue_job", {"iter_max": 1})
        assert "Unknown field" in await error("get_job", {"job_id": "job_1", "deep": True})

        job = await client.call_tool("generate_answer", ASKED)
        job_id = job.structured_content["id"]
        waiting = await client.call_tool("wait_for_job", {"job_id": job_id, "timeout_s": 0})
        assert waiting.structured_content["status"] == "queued"
        assert "(job_not_terminal)" in await error("continue_job", {"job_id": job_id})
        canceled = await client.call_tool("cancel_job", {"job_id": job_id})
        assert canceled.structured_content["status"] == "canceled"

        with pytest.raises(MCPError, match="no tool 'delete_everything'"):
            await client.call_tool("delete_everything", {})

    over_http(open_api(), work)


def test_over_http_a_key_and_its_scope_are_checked(open_api: Callable[..., ApiServer], services: Services):
    api = open_api(require_auth=True)
    _, reader = keys.create_key(services, "reader", [Scope.READ])
    _, scraper = keys.create_key(services, "scraper", [Scope.METRICS])
    http = api.client()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accepts = {"Accept": "application/json, text/event-stream"}
    assert http.post("/mcp", json=asked, headers=accepts).json()["code"] == "unauthenticated"
    refused = http.post("/mcp", json=asked, headers={**accepts, "Authorization": f"Bearer {scraper}"})
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")

    async def work(client: Client) -> None:
        assert (await client.list_tools()).tools
        written = await client.call_tool("generate_answer", ASKED)
        assert written.is_error is True
        assert "scope 'write'" in written.content[0].text
        assert "(not_found)" in (await client.call_tool("get_job", {"job_id": "job_none"})).content[0].text

    over_http(api, work, Authorization=f"Bearer {reader}")


def test_over_http_other_web_sites_are_refused(open_api: Callable[..., ApiServer]):
    http = open_api().client()
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    # The attack by DNS rebinding, and a page of another site
    assert http.post("/mcp", json=asked, headers={"Host": "evil.example"}).json()["code"] == "host_not_allowed"
    assert (
        http.post("/mcp", json=asked, headers={"Origin": "https://evil.example"}).json()["code"] == "cross_site_request"
    )


def test_without_the_extra_command_and_server_say_what_to_install(
    open_api: Callable[..., ApiServer], services: Services, monkeypatch: pytest.MonkeyPatch
):
    http = open_api().client()
    monkeypatch.setitem(sys.modules, "mcp", None)
    refused = http.post("/mcp", json={})
    assert (refused.status_code, refused.json()["code"]) == (404, "mcp_not_installed")
    assert "pip install 'redraft[mcp]'" in refused.json()["detail"]
    told = Shell.of(services).run("mcp")
    assert told.code == 2
    assert "pip install 'redraft[mcp]'" in told.err


def test_hosts_with_the_protocol_before_2026_are_served(open_api: Callable[..., ApiServer]):
    api = open_api(root_path="/redraft")

    async def run() -> None:
        async with streamable_http_client(f"{api.url}/redraft/mcp") as streams, ClientSession(*streams) as session:
            assert (await session.initialize()).protocol_version == "2025-11-25"
            result = await session.call_tool("get_job", {"job_id": "job_none"})
            assert result.is_error is True

    asyncio.run(run())


def test_a_job_belongs_to_the_trace_of_the_agent(open_api: Callable[..., ApiServer]):
    api = open_api()
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def work(client: Client) -> list[str]:
        by_header = await client.call_tool("generate_answer", ASKED)
        traceparent = f"00-{trace_id[::-1]}-00f067aa0ba902b7-01"
        by_meta = await client.call_tool("generate_answer", ASKED, meta={"traceparent": traceparent})
        wrong = await client.call_tool("generate_answer", ASKED, meta={"traceparent": "none\n"})
        return [each.structured_content["id"] for each in (by_header, by_meta, wrong)]

    job_ids = over_http(api, work, traceparent=f"00-{trace_id}-00f067aa0ba902b7-01")
    found = [api.client().get(f"/v1/jobs/{job_id}").json()["trace_id"] for job_id in job_ids]
    assert found == [trace_id, trace_id[::-1], trace_id]


def test_a_wait_ends_when_the_server_stops(
    open_api: Callable[..., ApiServer], services: Services, start_worker: Callable[..., WorkerProcess],
    model_server: ModelServer,
):  # fmt: skip
    model_server.script(generate=[Reply(text="Paris", is_held=True)])
    api = open_api()
    start_worker(services).wait_ready()

    async def work(client: Client) -> None:
        job_id = (await client.call_tool("generate_answer", ASKED)).structured_content["id"]
        stopping = asyncio.Event()

        async def note(_progress: float, _total: float | None, message: str | None) -> None:
            if not stopping.is_set():
                stopping.set()
                api.app.state.end_streams()

        waited = await client.call_tool("wait_for_job", {"job_id": job_id, "timeout_s": 600}, progress_callback=note)
        assert waited.structured_content["finished_at"] is None

    over_http(api, work)
    model_server.release()


def test_the_command_serves_no_server_elsewhere_over_http(services: Services):
    refused = Shell.of(services).run("--server", "http://127.0.0.1:9", "mcp", "--http")
    assert refused.code == 2
    assert "Use http://127.0.0.1:9/mcp" in refused.err


def test_the_command_also_serves_over_http(services: Services):
    command = Shell.of(services).start("mcp", "--http", REDRAFT_PORT="0")
    try:
        url = command.wait_says(r"ready at (http://\S+)")[1]

        async def run() -> int:
            async with Client(streamable_http_client(f"{url}/mcp")) as client:
                return len((await client.list_tools()).tools)

        assert asyncio.run(run()) == 7
        assert command.end(signal.SIGTERM) == 0
    finally:
        command.remove()


def test_on_stdio_the_command_brings_its_own_broker_and_worker(
    make_settings: Callable[..., Settings], model_server: ModelServer, tmp_path: Path
):
    model_server.script(generate=["Lyon", "Paris"], evaluate=[0.4, 0.9])
    environment = environment_of(make_settings(broker_url=""))
    told: list[tuple[float, str | None]] = []
    job = on_stdio(environment, tmp_path, lambda client: answered(client, told))
    assert_accepted(job, told)

    def left() -> list[Any]:
        found = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
        return [each for each in found if any(str(tmp_path) in word for word in each)]

    wait_until(lambda: not left(), within_s=20, what="the end of broker and worker")


def test_on_stdio_the_tools_can_use_a_server_elsewhere(
    open_api: Callable[..., ApiServer], make_settings: Callable[..., Settings], services: Services, tmp_path: Path
):
    api = open_api(require_auth=True)
    _, token = keys.create_key(services, "agent")
    environment = {**environment_of(make_settings()), "REDRAFT_SERVER": api.url, "REDRAFT_API_KEY": token}

    async def submit(client: Client) -> Any:
        return await client.call_tool("generate_answer", ASKED)

    async def submit_twice(client: Client) -> tuple[Any, Any]:
        job = (await submit(client)).structured_content
        found = api.client(headers={"Authorization": f"Bearer {token}"}).get(f"/v1/jobs/{job['id']}").json()
        api.close()
        return found, await submit(client)

    refused = on_stdio({**environment, "REDRAFT_API_KEY": ""}, tmp_path, submit)
    assert refused.is_error is True
    assert "(unauthenticated)" in refused.content[0].text

    found, unreachable = on_stdio(environment, tmp_path, submit_twice)
    assert found["status"] == "queued"
    assert "cannot be reached" in unreachable.content[0].text
