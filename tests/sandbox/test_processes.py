"""Child processes: replaced when they are killed, gone with their parent, and without its secrets."""

import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from redraft.sandbox.fair_queue import Busy, FairQueue
from redraft.sandbox.processes import LimitExceeded, Processes
from redraft.sandbox.schemas import first_errors, is_valid
from tests.support.processes import has_ended
from tests.support.waiting import wait_until


def request(value: object) -> dict[str, object]:
    return {"schema": {"const": 1}, "value": value, "pattern_bytes_max": 1000, "errors_max": 0, "with_formats": False}


def children() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if "redraft.sandbox.child" in command_of(each)]


def command_of(process: psutil.Process) -> list[str]:
    """The words that started a process; none of one that has ended, such as another test's."""
    try:
        return process.cmdline()
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return []


@pytest.fixture
def alone():
    """Children of our own, beside those of the process; the pids of ours are what is new."""
    before = {each.pid for each in children()}
    own = Processes(quick=1)
    yield own, lambda: [each for each in children() if each.pid not in before]
    own.close()


def test_one_child_answers_one_request_after_another(alone):
    own, ours = alone
    assert own.compute(request(1)) == {"is_valid": True}
    (first,) = ours()
    assert own.compute(request(2)) == {"is_valid": False}
    assert ours() == [first]


def test_a_killed_child_is_replaced_within_the_request(alone):
    own, ours = alone
    own.compute(request(1))
    (first,) = ours()
    first.kill()
    assert own.compute(request(2)) == {"is_valid": False}
    assert ours() != [first]


def test_a_child_that_cannot_start_says_nothing_about_the_value(alone, monkeypatch):
    own, _ = alone
    for program in ("/bin/false", "/nowhere"):
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(Busy, match="start"):
            own.compute(request(1))
    monkeypatch.undo()
    assert own.compute(request(1)) == {"is_valid": True}


def test_a_request_that_crashes_its_child_is_over_a_limit_and_no_reason_to_wait(alone):
    own, _ = alone
    with pytest.raises(LimitExceeded):
        own.compute({"schema": {"const": 1}})
    assert own.compute(request(1)) == {"is_valid": True}


def test_what_was_asked_before_is_not_computed_again(alone):
    own, ours = alone
    own.compute(request(1))
    own.close()
    assert own.compute(request(1)) == {"is_valid": True}
    assert not ours()


def test_a_child_has_no_environment_and_little_memory(alone):
    own, ours = alone
    os.environ["OPENAI_API_KEY"] = "sk-secret"
    try:
        own.compute(request(1))
    finally:
        del os.environ["OPENAI_API_KEY"]
    (child,) = ours()
    assert "OPENAI_API_KEY" not in child.environ()
    if sys.platform == "linux":
        limits = Path(f"/proc/{child.pid}/limits").read_text()
        assert f"Max address space         {1 << 30}" in limits


_PARENT = """
import sys
from redraft.sandbox.schemas import is_valid
is_valid({"const": 1}, 1)
print("ready", flush=True)
defs = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
is_valid({"$ref": "#/$defs/a0", "$defs": {**defs, "a60": {}}}, 1)
"""


def computing_of(pid: int) -> list[psutil.Process]:
    """Its children, once one of them has computed for longer than the quick lane allows."""
    found = psutil.Process(pid).children()
    with contextlib.suppress(psutil.Error):
        return found if any(each.cpu_times().user > 0.3 for each in found) else []
    return []


def test_a_child_ends_soon_after_its_parent_even_in_the_midst_of_computing():
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout
        assert parent.stdout.readline() == "ready\n"
        computing = wait_until(lambda: computing_of(parent.pid), within_s=30, what="a child that computes")
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: all(map(has_ended, computing)), within_s=30, what="the end of the children")


def test_errors_are_told_with_their_places_and_counted():
    schema = {"items": {"type": "integer", "maximum": 3}}
    found = first_errors(schema, [1, "a", 5, "b"], 2)
    assert [each.path for each in found] == [(1,), (2,)]


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"pattern": "("}, {"$ref": "https://example.com/x"}])
def test_a_schema_that_cannot_be_used_raises(schema):
    with pytest.raises(ValueError, match=r"."):
        is_valid(schema, "a")


ENDLESS: dict[str, object] = {
    "$ref": "#/$defs/a0",
    "$defs": {**{f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}, "a60": {}},
}


def test_what_is_cheap_does_not_wait_for_what_is_expensive_and_a_full_queue_is_told_as_such(alone):
    own, _ = alone
    with ThreadPoolExecutor(max_workers=8) as threads:
        with own.slow.turns.slot(b"another"):
            waiting = [threads.submit(own.compute, {**request("expensive"), "schema": ENDLESS})]
            waiting += [threads.submit(take, own.slow.turns) for _ in range(7)]
            wait_until(lambda: own.slow.turns.waiting == 8, within_s=30, what="a full queue")
            assert own.compute(request(1)) == {"is_valid": True}
            with pytest.raises(Busy, match="try again"):
                own.compute({**request("too many"), "schema": ENDLESS})
        assert isinstance(waiting[0].exception(), LimitExceeded)
        assert all(each.exception() is None for each in waiting[1:])


def take(turns: FairQueue) -> None:
    with turns.slot(b"other"):
        pass
