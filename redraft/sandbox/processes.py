"""Validates values in child processes, and caches the outcomes."""

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

from redraft.sandbox.fair_queue import Busy, FairQueue

log = structlog.get_logger()

# The CPU time of one request. The kernel kills a child that needs more
CPU_S = 1.0
_QUICK_CPU_S = 0.1
# Only overloaded machines reach this limit, since expensive requests reach the CPU limit first
_WALL_S = 30.0
_QUEUE_S = 30.0
# Threads of a worker wait in these queues. The queue of the slow lane is short, so that some threads stay free
_QUICK_WAITING_MAX, _SLOW_WAITING_MAX = 1000, 8
_REQUEST_HEAD = struct.Struct("!dQ")
_LENGTH = struct.Struct("!Q")
_CACHE_MAX = 4096
# SIGPROF: the CPU limit. SIGABRT: the memory limit or a crash. SIGSEGV and SIGBUS: an overflow of the stack
_BY_THE_COMPUTATION = {-signal.SIGPROF, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS}


class LimitExceeded(Exception):  # noqa: N818 - a fact about a value, not an error of the program
    """A request needed more CPU time or memory than its limit."""


class Processes:
    """Child processes in two lanes: a quick lane and a slow lane. A child is started on first use, and after a kill.

    Each request may use a tenth of a second of CPU time in the quick lane. A slower request moves to the slow lane, so
    that it delays only slow requests. In both lanes requests with different schemas take turns, so that no job waits
    for all answers of another job.

    Outcomes are cached, because an answer is validated when it arrives, when it is evaluated, and at the end.
    """

    def __init__(self, quick: int = 2, slow: int = 1) -> None:
        self.quick = Lane(quick, cpu_s=_QUICK_CPU_S, waiting_max=_QUICK_WAITING_MAX)
        self.slow = Lane(slow, cpu_s=CPU_S, waiting_max=_SLOW_WAITING_MAX)
        self._lock = threading.Lock()
        self._cached: OrderedDict[bytes, dict[str, Any] | None] = OrderedDict()

    def compute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute or look up the outcome of one request.

        Raises LimitExceeded if the request needs too much CPU time or memory, Busy if no child is free in time, and
        ValueError or RecursionError if the request cannot be written as JSON.
        """
        data = json.dumps(request).encode()
        digest = hashlib.sha256(data).digest()
        with self._lock:
            is_known, outcome = digest in self._cached, self._cached.get(digest)
        if not is_known:
            kind = hashlib.sha256(json.dumps(request["schema"]).encode()).digest()
            outcome = self.quick.compute(kind, data) or self.slow.compute(kind, data)
            with self._lock:
                self._cached[digest] = outcome
                if len(self._cached) > _CACHE_MAX:
                    self._cached.popitem(last=False)
        if outcome is None:
            raise LimitExceeded(f"more than {CPU_S:g} s of computing, or too much memory")
        return outcome

    def close(self) -> None:
        self.quick.close()
        self.slow.close()


class Lane:
    """Child processes with the same CPU limit per request."""

    def __init__(self, slots: int, *, cpu_s: float, waiting_max: int) -> None:
        self.turns = FairQueue(slots, waiting_max=waiting_max, wait_s=_QUEUE_S)
        self._cpu_s = cpu_s
        self._idle: queue.LifoQueue[_Child | None] = queue.LifoQueue()
        for _ in range(slots):
            self._idle.put(None)

    def compute(self, kind: bytes, data: bytes) -> dict[str, Any] | None:
        """Return the outcome of a request; None if it reached a limit. Raises Busy if no child is free in time."""
        with self.turns.slot(kind):
            child = self._idle.get_nowait()
            kept = None
            try:
                # A child that was killed for another reason, such as a lack of memory, is replaced once
                for _ in range(2):
                    child = child or _Child()
                    try:
                        outcome = child.compute(data, self._cpu_s)
                    except (OSError, EOFError) as error:
                        if self._end(child, error):
                            return None
                        child = None
                    else:
                        kept = child
                        return outcome
                # This failure is no outcome of the request, so it must not be cached
                raise Busy("A process for validating was killed, or does not start; try again in some seconds.")
            finally:
                self._idle.put(kept)

    def _end(self, child: "_Child", error: Exception) -> bool:
        """End a child that has given no outcome. Return whether a limit had ended the child before.

        Raises Busy if the child reached `_WALL_S` before its CPU limit, since it was stopped or got little CPU time.
        """
        is_expensive = child.end()
        log.info("validation_killed", is_expensive=is_expensive, cpu_s=self._cpu_s, error=type(error).__name__)
        if isinstance(error, TimeoutError) and not is_expensive:
            raise Busy("A process for validating was stopped; try again in some seconds.") from error
        return is_expensive

    def close(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                if child := self._idle.get_nowait():
                    child.end()


class _Child:
    def __init__(self) -> None:
        try:
            ours, theirs = socket.socketpair()
            with contextlib.ExitStack() as files:
                files.enter_context(ours)
                with theirs:
                    # The environment is empty, since that of this process has keys. Crashes are expected, so the
                    # output is hidden
                    self._process = subprocess.Popen(
                        [sys.executable, "-I", "-m", "redraft.sandbox.child"],
                        env={},
                        stdin=theirs.fileno(),
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                files.pop_all()
        except OSError as error:
            raise Busy(f"No process for validating can be started: {error.strerror}.") from error
        self._socket = ours

    def compute(self, data: bytes, cpu_s: float) -> dict[str, Any]:
        end = time.monotonic() + _WALL_S
        self._socket.settimeout(_WALL_S)
        self._socket.sendall(_REQUEST_HEAD.pack(cpu_s, len(data)) + data)
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
        """Kill the child. Return whether its computation had ended it before."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        self._process.kill()
        return self._process.wait() in _BY_THE_COMPUTATION


# The children that all validations of this process share
default = Processes()

atexit.register(default.close)
compute = default.compute
