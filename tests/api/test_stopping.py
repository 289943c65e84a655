import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from api.intervals import Intervals
from api.notifications.jobs import Notifications
from redraft.operations.services import Services
from redraft.setting_values import redis_url
from tests.support.api_server import api_process
from tests.support.event_stream import follow
from tests.support.forks import Fork
from tests.support.waiting import patient


@pytest.fixture
def server_process(services: Services, tmp_path: Path) -> Iterator[tuple[Fork, str]]:
    with api_process(services.settings, tmp_path / "api.log") as started:
        yield started


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_signal_ends_the_server_in_spite_of_open_streams(
    server_process: tuple[Fork, str], submit_job: Callable[..., str], tmp_path: Path
):
    process, url = server_process
    with httpx2.Client(base_url=url, timeout=patient(10)) as client, follow(client, submit_job()) as stream:
        frames = stream.frames()
        assert next(frame for frame in frames if frame.type).seq == 1
        stopped_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        told = list(frames)
        assert "reconnect with Last-Event-ID" in (told[-1].comment or "")
        assert not any(frame.type for frame in told)
    process.wait(timeout=patient(30))
    assert time.monotonic() - stopped_at < patient(5)
    assert "Traceback" not in (tmp_path / "api.log").read_text()
    assert '"event": "request"' in (tmp_path / "api.log").read_text()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_listening_ends_wherever_the_connection_to_the_broker_stands(services: Services):
    url = redis_url(services.settings.effective_broker_url)

    async def listen_for(turns: int) -> None:
        async with Notifications(url, Intervals()).listening():
            for _ in range(turns):
                await asyncio.sleep(0)

    async def listen() -> None:
        async with asyncio.timeout(patient(30)):
            for turns in range(40):
                await listen_for(turns)

    asyncio.run(listen())
