"""A person at the command line: `redraft` in this process, in another one, and on a terminal."""

import contextlib
import json
import logging
import os
import pty
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import typer
from typer.testing import CliRunner

from redraft.cli.commands import app
from redraft.domain.jobs.states import Step
from redraft.messages import StepMessage
from redraft.operations.services import Services
from redraft.operations.steps.engine import Engine
from redraft.operations.steps.executor import run
from redraft.operations.steps.leases import LeaseHolder
from redraft.storage.jobs import jobs
from redraft.storage.jobs.job_filters import JobFilter
from tests.support.commands import Command
from tests.support.processes import clean_environment, environment_of
from tests.support.waiting import patient


@cache
def command_line() -> Any:
    """The commands of `redraft`. Typer would build all of them for each call, which takes longer than most calls."""
    return typer.main.get_command(app)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Shell:
    """Commands under one set of settings."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)

    @classmethod
    def of(cls, services: Services) -> "Shell":
        """A shell whose commands work with the same parts as these services."""
        own = environment_of(services.settings)
        return cls({name: own[name] for name in own if name.startswith("REDRAFT_")})

    def run(self, *arguments: str, stdin: str | bytes = "", **environment: str) -> Outcome:
        """In this process: fast, without a terminal."""
        with CliRunner().isolation(stdin, {**self.environment, **environment}) as (out, err, _):
            code = _exit_code(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
            return Outcome(code, *(each.getvalue().decode().replace("\r\n", "\n") for each in (out, err)))

    def start(self, *arguments: str, is_fork: bool = True, stdout: int | None = None, **environment: str) -> Command:
        """In a process of its own."""
        own = {**clean_environment(), **self.environment, **environment}
        return Command(arguments, own, is_fork=is_fork, stdout=stdout)

    def on_terminal(self, *arguments: str, width: int = 80, **environment: str) -> tuple[int, str]:
        """In this process, but on a terminal of that width; what the terminal got."""
        given = {**self.environment, "COLUMNS": str(width), "TERM": "xterm-256color", **environment}
        with _Terminal() as terminal, _environment(given):
            code = _exit_code(arguments)
        return code, terminal.screen


def _exit_code(arguments: Sequence[str]) -> int:
    root = logging.getLogger()
    level = root.level
    try:
        command_line().main(list(arguments), prog_name="redraft")
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        # A command silences the logs of its process, also for the tests after a session fixture that calls it
        root.setLevel(level)
    return 0


class _Terminal(contextlib.AbstractContextManager["_Terminal"]):
    """Stands in for stdout and stderr."""

    def __enter__(self) -> Self:
        self._main, side = pty.openpty()
        self._chunks: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._side = os.fdopen(side, "w", encoding="utf-8")
        self._streams = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = self._side
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._streams
        self._side.close()
        self._reader.join()
        os.close(self._main)

    def _read(self) -> None:
        # Linux answers a read of a closed terminal with EIO.
        with contextlib.suppress(OSError):
            while chunk := os.read(self._main, 65536):
                self._chunks.append(chunk)

    @property
    def screen(self) -> str:
        return b"".join(self._chunks).decode("utf-8", "replace")


@contextlib.contextmanager
def _environment(given: Mapping[str, str]) -> Generator[None]:
    before = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def drain(services: Services) -> None:
    """Do every step that is due, here and now, without a worker."""
    # Nobody extends a lease here, however long a step takes
    holder = LeaseHolder(services.settings.model_copy(update={"lease_s": 600.0}))
    give_up_at = time.monotonic() + patient(60.0)
    with contextlib.closing(Engine()) as engine:
        while time.monotonic() < give_up_at:
            with services.database.read() as connection:
                live = jobs.list_page(connection, JobFilter(statuses=("queued", "running"), limit=100))
            if not live:
                return
            for job in live:
                message = StepMessage(Step(job.step), job.id, job.step_no)
                engine.run(job.id, run(services, holder, message, goes_on=lambda: True))
    raise AssertionError("Jobs are still not done.")
