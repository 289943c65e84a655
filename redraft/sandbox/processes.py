"""The child processes of this process, and what they were asked lately."""

import atexit
import contextlib
import hashlib
import json
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from typing import Any

import structlog

from redraft.errors import Unavailable

log = structlog.get_logger()

CPU_S = 1
"""Of CPU time for one request; a child that needs more is killed by the kernel."""

_PROCESSES = 2
# For machines that have more to do than they can: the CPU limit ends what is expensive
_WALL_S = 30.0
_QUEUE_S = 30.0
_LENGTH = struct.Struct("!Q")
_REMEMBERED = 4096
# The CPU limit, an allocation that the memory limit refused, a stack that overflowed
_BY_THE_COMPUTATION = {-signal.SIGXCPU, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}


class LimitExceeded(Exception):  # noqa: N818 - a fact about a value, not an error of the program
    """A computation needed more CPU time or memory than one request may have."""


class Processes:
    """A few child processes, started when they are needed first and after each that was killed.

    Outcomes are remembered: the same answer is validated where it comes in, where it is evaluated, and at the end.
    """

    def __init__(self, count: int = _PROCESSES) -> None:
        self._idle: queue.LifoQueue[_Child | None] = queue.LifoQueue()
        for _ in range(count):
            self._idle.put(None)
        self._lock = threading.Lock()
        self._remembered: OrderedDict[bytes, dict[str, Any] | None] = OrderedDict()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The outcome of one request.

        Raises:
            LimitExceeded: it needs too much CPU time or memory.
            Unavailable: no child can be started, or all are busy for too long.
            ValueError, RecursionError: the request is no JSON.
        """
        data = json.dumps({**request, "cpu_s": CPU_S}).encode()
        digest = hashlib.sha256(data).digest()
        with self._lock:
            is_known, outcome = digest in self._remembered, self._remembered.get(digest)
        if not is_known:
            outcome = self._computed(data)
            self._remember(digest, outcome)
        if outcome is None:
            raise LimitExceeded(f"more than {CPU_S} s of computing, or too much memory")
        return outcome

    def _remember(self, digest: bytes, outcome: dict[str, Any] | None) -> None:
        with self._lock:
            self._remembered[digest] = outcome
            if len(self._remembered) > _REMEMBERED:
                self._remembered.popitem(last=False)

    def _computed(self, data: bytes) -> dict[str, Any] | None:
        """None: a limit was reached. A child that was killed for another reason gets a successor, once."""
        try:
            child = self._idle.get(timeout=_QUEUE_S)
        except queue.Empty:
            raise Unavailable("All validating processes are busy; try again.", code="busy") from None
        try:
            for _ in range(2):
                child = child or _Child()
                try:
                    return child.ask(data)
                except (OSError, EOFError) as error:
                    is_expensive = child.end()
                    log.warning("validation_killed", is_expensive=is_expensive, error=type(error).__name__)
                    child = None
                    if is_expensive or isinstance(error, TimeoutError):
                        break
            return None
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """End all children that have nothing to do."""
        with contextlib.suppress(queue.Empty):
            while True:
                if child := self._idle.get_nowait():
                    child.end()


class _Child:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                # Without our environment, which holds keys; a crash in it is no news for our own output
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-m", "redraft.sandbox.child"],
                    env={},
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise Unavailable(f"No process for validating can be started: {error.strerror}.", code="busy") from error
        self._socket = ours

    def ask(self, data: bytes) -> dict[str, Any]:
        end = time.monotonic() + _WALL_S
        self._socket.settimeout(_WALL_S)
        self._socket.sendall(_LENGTH.pack(len(data)) + data)
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size, end))
        return json.loads(self._receive(length, end))

    def _receive(self, length: int, end: float) -> bytes:
        data = b""
        while len(data) < length:
            self._socket.settimeout(max(0.001, end - time.monotonic()))
            piece = self._socket.recv(length - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def end(self) -> bool:
        """Kill it; whether its computation had ended it before."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        self._process.kill()
        return self._process.wait() in _BY_THE_COMPUTATION


_processes = Processes()
atexit.register(_processes.close)
ask = _processes.ask
