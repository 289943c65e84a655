"""Connections of the event loop: reused, unbounded in number, and none left open."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import ChatReply
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import ModelServer
from tests.providers.conftest import chat_for
from tests.support.waiting import patient, wait_until

ROOT = Path(__file__).parents[3]


def in_threads(count: int, work) -> list:
    """Run `work` in that many threads that all live at once."""
    barrier = threading.Barrier(count)

    def meet_and_work(_: int):
        barrier.wait(timeout=patient(10))
        return work()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(meet_and_work, range(count)))


def test_connections_are_reused_and_none_is_left_after_close(server: ModelServer, settings: Settings, dialect: str):
    catalog = ProviderCatalog(settings)
    made = catalog.get(ModelRef(dialect, "m"))
    body = made.wire_body(chat_for(dialect))
    server.script(generate=["ok"], latency_s=0.02)

    def call_often() -> None:
        for _ in range(5):
            assert CALLS_LOOP.run(made.send(body, timeout_s=10)).text == "ok"

    in_threads(40, call_often)
    assert len(server.requests()) == 200
    assert server.open_connections <= 40
    catalog.close()
    wait_until(lambda: server.open_connections == 0, what="all connections closed")


def test_more_calls_are_in_flight_than_clients_allow_by_default(
    server: ModelServer, catalog: ProviderCatalog, dialect: str
):
    made = catalog.get(ModelRef(dialect, "m"))
    body = made.wire_body(chat_for(dialect))
    server.script(generate=[{"text": "ok", "latency_s": 1}])

    async def call_all() -> list[ChatReply]:
        return await asyncio.gather(*(made.send(body, timeout_s=patient(30)) for _ in range(150)))

    calls = CALLS_LOOP.submit(call_all())
    wait_until(lambda: server.open_connections == 150, what="150 open connections")
    assert {reply.text for reply in calls.result()} == {"ok"}


def test_a_canceled_call_closes_its_connection(server: ModelServer, catalog: ProviderCatalog, dialect: str):
    made = catalog.get(ModelRef(dialect, "m"))
    server.script(generate=[{"fault": "hang"}])
    call = CALLS_LOOP.submit(made.send(made.wire_body(chat_for(dialect)), timeout_s=patient(30)))
    wait_until(lambda: server.open_connections == 1, what="the call's connection")
    call.cancel()
    wait_until(lambda: server.open_connections == 0, what="no connection")


def test_a_connection_whose_call_failed_does_not_leak(server: ModelServer, settings: Settings, dialect: str):
    catalog = ProviderCatalog(settings)
    made = catalog.get(ModelRef(dialect, "m"))
    body = made.wire_body(chat_for(dialect))
    server.script(generate=[{"fault": "cut_body", "text": "x"}] * 5 + [{"fault": "hang"}] * 2 + ["ok"])
    for _ in range(7):
        with pytest.raises(Exception, match="whole"):
            CALLS_LOOP.run(made.send(body, timeout_s=0.3))
    assert CALLS_LOOP.run(made.send(body, timeout_s=5)).text == "ok"
    wait_until(lambda: server.open_connections == 1, what="one connection left")
    catalog.close()


def test_a_closed_catalog_can_be_used_again(settings: Settings, dialect: str):
    catalog = ProviderCatalog(settings)
    for _ in range(2):
        made = catalog.get(ModelRef(dialect, "m"))
        CALLS_LOOP.run(made.send(made.wire_body(chat_for(dialect)), timeout_s=5))
        catalog.close()


def test_racing_threads_get_one_provider(catalog: ProviderCatalog, dialect: str):
    assert len(set(map(id, in_threads(16, lambda: catalog.get(ModelRef(dialect, "m")))))) == 1


def test_importing_the_providers_loads_no_sdk():
    code = (
        "import sys, redraft.providers.catalog, redraft.providers.openai.provider,"
        " redraft.providers.anthropic.provider, redraft.providers.local.provider;"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'aiohttp', 'genai_prices', 'xllamacpp'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=patient(60)
    )
    assert done.stdout.strip() == "[]"
