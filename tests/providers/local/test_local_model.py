"""The real bundled model: one server for all, started when needed, gone when nobody needs it."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.errors import ProviderError
from redraft.providers.catalog import DEFAULT_LOCAL, ProviderCatalog
from redraft.providers.local.process import server_environment
from redraft.providers.local.provider import missing_part
from redraft.providers.shared.protocol import Chat, ChatReply, Message, ReplySchema
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.support.forks import Fork
from tests.support.processes import clean_environment
from tests.support.waiting import patient, wait_until

GONE_WITHIN_S = 10.0
CALL_S = 120.0

pytestmark = pytest.mark.skipif(find_spec("xllamacpp") is None, reason="xllamacpp is not installed")


def catalog_of(folder: Path, **settings: Any) -> ProviderCatalog:
    return ProviderCatalog(Settings(data_dir=folder, local_context_tokens=1024, **settings))


def say(catalog: ProviderCatalog, text: str = "Say hi.", **rest: Any) -> ChatReply:
    timeout_s = rest.pop("timeout_s", CALL_S)
    rest = {"temperature": 0.0, "max_output_tokens": 200, **rest}
    made = catalog.get(DEFAULT_LOCAL)
    chat = Chat(DEFAULT_LOCAL, "Be brief.", (Message("user", text),), **rest)
    return CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=timeout_s))


def server_pid(folder: Path) -> int:
    return json.loads((folder / "local-model" / "server.json").read_text())["pid"]


def servers_of(folder: Path) -> list[int]:
    """All model servers of a data folder that are alive."""
    wanted = str(folder / "local-model")
    found: list[int] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if "redraft.providers.local.server" in line and wanted in line:
            found.append(process.pid)
    return found


def wait_until_gone(folder: Path) -> None:
    wait_until(lambda: not servers_of(folder), within_s=GONE_WITHIN_S, what="no model server left")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProviderCatalog, Path]]:
    folder = tmp_path_factory.mktemp("shared")
    catalog = catalog_of(folder)
    yield catalog, folder
    catalog.close()
    wait_until_gone(folder)


OpenCatalog = Callable[..., ProviderCatalog]


@pytest.fixture
def open_catalog(tmp_path: Path) -> Iterator[OpenCatalog]:
    """Catalogs on the test's folder, which are closed and leave no server behind."""
    opened: list[ProviderCatalog] = []

    def open_one(**settings: Any) -> ProviderCatalog:
        opened.append(catalog_of(tmp_path, **settings))
        return opened[-1]

    yield open_one
    for catalog in opened:
        catalog.close()
    wait_until_gone(tmp_path)


def start_user(folder: Path, output: Path) -> Fork:
    with output.open("wb") as out:
        return Fork("tests.providers.local.user", str(folder), environment=clean_environment(), out=out.fileno())


def wait_told(output: Path) -> str:
    """The first line of a user."""
    return wait_until(lambda: output.read_text().partition("\n")[0], within_s=60, what="what a user tells")


def test_it_answers_and_costs_nothing(shared: tuple[ProviderCatalog, Path]):
    catalog, folder = shared
    reply = say(catalog, "What is the capital of France?")
    assert "Paris" in reply.text
    assert reply.response["model"] == "SmolLM2-135M-Instruct.Q4_1"
    assert (reply.usage.input_tokens or 0) > 5
    assert catalog.price(DEFAULT_LOCAL, reply.usage) == 0
    assert (folder / "local-model" / "server.log").stat().st_size > 0
    assert (folder / "local-model" / "server.json").stat().st_mode & 0o077 == 0


def test_only_temperature_zero_asks_for_the_same_answer_each_time(shared: tuple[ProviderCatalog, Path]):
    made = shared[0].get(DEFAULT_LOCAL)
    bodies = {
        t: made.wire_body(Chat(DEFAULT_LOCAL, "", (Message("user", "x"),), temperature=t)) for t in (None, 0, 0.5)
    }
    assert [temperature for temperature, body in bodies.items() if "seed" in body] == [0]
    assert say(shared[0]).text == say(shared[0]).text


