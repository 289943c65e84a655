"""A person at the command line: `redraft` in this process, in another one, and on a terminal."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner

from redraft.cli.main import app
from redraft.operations.evaluate import evaluate
from redraft.operations.generate import generate
from redraft.operations.leases import LeaseHolder
from redraft.operations.services import Services
from redraft.storage import jobs
from redraft.storage.jobs import JobFilter
from tests.support.processes import clean_environment, environment_of

_COMMAND = [sys.executable, "-c", "from redraft.cli.main import run; run()"]


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
        result = CliRunner().invoke(app, list(arguments), input=stdin, env={**self.environment, **environment})
        return Outcome(result.exit_code, result.stdout, result.stderr)

    def process_environment(self, **environment: str) -> dict[str, str]:
        return {**clean_environment(), **self.environment, **environment}

    def start(self, *arguments: str, stdout: int = subprocess.PIPE, **environment: str) -> "subprocess.Popen[str]":
        """In a process of its own, in a process group of its own."""
        return subprocess.Popen(
            [*_COMMAND, *arguments],
            env=self.process_environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )

    def on_terminal(self, *arguments: str, width: int = 80, **environment: str) -> tuple[int, str]:
        """On a terminal of that width; what the terminal got."""
        main, side = pty.openpty()
        environment = {"COLUMNS": str(width), "TERM": "xterm-256color", **environment}
        process = subprocess.Popen(
            [*_COMMAND, *arguments],
            env=self.process_environment(**environment),
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        screen = b"".join(_chunks(main))
        os.close(main)
        return process.wait(timeout=30), screen.decode("utf-8", "replace")


def _chunks(file: int) -> Generator[bytes]:
    # Linux answers a read of a closed terminal with EIO.
    with contextlib.suppress(OSError):
        while chunk := os.read(file, 65536):
            yield chunk


def drain(services: Services) -> None:
    """Do every step that is due, here and now, without a worker."""
    holder = LeaseHolder(services.settings)
    while True:
        with services.database.read() as connection:
            live = jobs.list_page(connection, JobFilter(statuses=("queued", "running"), limit=100))
        if not live:
            return
        for job in live:
            step = generate if job.step == "generate" else evaluate
            step(services, holder, job.id, job.step_no)
