"""The data folder of a command, what runs over it, and the jobs of its server."""

import contextlib
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.support.waiting import wait_until

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
        what = f"the end of all over {self.path}"
        wait_until(lambda: not self.processes(), within_s=within_s, every_s=0.1, what=what)

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