def test_it_streams_what_it_answers(shared: tuple[ProviderCatalog, Path]):
    catalog, _ = shared
    heard: list[str] = []
    made = catalog.get(DEFAULT_LOCAL)
    turns = (Message("user", "What is the capital of France?"),)
    chat = Chat(DEFAULT_LOCAL, "Be brief.", turns, temperature=0.0, max_output_tokens=200, stream=True)
    reply = CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=CALL_S, on_delta=heard.append))
    assert "".join(heard) == reply.text
    assert len(heard) > 1
    assert (reply.usage.output_tokens or 0) > 1
    assert reply.finish_reason == "stop"


def test_it_keeps_to_a_reply_schema(shared: tuple[ProviderCatalog, Path]):
    catalog, _ = shared
    schema = {
        "type": "object",
        "properties": {"verdict": {"enum": ["good", "bad"]}, "score": {"type": "number", "minimum": 0}},
        "required": ["verdict", "score"],
    }
    reply = say(catalog, "Is 2+2=4?", reply_schema=ReplySchema("verdict", schema))
    assert set(json.loads(reply.text)) == {"verdict", "score"}


def test_a_prompt_that_is_too_long_is_told(shared: tuple[ProviderCatalog, Path]):
    with pytest.raises(ProviderError) as caught:
        say(shared[0], "word " * 3000)
    assert caught.value.code == "context_too_long"


def test_it_listens_on_loopback_and_wants_its_key(shared: tuple[ProviderCatalog, Path]):
    catalog, folder = shared
    say(catalog)
    listening = [c for c in psutil.Process(server_pid(folder)).net_connections() if c.status == "LISTEN"]
    assert {c.laddr.ip for c in listening} == {"127.0.0.1"}
    state = json.loads((folder / "local-model" / "server.json").read_text())
    stranger = ProviderCatalog(Settings(openai_api_key="guess", openai_base_url=state["url"]))
    made = stranger.get(ModelRef("openai", "m"))
    with pytest.raises(ProviderError) as caught:
        CALLS_LOOP.run(made.send({"model": "m", "messages": [{"role": "user", "content": "x"}]}, timeout_s=10))
    assert caught.value.code == "provider_auth"
    stranger.close()


def test_racing_threads_and_processes_start_one_server_that_goes_with_the_last(
    open_catalog: OpenCatalog, tmp_path: Path
):
    catalogs = [open_catalog() for _ in range(2)]
    outputs = [tmp_path / name for name in ("first", "second")]
    users = [start_user(tmp_path, output) for output in outputs]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(say, [catalogs[0], catalogs[0], catalogs[1], catalogs[1]]))
    assert all(answer.text for answer in answers)
    assert [wait_told(output) for output in outputs] == ["True", "True"]
    assert servers_of(tmp_path) == [server_pid(tmp_path)]
    for catalog in catalogs:
        catalog.close()
    users[0].terminate()
    assert users[0].wait(patient(30)) == 0
    assert servers_of(tmp_path) == [server_pid(tmp_path)]
    users[1].kill()
    users[1].wait(patient(30))
    wait_until_gone(tmp_path)
    assert not (tmp_path / "local-model" / "server.json").exists()


def test_a_killed_server_is_started_again_by_the_next_call(shared: tuple[ProviderCatalog, Path]):
    catalog, folder = shared
    say(catalog)
    before = server_pid(folder)
    os.kill(before, signal.SIGKILL)
    assert say(catalog).text
    assert servers_of(folder) == [server_pid(folder)] != [before]


@pytest.mark.long
def test_a_server_killed_under_a_call_is_started_again(shared: tuple[ProviderCatalog, Path]):
    catalog, folder = shared
    say(catalog)
    before = server_pid(folder)
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(say, catalog, "Tell a long story.", max_output_tokens=40) for _ in range(3)]
        os.kill(before, signal.SIGKILL)
        for call in calls:
            # A story may be longer than the limit: cut is an answer of the new server, too.
            error = call.exception(timeout=CALL_S)
            assert error is None or getattr(error, "code", None) == "output_truncated"
    assert len(servers_of(folder)) == 1


