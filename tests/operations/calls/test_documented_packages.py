"""The packages in the docs work as they stand there: their code is installed with its entry points, and called."""

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from redraft.prompts.profiles import load_profiles
from redraft.redaction import MARK
from tests.media import PNG, attachment
from tests.model_server import ModelServer
from tests.operations.calls.packages import installed_package
from tests.operations.driving import Driver

ROOT = Path(__file__).parents[3]
KEY = "acme-1234567890"
PAGES = ("checks.md", "profiles.md", "compatible-servers.md")


class _Acme(BaseHTTPRequestHandler):
    """The server of the documented provider, which repeats its key."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert json.loads(body)["model"] == "writer"
        reply = json.dumps({"text": "LOUD", "tokens_in": 7, "tokens_out": 3, "seen": self.headers["X-Key"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None:
        pass


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def entry_points_of(page: str) -> str:
    """The entry points in the pyproject.toml of a page, in the form of the metadata of a distribution."""
    [block] = [each for each in blocks(page, "toml") if "[project.entry-points" in each]
    group, line = re.findall(r'^\[project\.entry-points\."(.+)"\]\n(.+)$', block, re.MULTILINE)[0]
    name, target = re.findall(r'^(\w+) = "([\w:]+)"', line)[0]
    return f"[{group}]\n{name} = {target}\n"


@pytest.fixture
def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Acme)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    [provider] = [each for each in blocks("compatible-servers.md", "python") if "class AcmeProvider" in each]
    address = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "acme_models.py").write_text(provider.replace("https://models.example.com", address))
    [check] = [each for each in blocks("checks.md", "python") if "def shout" in each]
    (tmp_path / "acme_checks.py").write_text(check)
    (tmp_path / "acme_profiles").mkdir()
    (tmp_path / "acme_profiles" / "__init__.py").touch()
    built_in = ROOT / "redraft" / "prompts" / "evaluate" / "other_profiles" / "quality"
    shutil.copytree(built_in, tmp_path / "acme_profiles" / "acme-tone")
    monkeypatch.setenv("ACME_KEY", KEY)
    with installed_package(tmp_path, "".join(map(entry_points_of, PAGES)), monkeypatch):
        yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("documented")
@pytest.mark.parametrize("stream", [False, True])
def test_the_documented_packages_generate_and_evaluate(
    make_driver: Callable[..., Driver], model_server: ModelServer, *, stream: bool
):
    assert load_profiles(None).get("acme-tone").title
    driver = make_driver()
    rubric = [{"id": "own", "kind": "check", "check": {"kind": "package", "value": "shout"}}]
    job = driver.run_new(model="acme:writer", evaluator_model="openai:e", rubric=rubric, stream=stream)
    assert (job.stop_reason, (job.result or {})["final_answer"]) == ("accepted", "LOUD")
    [call] = driver.calls(job.id)
    assert (call.input_tokens, call.output_tokens, call.response["seen"]) == (7, 3, MARK)
    assert not model_server.requests()
    driver.services.providers.close()


@pytest.mark.usefixtures("documented")
def test_a_provider_that_drops_attachments_ends_the_job(make_driver: Callable[..., Driver]):
    driver = make_driver()
    job = driver.run_new(model="acme:writer", evaluator_model="openai:e", attachments=[attachment(PNG)])
    assert job.error is not None
    assert (job.status, job.error["code"]) == ("failed", "provider_bad_request")
    assert "sends no images and PDFs" in job.error["detail"]
    driver.services.providers.close()
