"""A process in which no thread runs ends, and says where it stood."""

import subprocess
import sys

import pytest

# `PyDLL` keeps the interpreter's lock during a call, as native code may
FREEZE = "ctypes.PyDLL(None).sleep(60)"
WAIT = "time.sleep(3)"
PROGRAM = """
import ctypes, time
from worker.pulse import end_when_frozen
end_when_frozen(1.0)
time.sleep(0.3)

def last_call():
    {call}

last_call()
print("went on")
"""


@pytest.mark.parametrize(("call", "code"), [(FREEZE, 1), (WAIT, 0)])
def test_only_a_frozen_process_is_ended(call: str, code: int):
    program = PROGRAM.format(call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == code
    assert ("went on" in done.stdout) == (code == 0)
    assert ("in last_call" in done.stderr) == (code == 1)