def test_a_stream_whose_server_is_killed_is_not_told_twice(shared: tuple[ProviderCatalog, Path]):
    catalog, folder = shared
    say(catalog)
    heard: list[str] = []

    def hear_and_kill(piece: str) -> None:
        if not heard:
            os.kill(server_pid(folder), signal.SIGKILL)
        heard.append(piece)

    made = catalog.get(DEFAULT_LOCAL)
    chat = Chat(DEFAULT_LOCAL, "", (Message("user", "Tell a long story."),), max_output_tokens=400, stream=True)
    with pytest.raises(ProviderError) as caught:
        CALLS_LOOP.run(made.send(made.wire_body(chat), timeout_s=CALL_S, on_delta=hear_and_kill))
    assert caught.value.code == "provider_unavailable"
    assert heard


def test_a_file_that_is_no_model_fails_once_with_the_log(open_catalog: OpenCatalog, tmp_path: Path):
    broken = tmp_path / "broken.gguf"
    broken.write_text("this is no model")
    catalog = open_catalog(local_model=broken)
    with pytest.raises(ProviderError, match="did not start") as caught:
        say(catalog)
    assert caught.value.code == "unknown_model"
    assert "broken.gguf" in caught.value.message


def test_a_missing_file_is_told_without_starting_anything(open_catalog: OpenCatalog, tmp_path: Path):
    missing = tmp_path / "none.gguf"
    with pytest.raises(ProviderError, match="REDRAFT_LOCAL_MODEL names no file") as caught:
        say(open_catalog(local_model=missing))
    assert caught.value.code == "unknown_model"
    assert missing_part(missing) in caught.value.message
    assert not (tmp_path / "local-model").exists()


def test_another_model_in_the_same_folder_is_refused(shared: tuple[ProviderCatalog, Path], tmp_path: Path):
    catalog, folder = shared
    say(catalog)
    copy = tmp_path / "copy.gguf"
    copy.symlink_to(json.loads((folder / "local-model" / "server.json").read_text())["model"])
    second = catalog_of(folder, local_model=copy)
    with pytest.raises(ProviderError, match="serves another local model") as caught:
        say(second)
    second.close()
    assert caught.value.code == "unknown_model"


@pytest.mark.long
def test_a_call_without_time_for_the_start_times_out_and_the_next_one_finds_the_server(
    shared: tuple[ProviderCatalog, Path],
):
    catalog, folder = shared
    say(catalog)
    os.kill(server_pid(folder), signal.SIGKILL)
    with pytest.raises(ProviderError) as caught:
        say(catalog, timeout_s=0.05)
    assert caught.value.code == "provider_timeout"
    assert say(catalog).text
    assert len(servers_of(folder)) == 1


def test_any_local_name_means_the_same_file(shared: tuple[ProviderCatalog, Path]):
    ref = ModelRef("local", "anything")
    assert shared[0].get(ref) is shared[0].get(DEFAULT_LOCAL)


def test_waiting_for_another_starter_is_bounded(open_catalog: OpenCatalog, tmp_path: Path):
    import fcntl

    folder = tmp_path / "local-model"
    folder.mkdir()
    with (folder / "start.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        catalog = open_catalog()
        caught: list[str] = []

        def try_it() -> None:
            with pytest.raises(ProviderError) as error:
                say(catalog, timeout_s=0.3)
            caught.append(error.value.code)

        threads = [threading.Thread(target=try_it) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=patient(10))
    assert caught == ["provider_timeout"] * 3
    assert servers_of(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need no libgomp")
def test_a_system_without_libgomp_gets_it_from_a_package():
    folder = (server_environment("libmissing.so.1") or {})["LD_LIBRARY_PATH"].split(os.pathsep)[0]
    assert Path(folder, "libgomp.so.1").exists()
    assert server_environment("libc.so.6") is None
