"""The command line as a user runs it, and what it leaves behind."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.support.processes import REDRAFT
from tests.support.waiting import patient, wait_until

TERMINAL = {"succeeded", "failed", "canceled"}


class Folder:
    """A data folder, and the processes that work over it: by their environment, Valkey by where it stands."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def processes(self, part: str = "") -> list[psutil.Process]:
        """Those with `part` in their command line, youngest last; guards, which name their child's, without one."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                is_named = part in line and ("embedded.guard" not in line or not part or "guard" in part)
                if self._is_ours(process) and is_named:
                    found.append(process)
        return found

    def _is_ours(self, process: psutil.Process) -> bool:
        if process.environ().get("REDRAFT_DATA_DIR") == str(self.path):
            return True
        return process.name() == "valkey-server" and process.cwd() == str(self.path / "valkey")

    def wait_empty(self, within_s: float = 10) -> None:
        wait_until(lambda: not self.processes(), within_s=within_s, what=f"the end of all over {self.path}")

    def end_all(self) -> list[str]:
        """Kill what still runs after a moment; their command lines."""
        with contextlib.suppress(AssertionError):
            self.wait_empty()
        left: list[str] = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                left.append(" ".join(process.cmdline()))
                process.kill()
        return left


class Command:
    """A running `redraft …`; its output goes to files."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="out-"))
        with (self._folder / "out").open("wb") as out, (self._folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", REDRAFT, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._folder,
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
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for file in self._folder.iterdir():
            file.unlink()
        self._folder.rmdir()


def submit(client: httpx2.Client, **changes: Any) -> str:
    """A job's URL."""
    body = {"instruct": "Say hello.", "eval_crit": "It is a greeting.", **changes}
    answer = client.post("/v1/generate-answer", json=body)
    # 201 if it has ended by the time of the answer
    assert answer.status_code in {201, 202}, answer.text
    return answer.json()["urls"]["self"]


def wait_ended(client: httpx2.Client, url: str, within_s: float = 30) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        job = client.get(url).json()
        return job if job["status"] in TERMINAL else None

    return wait_until(ended, within_s=within_s, every_s=0.05, what=f"the end of {url}")
