import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.embedded.folders import Folder, submit, wait_ended
from tests.model_server import ModelServer, Reply
from tests.support.commands import Command
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

Start = Callable[..., Command]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 0),
        # With nothing in flight: the test of two on two folders
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.long),
        # With no stream open: the test of two on two folders
        pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.long),
        # Nobody handles it, so it is another SIGKILL
        pytest.param(signal.SIGHUP, -signal.SIGHUP, marks=pytest.mark.long),
    ],
)
def test_it_does_a_job_and_leaves_no_process_whatever_ends_it(
    folder: Folder, command: Start, model_server: ModelServer, number: int, code: int
):
    """With a call in flight that never ends, and a stream open; what it wrote meanwhile only its owner reads."""
    folder.path.chmod(0o755)
    model_server.script(generate=["Hello."], evaluate=[0.9])
    model_server.script(generate=[Reply(fault="hang")], case="hang")
    server = command(folder, "serve", is_fork=False)
    with server.client() as client:
        job = wait_ended(client, submit(client))
        assert job["status"] == "succeeded", job
        assert job["result"]["final_answer"] == "Hello."
        assert len(folder.processes()) == 5
        assert not [each for each in folder.path.rglob("*") if each.is_file() and each.stat().st_mode & 0o077]
        hanging = _submit_hanging(client, model_server)
        with client.stream("GET", f"{hanging}/events", headers={"accept": "text/event-stream"}) as stream:
            assert next(stream.iter_lines())
            assert server.end(number) == code
    folder.wait_empty()


def _submit_hanging(client: httpx2.Client, model_server: ModelServer) -> str:
    job = submit(client, instruct="[[case:hang]] Say hello.")
    wait_until(lambda: model_server.requests(case="hang"), within_s=30, what="the hanging call")
    return job


def test_a_second_one_on_the_same_folder_is_refused_and_told_where_the_first_is(
    folder: Folder, command: Start, model_server: ModelServer, tmp_path: Path
):
    """Another command may work beside it, and says whose worker does the work; a second signal waits for no call."""
    first = command(folder, "serve", shutdown_grace_s=60)
    url = first.wait_says(r"ready at (http://\S+)")[1]
    second = command(folder, "serve")
    assert second.wait() == 1
    assert f"at {url} (pid {first.pid})" in second.stderr
    assert json.loads((folder.path / "serve.json").read_text()) == {"url": url, "pid": first.pid}
    with first.client() as client:
        model_server.script(generate=["Hello."], evaluate=[0.9])
        model_server.script(generate=[Reply(fault="hang")], case="hang")
        rows = tmp_path / "rows.jsonl"
        rows.write_text('{"instruct": "Say hello."}\n')
        beside = command(folder, "eval", str(rows), "--crit", "A greeting.")
        assert beside.wait() == 0
        assert "The worker of a running `redraft serve`, or of another command" in beside.stderr
        _submit_hanging(client, model_server)
    first.process.send_signal(signal.SIGTERM)
    first.wait_says("A second Ctrl-C")
    assert first.end(signal.SIGINT) == 130
    folder.wait_empty()


def test_two_on_two_folders_do_not_meet(make_folder: Callable[..., Folder], command: Start, model_server: ModelServer):
    model_server.script(generate=["Hello."], evaluate=[0.9])
    model_server.script(generate=[Reply(fault="hang")], case="hang")
    one, other = make_folder(), make_folder("with a space and an ä")
    servers = command(one, "serve"), command(other, "serve")
    with servers[0].client() as first, servers[1].client() as second:
        job = submit(second)
        assert wait_ended(second, job)["status"] == "succeeded"
        assert first.get(job).status_code == 404
        _submit_hanging(first, model_server)
        servers[0].end(signal.SIGKILL)
        one.wait_empty()
        assert wait_ended(second, submit(second))["status"] == "succeeded"
    assert servers[1].end(signal.SIGINT) == 130
    other.wait_empty()


def test_a_port_in_use_is_refused_with_a_free_one(folder: Folder, command: Start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = command(folder, "serve", "--port", str(port))
        assert server.wait() == 1
    assert f"Port {port} of 127.0.0.1 is in use" in server.stderr
    assert "is free: redraft serve --port" in server.stderr


def test_an_open_door_is_refused(folder: Folder, command: Start):
    server = command(folder, "serve", "--host", "0.0.0.0", require_auth=False)
    assert server.wait() == 2
    assert "redraft keys create" in server.stderr


def test_a_host_that_is_none_is_refused(folder: Folder, command: Start):
    server = command(folder, "serve", "--host", "203.0.113.7")
    assert server.wait() == 2
    assert "Cannot listen" in server.stderr


def test_with_a_broker_outside_it_is_the_api_alone_and_off_loopback_it_says_how_to_make_a_key(
    folder: Folder, command: Start, valkey: ValkeyServer
):
    server = command(folder, "serve", "--host", "0.0.0.0", broker_url=valkey.url)
    with server.client() as client:
        server.wait_says("redraft keys create NAME")
        assert client.get("/livez").status_code == 200
        assert client.get("/v1/jobs").status_code == 401
        assert not folder.processes()
    assert server.end(signal.SIGTERM) == 0


def test_a_signal_while_it_starts_ends_it(folder: Folder, command: Start):
    server = command(folder, "serve")
    wait_until((folder.path / "embedded.lock").exists, within_s=30, what="the start")
    assert server.end(signal.SIGTERM) == 0
    folder.wait_empty()
