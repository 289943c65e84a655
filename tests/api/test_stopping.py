import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from redraft.operations.services import Services
from tests.support.event_stream import follow
from tests.support.forks import Fork
from tests.support.processes import environment_of
from tests.support.waiting import wait_until


@pytest.fixture
def server_process(services: Services, tmp_path: Path) -> Iterator[tuple[Fork, Path]]:
    """The API as it is started by hand."""
    log_file = tmp_path / "api.log"
    arguments = ("--factory", "api.app:create_app", "--port", "0")
    process = Fork("uvicorn", *arguments, environment=environment_of(services.settings), output=log_file)
    yield process, log_file
    process.kill()
    process.wait(timeout=10)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_signal_ends_the_server_in_spite_of_open_streams(
    server_process: tuple[Fork, Path], submit_job: Callable[..., str]
):
    process, log_file = server_process
    found = wait_until(lambda: re.search(r"running on (http://\S+:\d+)", log_file.read_text()), within_s=60)
    with httpx2.Client(base_url=found.group(1), timeout=10) as client, follow(client, submit_job()) as stream:
        frames = stream.frames()
        assert next(frame for frame in frames if frame.type).seq == 1
        stopped_at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        told = list(frames)
        assert "come back with Last-Event-ID" in (told[-1].comment or "")
        assert not any(frame.type for frame in told)
    process.wait(timeout=30)
    assert time.monotonic() - stopped_at < 20
    assert "Traceback" not in log_file.read_text()
    assert '"event": "request"' in log_file.read_text()
