"""A process in which no thread runs ends, and says where it stood."""

import signal
import subprocess
import sys

import psutil
import pytest

from redraft.embedded.parent_death import SILENCE_TIMES, guarded
from tests.support.waiting import patient

# `PyDLL` keeps the interpreter's lock during a call, as native code may
FREEZE = "ctypes.PyDLL(None).sleep(60)"
WAIT = "time.sleep(3)"
DEAD_HEART = "beats.clear() or time.sleep(60)"
PROGRAM = """
import ctypes, time
from worker.freeze_detection import end_when_frozen
beats = [1]
end_when_frozen(1.0, [], lambda: bool(beats))
time.sleep(0.3)

def last_call():
    {call}

last_call()
print("went on")
"""


@pytest.mark.parametrize(("call", "code"), [(FREEZE, 1), (DEAD_HEART, 1), (WAIT, 0)])
def test_only_a_frozen_process_is_ended(call: str, code: int):
    program = PROGRAM.format(call=call)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=patient(30), check=False
    )
    assert done.returncode == code
    assert ("went on" in done.stdout) == (code == 0)
    assert ("in last_call" in done.stderr) == (code == 1)


ALIVE = """
import sys, time
from worker.freeze_detection import end_when_frozen
end_when_frozen(2.0, sys.argv)
print("alive", flush=True)
time.sleep(60)
"""


def test_a_process_that_was_stopped_is_killed_by_its_guard_which_says_so():
    command = guarded([sys.executable, "-c", ALIVE], 1.0, silent_s=SILENCE_TIMES * 2.0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as guard:
        assert guard.stdout
        assert guard.stdout.readline() == b"alive\n"
        (child,) = psutil.Process(guard.pid).children()
        child.suspend()
        assert guard.stderr
        words = guard.stderr.read()
        assert guard.wait(patient(30)) == 128 + signal.SIGKILL
    assert words.decode().splitlines() == [f"Process {child.pid} gave no sign of life for 3 s: it is killed."]


def test_a_process_that_ends_by_itself_is_no_silent_one():
    command = guarded([sys.executable, "-c", "import os, sys; os.write(int(sys.argv[1][8:]), b'.')"], 1.0, silent_s=5.0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as guard:
        assert guard.stderr
        assert guard.stderr.read() == b""
        assert guard.wait(patient(30)) == 0
