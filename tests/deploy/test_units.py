"""`deploy/systemd` and `docker-compose.yml`: what they start, when they stop it, and how they look after it."""

import configparser
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from redraft.operations.services import Services
from redraft.settings import Settings
from tests.deploy.manifests import DEPLOY
from tests.rules.sources import ROOT
from tests.support.databases.postgres import PostgresServer
from tests.support.shells import command_line

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
GRACE_S = Settings.model_fields["shutdown_grace_s"].default


def ensure_command(words: list[str]) -> None:
    command: Any = command_line()
    for word in words:
        command = command.commands[word]


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_start_commands_of_the_program(path: Path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(path, "utf-8")
    program, *words = unit["Service"]["ExecStart"].split()
    assert program == "/opt/redraft/bin/redraft"
    ensure_command(words)
    assert unit["Service"]["User"] == "redraft"
    assert unit["Service"]["EnvironmentFile"] in (ROOT / "docs" / "deployment.md").read_text("utf-8")
    assert unit["Service"]["Environment"] == f"REDRAFT_DATA_DIR=/var/lib/{unit['Service']['StateDirectory']}"
    if words != ["db", "upgrade"]:
        assert unit["Service"]["Restart"] == "always"
        assert seconds(unit["Service"]["TimeoutStopSec"]) >= GRACE_S + 10


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze, which checks offline")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path):
    program = tmp_path / "redraft"
    program.symlink_to(sys.executable)
    for path in UNITS:
        # The user is that of a real installation
        text = path.read_text("utf-8").replace("/opt/redraft/bin/redraft", str(program)).replace("User=redraft\n", "")
        (tmp_path / path.name).write_text(text, "utf-8")
    names = [str(tmp_path / path.name.replace("@.", "@1.")) for path in UNITS]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if str(tmp_path) in line]) == (0, [])


def test_services_of_compose_start_commands_of_the_program():
    for name in ("migrate", "api", "worker"):
        service = COMPOSE["services"][name]
        ensure_command(service["command"])
        assert service["volumes"] == ["data:/data"]
        own = {key.removeprefix("REDRAFT_").lower() for key in service["environment"] if key.startswith("REDRAFT_")}
        assert own <= set(Settings.model_fields)
    assert set(COMPOSE["volumes"]) == {"data", "postgres", "valkey"}


def test_services_of_compose_have_the_time_to_end():
    assert seconds(COMPOSE["services"]["worker"]["stop_grace_period"]) >= GRACE_S + 10
    assert seconds(COMPOSE["services"]["api"]["stop_grace_period"]) >= 5 + 10


def test_the_check_of_workers_sees_a_connection_to_the_broker_and_its_end():
    (kind, command) = COMPOSE["services"]["worker"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    (port,) = re.findall(r":([0-9A-F]{4}) 01 ", command)
    assert f":{int(port, 16)}/" in COMPOSE["services"]["worker"]["environment"]["REDRAFT_BROKER_URL"]

    with socket.create_server(("127.0.0.1", 0)) as broker:
        mine = command.replace(port, f"{broker.getsockname()[1]:04X}")
        assert subprocess.run(mine, shell=True, check=False).returncode != 0, "it only listens"
        with socket.create_connection(broker.getsockname()), broker.accept()[0]:
            assert subprocess.run(mine, shell=True, check=False).returncode == 0
        assert subprocess.run(mine, shell=True, check=False).returncode != 0


def test_the_password_of_compose_needs_no_escapes(
    postgres: PostgresServer, make_services: Callable[..., Services], monkeypatch: pytest.MonkeyPatch
):
    """The URL has no password, and the driver takes it from the environment as it is."""
    environment = COMPOSE["services"]["api"]["environment"]
    assert "PASSWORD" not in environment["REDRAFT_DATABASE_URL"]
    assert environment["PGPASSWORD"] == COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]
    password = "a:b/c@d#e?f%20g $h'i\"j"
    monkeypatch.setenv("PGPASSWORD", password)
    name = postgres.create_database()
    try:
        services = make_services(database_url=postgres.url_of(name))
        with services.database.read() as connection:
            driver: Any = connection.connection.driver_connection
            assert driver.info.password == password
        services.close()
    finally:
        postgres.drop_database(name)
