"""Python programs as processes, forked from one that has imported what they import: they start at once.

What `python -m module` spends on imports is most of what a short test costs. Such a process is otherwise the same:
its own settings, signals, threads, exit code and end. That programs start from nothing, too, is held by the tests of
`redraft serve`, `redraft demo` and the command line.
"""

import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import coverage

ROOT = Path(__file__).parents[3]
_METHOD = multiprocessing.get_context("forkserver")
# Modules that read the environment or start threads when they are imported have no place here.
_MODULES = [
    *("celery.apps.worker", "celery.app.amqp", "celery.app.control", "celery.concurrency.thread"),
    *("celery.worker.components", "celery.worker.consumer", "celery.worker.strategy", "kombu.transport.redis"),
    *("openai", "openai.resources.chat", "psycopg", "uvicorn"),
    *("sqlalchemy.dialects.postgresql.psycopg", "sqlalchemy.dialects.sqlite", "rich.traceback"),
    *(
        "redraft.operations.admin.deliveries",
        "redraft.operations.bulk.scheduler",
        "redraft.operations.steps.executor",
    ),
    *(
        "api.app",
        "redraft.cli.commands",
        "redraft.embedded.api_server",
        "redraft.embedded.stacks",
        "redraft.logs",
        "redraft.providers.anthropic.provider",
        "redraft.providers.openai.provider",
        "redraft.runtime",
    ),
    *("coverage", "tests.support.commands", "tests.support.forks", "tests.support.forks.preloaded"),
]
_MEASURED = "COVERAGE_PROCESS_CONFIG"
# Read by what HTTP clients use; a check of the settings parses every certificate in them
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
# The address of a server that several test processes share
_SHARED = "TESTS_FORK_SERVER"


class Fork:
    """`python -m module argument …` with this environment, in a session of its own; like `subprocess.Popen`.

    Its output goes to the file descriptor `out`, and its errors to `err`, or to `out`, too.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        out: int,
        err: int | None = None,
        folder: Path = ROOT,
    ) -> None:
        _run_server()
        # Connections are how this kind of process is handed file descriptors
        with Connection(os.dup(out), readable=False) as first, Connection(os.dup(err or out), readable=False) as second:
            given = (module, arguments, dict(environment), str(folder), first, second)
            self._process = _METHOD.Process(target=_become, args=given)
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing happens to a process that has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


def share_server() -> None:
    """Start a server for all test processes that inherit this environment; to start one takes seconds of CPU."""
    _run_server()
    os.environ[_SHARED] = forkserver._forkserver._forkserver_address


@cache
def _run_server() -> None:
    """The process that all others are forked from; it is not measured itself, and hands no measuring on."""
    if address := os.environ.get(_SHARED):
        server: Any = forkserver._forkserver
        server._forkserver_address = address
        # The server lives as long as the process that started it, not as long as this one
        server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)
        server.ensure_running = lambda: None
        return
    for name in _MODULES:
        # The server itself passes over what it does not find
        assert find_spec(name), name
    _METHOD.set_forkserver_preload(_MODULES)
    hidden = {name: os.environ.pop(name) for name in (_MEASURED, *CERTIFICATES) if name in os.environ}
    try:
        forkserver.ensure_running()
    finally:
        os.environ.update(hidden)


def _become(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], folder: str, out: Connection, err: Connection
) -> None:
    """In the new process."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate((out, err), 1):
        os.dup2(stream.fileno(), number)
        stream.close()
    # Those of the server know whether its own output was a terminal or a file
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    sys.argv[1:] = arguments
    os.chdir(folder)
    # Celery adds the folder to sys.path while it imports the tasks. Whenever sys.path changes, coverage can remove from
    # sys.modules a module that another thread is importing
    sys.path.insert(0, str(Path.cwd()))
    os.chdir(ROOT)
    measuring = _measure(module) if _MEASURED in environment else None
    os.chdir(folder)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        # Nothing that was to be called at the end is called at the end of such a process
        if measuring:
            measuring.stop()
            measuring.save()


def _measure(module: str) -> coverage.Coverage:
    """Of workers and servers only what runs in workers alone: tests call the rest directly, which costs less."""
    measuring = coverage.Coverage(source_pkgs=["worker"] if module in {"worker", "uvicorn"} else None)
    measuring.start()
    return measuring
