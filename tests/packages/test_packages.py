"""What `pip install` of the wheels brings, without anything of the checkout."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import httpx2
import pytest

from tests.model_server.server import ModelServer
from tests.packages.conftest import ROOT, Environment, wheel
from tests.support.waiting import patient

# Further interpreters to test the client with, separated by spaces; one for each version is enough
PYTHONS = os.environ.get("PYTHONS", "").split()
PROGRAM = """
import asyncio, sys
from redraft_client import AsyncRedraft, Redraft

TASK = {"instruct": "What is the capital of France?", "eval_crit": "Names the city."}

async def ask():
    async with AsyncRedraft() as redraft:
        return (await redraft.generate_answer(**TASK)).text

with Redraft() as redraft:
    answer = redraft.generate_answer(**TASK)
    events = [each.type for each in redraft.jobs.events(answer.job.id)]
print(answer.text, answer.success, events[-1], asyncio.run(ask()), "%d.%d" % sys.version_info[:2], sep="|")
"""


@pytest.fixture
def keys(model_server: ModelServer) -> dict[str, str]:
    """The settings of somebody who has a compatible server."""
    return {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": model_server.openai_url}


def version_of(python: str) -> str:
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2], end='')"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def tracked(*folders: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(filter(None, listed.stdout.split("\0")))


@pytest.mark.parametrize(
    ("name", "folder", "sources"),
    [("redraft", ".", ("redraft", "api", "worker", "migrations")), ("redraft_client", "client", ("redraft_client",))],
)
def test_wheel_and_sdist_have_every_file_and_nothing_else(name: str, folder: str, sources: tuple[str, ...]):
    prefix = "" if folder == "." else f"{folder}/"
    wanted = {path.removeprefix(prefix) for path in tracked(*(f"{prefix}{each}" for each in sources))}
    with zipfile.ZipFile(wheel(name)) as opened:
        in_wheel = {path for path in opened.namelist() if ".dist-info/" not in path}
    [sdist] = wheel(name).parent.glob(f"{name}-*.tar.gz")
    with tarfile.open(sdist) as opened:
        in_sdist = {path.partition("/")[2] for path in opened.getnames()}
    assert in_wheel == wanted
    assert in_sdist >= {*wanted, "LICENSE", "pyproject.toml"}
    assert not [path for path in in_sdist if path.startswith("tests") or "__pycache__" in path]


@pytest.mark.parametrize("name", ["redraft", "redraft_client"])
def test_metadata_is_complete_and_its_text_has_no_links_into_the_checkout(name: str):
    with zipfile.ZipFile(wheel(name)) as opened:
        [path] = [each for each in opened.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(opened.read(path))
        assert path.replace("METADATA", "licenses/LICENSE") in opened.namelist()
    assert metadata["License-Expression"] == "Apache-2.0"
    assert (metadata["Requires-Python"], metadata["Description-Content-Type"]) == (">=3.11", "text/markdown")
    assert metadata["Summary"]
    assert metadata.get_all("Classifier")
    text = str(metadata.get_payload())
    assert [extra for extra in metadata.get_all("Provides-Extra", []) if f"`redraft[{extra}]`" not in text] == []
    assert len(text) > 1000
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


def test_without_a_model_the_demo_says_how_to_get_one(installed: Environment):
    said = installed.run("redraft", "demo", expect=2)
    [line] = [line for line in said.splitlines() if "model" in line and "not installed" in line]
    assert "OPENAI_API_KEY" in line
    assert "pip install 'redraft[local]'" in line


def test_the_schema_is_migrated_to_the_newest_version(installed: Environment):
    newest = max(Path(path).name for path in tracked("migrations/versions") if re.match(r"\d+_", Path(path).name))
    installed.run("redraft", "db", "upgrade")
    assert installed.run("redraft", "db", "current").strip() == newest[:4]


def test_the_demo_runs_with_a_server_of_the_user(installed: Environment, keys: dict[str, str]):
    said = installed.run("redraft", "demo", **keys)
    assert said.count("Final answer:") == 2
    assert "Traceback" not in said
    assert list((installed.folder / "work").iterdir()) == []


def test_the_server_has_its_pages_and_answers_the_client(
    installed: Environment, keys: dict[str, str], tmp_path: Path, model_server: ModelServer
):
    model_server.script(generate=["Paris"], evaluate=[0.9])
    with installed.serving(**keys) as url:
        _look_at_pages(url)
        for version, python in {version_of(each): each for each in (*PYTHONS, sys.executable)}.items():
            client = Environment.make(tmp_path / version, python, wheel("redraft_client"))
            said = client.run("python", "-W", "error", "-c", PROGRAM, REDRAFT_SERVER=url)
            assert said == f"Paris|True|done|Paris|{version}\n"


def test_commands_at_a_server_elsewhere_need_the_client(
    installed: Environment, keys: dict[str, str], model_server: ModelServer
):
    model_server.script(generate=["Paris"], evaluate=[0.9])
    task = ("ask", "What is the capital of France?", "--crit", "Names the city.")
    with installed.serving(**keys) as url:
        said = installed.run("redraft", *task, expect=2, REDRAFT_SERVER=url)
        assert "pip install 'redraft[remote]'" in said
        # A wheel can be imported as it is
        with_client = {"REDRAFT_SERVER": url, "PYTHONPATH": str(wheel("redraft_client"))}
        assert "Paris" in installed.run("redraft", *task, **with_client)
        assert "accepted" in installed.run("redraft", "jobs", "list", **with_client)


def _look_at_pages(url: str) -> None:
    with httpx2.Client(base_url=url, timeout=patient(30), headers={"Accept": "text/html"}) as browser:
        for path in ("/", "/new", "/jobs", "/runs", "/docs"):
            page = browser.get(path, follow_redirects=True)
            assert page.status_code == 200, path
            files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
            assert files, path
            for file in files:
                assert browser.get(file).status_code == 200, file
        names = [each["name"] for each in browser.get("/v1/profiles").json()["data"]]
        assert {"criteria", "quality", "evidence"} <= set(names)
