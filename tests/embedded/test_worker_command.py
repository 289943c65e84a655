import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from api.app import create_app
from redraft.messages import BULK_QUEUE, INTERACTIVE_QUEUE
from redraft.settings import Settings
from tests.embedded.folders import Folder, submit, wait_ended
from tests.model_server import ModelServer
from tests.support.api_server import ApiServer
from tests.support.commands import Command
from tests.support.databases.sqlite import create_sqlite
from tests.support.failing_broker import FailingBroker
from tests.support.shells import Shell
from tests.support.task_events import TaskEvents
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

Start = Callable[..., Command]


@pytest.fixture
def client(folder: Folder, make_embedded: Callable[..., Settings], valkey: ValkeyServer) -> Iterator[httpx2.Client]:
    """A client of an API in this process, on the folder's database and a broker outside."""
    create_sqlite(folder.path / "redraft.db")
    with ApiServer(create_app(make_embedded(folder, broker_url=valkey.url))) as server:
        yield server.client()


def test_it_works_off_what_is_sent_ends_at_no_malformed_message_and_needs_no_default_model(
    folder: Folder, command: Start, client: httpx2.Client, model_server: ModelServer, valkey: ValkeyServer
):
    model_server.script(generate=["Hello."], evaluate=[0.9])
    malformed = [b"\xff\x00", b"garbage", b"[]", b"5", b"null", b"{}", b'{"body": 1, "properties": {}}', b"[" * 100_000]
    malformed.append(b'{"body": "!", "properties": {"delivery_tag": [], "delivery_info": 1}, "headers": 7}')
    malformed.append(b'{"body": "!", "content-type": "application/json", "properties": {"delivery_tag": "a"}}')
    with valkey.client() as broker:
        for number, each in enumerate(malformed):
            broker.hset("unacked", str(number), each)
            broker.zadd("unacked_index", {str(number): 0})
    options = ("--concurrency", "2", "-E")
    worker = command(folder, "worker", *options, is_fork=False, model="local:none", broker_url=valkey.url)
    with valkey.client() as broker, TaskEvents(valkey) as seen:
        for each in malformed:
            broker.lpush(INTERACTIVE_QUEUE, each)
            broker.lpush(BULK_QUEUE, each)
        wait_until(lambda: not broker.llen(INTERACTIVE_QUEUE) + broker.llen(BULK_QUEUE), what="empty queues")
        job = wait_ended(client, submit(client))
        assert job["status"] == "succeeded"
        assert seen.kinds_of(f"{job['id']}.2")[-1] == "task-succeeded"
        assert worker.process.poll() is None
        assert not broker.hkeys("unacked")
    assert client.get("/readyz").status_code == 200
    assert "malformed_message_dropped" in worker.stderr
    assert worker.end(signal.SIGTERM) == 0


def test_it_does_not_start_on_an_outdated_schema(folder: Folder, command: Start, valkey: ValkeyServer, tmp_path: Path):
    worker = command(folder, "worker", broker_url=valkey.url, database_url=f"sqlite:///{tmp_path / 'empty.db'}")
    assert worker.wait() == 1
    assert "redraft db upgrade" in worker.stderr


def test_without_a_broker_it_names_serve(folder: Folder, command: Start):
    worker = command(folder, "worker")
    assert worker.wait() == 75
    assert "`redraft serve`" in worker.stderr
    assert "REDRAFT_BROKER_URL" in worker.stderr


def test_a_broker_that_is_away_is_waited_for(folder: Folder, command: Start, tmp_path: Path):
    worker = command(folder, "worker", broker_url=f"redis+socket://{tmp_path / 'none.sock'}")
    worker.wait_says("tries to connect again")
    worker.wait_says("Cannot connect")
    worker.end(signal.SIGTERM)
    folder.wait_empty()


def test_a_broker_that_refuses_for_good_ends_it_with_what_to_change(
    folder: Folder, command: Start, valkey: ValkeyServer
):
    with FailingBroker() as broker, broker.answering("NOAUTH Authentication required."):
        broker.upstream = valkey.socket
        worker = command(folder, "worker", broker_url=broker.url)
        assert worker.wait() == 75
    assert "Authentication required. Check the user and the password in REDRAFT_BROKER_URL" in worker.stderr


def test_what_no_worker_could_use_is_refused_by_each_command_in_the_same_words(folder: Folder):
    wrong = {
        "REDRAFT_BROKER_URL": ("localhost:6379", "did you mean redis://localhost:6379?"),
        "REDRAFT_WEBHOOK_ALLOW_PRIVATE": ("true", "which names no host"),
        "REDRAFT_WEBHOOK_SECRET": ("whsec_short", "must be whsec_ and the base64 of 24 to 64 random bytes"),
    }
    values = {name: value for name, (value, _) in wrong.items()}
    shell = Shell({**values, "REDRAFT_DATA_DIR": str(folder.path)})
    for name in ("worker", "serve", "doctor"):
        refused = shell.start(name)
        assert refused.wait() == 2
        for setting, (_, words) in wrong.items():
            assert re.search(rf"{setting}: .*{re.escape(words)}", refused.stderr)
