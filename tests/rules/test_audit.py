"""`make audit`: vulnerable packages fail the check, a service that cannot be asked does not."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.rules.sources import ROOT
from tests.support.waiting import patient

LOCKS = sorted(ROOT.glob("requirements*.lock"))
VULNERABLE = {("jinja2", "2.4.1"): ["GHSA-0001", "PYSEC-1"], ("old-thing", "1.0"): ["GHSA-0002"]}

Answer = Callable[[list[dict[str, Any]]], bytes]


def honest(queries: list[dict[str, Any]]) -> bytes:
    found = (VULNERABLE.get((query["package"]["name"], query["version"])) for query in queries)
    return json.dumps({"results": [{"vulns": [{"id": each} for each in ids]} if ids else {} for ids in found]}).encode()


class Service(ThreadingHTTPServer):
    """Speaks OSV's `querybatch`."""

    def __init__(self, answer: Answer, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.status = status
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["content-length"])))["queries"]
        self.server.asked += queries
        body = self.server.answer(queries)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def start(answer: Answer = honest, status: int = 200) -> Service:
        started.append(Service(answer, status))
        threading.Thread(target=started[-1].serve_forever, daemon=True).start()
        return started[-1]

    yield start
    for service in started:
        service.shutdown()
        service.server_close()


def audit(url: str, *locks: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ".ci/audit.py", "--url", url, *map(str, locks)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=patient(30))


def test_all_locked_packages_are_asked_for(serve: Callable[..., Service]):
    service = serve()
    done = audit(service.url, *LOCKS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" locked packages, 0 known vulnerabilities.\n")
    asked = {(query["package"]["name"], query["version"]) for query in service.asked}
    pinned = {found for path in LOCKS for found in re.findall(r"(?m)^([^\s=#]+)==([^\s;\\]+)", path.read_text("utf-8"))}
    assert len(pinned) > 60
    assert asked - {("jinja2", "2.4.1")} == pinned


def test_a_vulnerable_package_fails_the_check(serve: Callable[..., Service], tmp_path: Path):
    lock = tmp_path / "some.lock"
    lock.write_text(
        "fine==2.0 \\\n    --hash=sha256:00\nold-thing==1.0 ; sys_platform == 'linux' \\\n    --hash=sha256:11\n"
    )
    done = audit(serve().url, lock)
    assert done.returncode == 1
    assert "old-thing 1.0: GHSA-0002" in done.stdout
    assert "2 locked packages, 1 known vulnerabilities" in done.stdout
    assert "jinja2" not in done.stdout


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (honest, 503),
        (lambda _: b"<html>Sign in to this network</html>", 200),
        (lambda _: b'{"results": []}', 200),
        (lambda _: b"[]", 200),
        (lambda queries: json.dumps({"results": [{}] * len(queries)}).encode(), 200),
    ],
)
def test_a_service_that_does_not_answer_fails_nothing(serve: Callable[..., Service], answer: Answer, status: int):
    done = audit(serve(answer, status).url, *LOCKS)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"Audit: not done, the vulnerability service did not answer \(.+\)\.\n", done.stdout)


def test_without_a_network_it_is_over_at_once():
    started_at = time.monotonic()
    done = audit("http://127.0.0.1:1", *LOCKS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Audit: not done")
    assert time.monotonic() - started_at < patient(2)
