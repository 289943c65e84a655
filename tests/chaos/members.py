"""Processes that are kept alive: whoever dies is started again after a moment."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.forks import ROOT, Fork
from tests.support.waiting import patient

_LOOK_EVERY_S = 0.05


class Member:
    """One place that a process fills: `python -m module argument …`, again and again."""

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        first: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.log_file = Path(tempfile.mkstemp(prefix=f"{name}-", suffix=".log")[1])
        self.exits: list[int] = []
        self._module = module
        self._arguments = list(arguments)
        self._environment = dict(environment)
        self._lock = threading.RLock()
        self._died_at: float | None = None
        self._next: tuple[Sequence[str], Mapping[str, str]] = ((), {})
        self.process = self._spawn(first, {})

    def _spawn(self, arguments: Sequence[str], environment: Mapping[str, str]) -> "Fork | subprocess.Popen[bytes]":
        words = [*self._arguments, *arguments]
        own = {**self._environment, **environment}
        with self.log_file.open("ab") as log:
            if "LD_PRELOAD" not in own:
                return Fork(self._module, *words, environment=own, out=log.fileno())
            # What stands in front of the C library is there from the start, or not at all
            command = [sys.executable, "-m", self._module, *words]
            return subprocess.Popen(command, env=own, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT)

    @property
    def is_alive(self) -> bool:
        with self._lock:
            return self.process.poll() is None

    def signal(self, number: int) -> None:
        """Nothing happens to a process that has ended."""
        with self._lock:
            self.process.send_signal(number)

    def signal_process(self, process: "Fork | subprocess.Popen[bytes]", number: int) -> None:
        """The same to the process that was here at some time, not to the one that came after it."""
        with self._lock:
            process.send_signal(number)

    def replace(self, *arguments: str, **environment: str) -> None:
        """Kill it; the next one gets these arguments and environment, those after it do not."""
        with self._lock:
            self._next = (arguments, environment)
            self.signal(signal.SIGKILL)

    def keep(self, rest_s: float) -> None:
        """Start it again if it has been dead for so long."""
        with self._lock:
            if self.process.poll() is None:
                return
            if self._died_at is None:
                self._died_at = time.monotonic()
                self.exits.append(self.process.returncode)
            if time.monotonic() - self._died_at >= rest_s:
                self.process = self._spawn(*self._next)
                self._next, self._died_at = ((), {}), None

    def start_again(self) -> None:
        self.keep(0.0)

    def stop(self, within_s: float = 30.0) -> int:
        with self._lock:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                return self.process.wait(within_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                return self.process.wait(patient(10))

    def log_text(self) -> str:
        return self.log_file.read_text("utf-8", "replace")

    def remove(self) -> None:
        """No goodbye: what it would say at its end is of no interest any more."""
        with self._lock:
            self.process.kill()
            self.process.wait(patient(10))
        self.log_file.unlink(missing_ok=True)


class Keeper:
    """Looks after members from a thread of its own, until it is told to stop."""

    def __init__(self, members: Sequence[Member], rest_s: float = 0.3) -> None:
        self._members = members
        self._rest_s = rest_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            for member in self._members:
                member.keep(self._rest_s)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(patient(10))


def is_stopped(pid: int) -> bool:
    """Whether a process waits for SIGCONT (Linux), or is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return not _exists(pid)
    return fields[0] in {"T", "Z"}


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
