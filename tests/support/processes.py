"""Worker processes, their settings and their environment."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil
from pydantic import SecretStr
from pydantic_core import to_json
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from redraft.operations.admin.readiness import alive_workers
from redraft.operations.services import Services
from redraft.settings import Settings
from tests.support.forks import Fork
from tests.support.waiting import patient, wait_until

_OWN = ("REDRAFT_", "OPENAI_", "ANTHROPIC_")


class GivenSettings(Settings):
    """Settings from arguments only: to look for each of them in the environment takes four times as long."""

    model_config = SettingsConfigDict(toml_file=None)

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def clean_environment() -> dict[str, str]:
    """This process's environment without anything that would set a setting."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}


def environment_of(settings: Settings) -> dict[str, str]:
    """The environment under which another process has the same settings."""
    own = {f"REDRAFT_{name.upper()}": _as_text(getattr(settings, name)) for name in settings.model_fields_set}
    return {**clean_environment(), **{name: text for name, text in own.items() if text is not None}}


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return to_json(value, exclude_none=True).decode()
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no longer, also where nobody reaps orphans, as in a container without an init process."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class WorkerProcess:
    """`python -m worker` with these settings; its log goes to a file."""

    def __init__(self, services: Services, **environment: str) -> None:
        self._services = services
        self.log_file = Path(tempfile.mkstemp(prefix="worker-", suffix=".log")[1])
        own = {**environment_of(services.settings), **environment}
        with self.log_file.open("ab") as log:
            self.process = Fork("worker", environment=own, out=log.fileno())

    def wait_ready(self, count: int = 1) -> "WorkerProcess":
        def is_ready() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"the worker ended: {self.log_text()}")
            return alive_workers(self._services) >= count

        wait_until(is_ready, within_s=30, what="the worker")
        return self

    def log_text(self) -> str:
        return self.log_file.read_text("utf-8", "replace")

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.process.kill()
        self.process.wait(timeout=patient(10))

    def stop(self, within_s: float = 30) -> int:
        """SIGTERM, and wait for the end."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=patient(within_s))
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    def remove(self) -> None:
        """No goodbye, which takes a second and more; but a process that is measured tells at its end what it ran."""
        if "COVERAGE_PROCESS_CONFIG" in os.environ:
            self.stop()
        else:
            self.kill()
        self.log_file.unlink(missing_ok=True)
