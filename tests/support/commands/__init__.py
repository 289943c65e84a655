"""`redraft …` as a process, and what it prints."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

from tests.support.forks import Fork
from tests.support.waiting import patient, wait_until

_MAIN = str(Path(__file__).with_name("__main__.py"))


class Command:
    """A running `redraft …`; its output goes to files.

    Args:
        arguments: the words after `redraft`.
        environment: the whole environment.
        is_fork: False: it starts from nothing and imports all that it needs, like a user's command.
        stdout: a file descriptor for its output; None: a file.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_fork: bool = True,
        stdout: int | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="out-"))
        weakref.finalize(self, shutil.rmtree, self._folder)
        start = self._fork if is_fork else self._start
        with (self._folder / "out").open("wb") as out, (self._folder / "err").open("wb") as err:
            self.process = start(arguments, environment, out.fileno() if stdout is None else stdout, err.fileno())

    def _fork(self, arguments: Sequence[str], environment: Mapping[str, str], out: int, err: int) -> Fork:
        return Fork(__name__, *arguments, environment=environment, out=out, err=err, folder=self._folder)

    def _start(
        self, arguments: Sequence[str], environment: Mapping[str, str], out: int, err: int
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", _MAIN, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=self._folder,
            start_new_session=True,
        )

    @property
    def stdout(self) -> str:
        return (self._folder / "out").read_text("utf-8", "replace")

    @property
    def data(self) -> Any:
        return json.loads(self.stdout)

    @property
    def stderr(self) -> str:
        return (self._folder / "err").read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, within_s: float = 30) -> int:
        try:
            return self.process.wait(patient(within_s))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.stdout}\n{self.stderr}") from None

    def end(self, number: int, within_s: float = 20) -> int:
        self.process.send_signal(number)
        return self.wait(within_s)

    def interrupt(self, within_s: float = 20) -> int:
        """Ctrl-C, which a terminal sends to the children, too."""
        os.killpg(self.pid, signal.SIGINT)
        return self.wait(within_s)

    def wait_says(self, pattern: str, within_s: float = 30) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.stdout + self.stderr)
            if match is None and self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}: {self.stdout}\n{self.stderr}")
            return match

        return wait_until(found, within_s=within_s, what=pattern)

    def client(self) -> httpx2.Client:
        """A client of the server, once it is ready."""
        return httpx2.Client(base_url=self.wait_says(r"ready at (http://\S+)")[1], timeout=patient(20))

    def remove(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
