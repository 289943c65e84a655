import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from redraft.settings import Settings
from tests.embedded.folders import Folder
from tests.model_server import ModelServer
from tests.support.commands import Command
from tests.support.processes import environment_of


@pytest.fixture
def make_folder() -> Iterator[Callable[..., Folder]]:
    """Data folders under short paths; whatever still runs over one of them is ended and is a failure."""
    made: list[Folder] = []

    def make(name: str = "") -> Folder:
        made.append(Folder(Path(tempfile.mkdtemp(prefix="rd-")) / name))
        return made[-1]

    yield make
    left = [line for folder in made for line in folder.end_all()]
    for folder in made:
        shutil.rmtree(folder.path, ignore_errors=True)
    assert not left


@pytest.fixture
def folder(make_folder: Callable[..., Folder]) -> Folder:
    return make_folder()


@pytest.fixture
def make_embedded(model_server: ModelServer) -> Callable[..., Settings]:
    """Settings of embedded mode over the scripted model server, with short timers."""

    def make(folder: Folder, **changes: Any) -> Settings:
        values: dict[str, Any] = {
            "data_dir": folder.path,
            "model": "openai:writer",
            "openai_api_key": SecretStr("sk-test"),
            "openai_base_url": model_server.openai_url,
            "worker_concurrency": 4,
            "lease_s": 4.0,
            "ring_again_s": 0.5,
            "heartbeat_s": 0.5,
            "sweep_s": 0.2,
            "shutdown_grace_s": 1.0,
            "port": 0,
        }
        return Settings(**{**values, **changes})

    return make


@pytest.fixture
def command(make_embedded: Callable[..., Settings]) -> Iterator[Callable[..., Command]]:
    """`command(folder, "serve", …)` starts `redraft serve …` over a data folder."""
    started: list[Command] = []

    def start(folder: Folder, *arguments: str, is_fork: bool = True, **changes: Any) -> Command:
        environment = environment_of(make_embedded(folder, **changes))
        started.append(Command(arguments, environment, is_fork=is_fork))
        return started[-1]

    yield start
    for each in started:
        each.remove()
