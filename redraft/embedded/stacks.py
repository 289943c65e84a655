"""Runs the embedded stack of a data folder. One process owns broker and worker, and other processes use them.

When the owner ends, another process starts a broker and a worker. No job is lost, since the database has all jobs.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr

from redraft.embedded.broker import answers, prepare_folders, valkey_command
from redraft.embedded.child_processes import Part
from redraft.embedded.locks import FolderLock
from redraft.embedded.parent_death import EMBEDDED, SILENCE_TIMES, guarded
from redraft.embedded.stop_signals import StopSignals
from redraft.errors import RedraftError, Unavailable
from redraft.settings import Settings

log = structlog.get_logger()

# Valkey loads its append-only file before it answers
_BROKER_READY_WITHIN_S = 30.0
_BROKER_FAILURES_MAX = 3
_BROKER_GRACE_S = 7.0
_TAKEOVER_CHECK_S = 0.3
_POLL_S = 0.01
_LOG_LINES_SHOWN = 8
# The worker needs time after its own grace period to release its leases before SIGKILL
_WORKER_SLACK_S = 5.0


class Stack:
    """The child processes of a data folder. `redraft.embedded.stack` opens and closes a stack."""

    def __init__(self, settings: Settings, worker_log: Path | None, signals: StopSignals | None) -> None:
        self._settings = settings
        self._signals = signals or StopSignals()
        self._worker_log = worker_log
        self._broker_log = settings.data_dir.absolute() / "valkey.log"
        self._lock = threading.Lock()
        self._folder_lock = FolderLock(settings.data_dir.absolute() / "embedded.lock")
        self._parts: dict[str, Part] = {}
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="takeover", daemon=True)

    @property
    def is_owner(self) -> bool:
        """Whether broker and worker are children of this process."""
        return self._folder_lock.is_held

    def open(self) -> None:
        """Start or join the stack. Wait until the broker answers, but not for the worker. A signal ends the wait."""
        prepare_folders(self._settings)
        self._start_if_free()
        self._upgrade()
        self._begin()
        self._await_broker()
        self._watcher.start()

    def ensure(self) -> None:
        """Start broker and worker if their owner has ended. A thread also calls this several times a second."""
        if self._settings.is_embedded_broker and self._start_if_free():
            self._begin()

    def close(self) -> None:
        """End our child processes: first the worker, which needs the broker until its end, then the broker."""
        self._closing.set()
        if self._watcher.is_alive():
            self._watcher.join()
        with self._lock:
            worker, broker = self._parts.pop("worker", None), self._parts.pop("valkey", None)
            try:
                if worker:
                    worker.stop(self._settings.shutdown_grace_s + _WORKER_SLACK_S, self._signals)
            finally:
                if broker:
                    broker.stop(_BROKER_GRACE_S, StopSignals())
                self._folder_lock.release()

    def _start_if_free(self) -> bool:
        with self._lock:
            if self.is_owner or self._closing.is_set() or not self._folder_lock.try_take():
                return False
            environment = environment_for_child(self._settings)
            broker, worker = valkey_command(self._settings), self._worker_command()
            self._parts["valkey"] = Part("valkey", broker, environment, self._broker_log)
            self._parts["worker"] = Part("worker", worker, environment, self._worker_log)
            return True

    def _worker_command(self) -> list[str]:
        return guarded(
            # With -P, Python ignores a file `worker.py` in the current folder
            [sys.executable, "-P", "-m", "worker", EMBEDDED],
            self._settings.shutdown_grace_s + _WORKER_SLACK_S,
            # The lock lets a new worker start only after the end of the previous one, whose leases it then takes over
            self._settings.data_dir.absolute() / "worker.lock",
            silent_s=SILENCE_TIMES * self._settings.frozen_after_s,
        )

    def _upgrade(self) -> None:
        if self._settings.database_url:
            return
        # Imported here, so that the child processes start during the import
        from redraft.storage.engine import schema
        from redraft.storage.engine.unit_of_work import Database

        database = Database(self._settings.effective_database_url)
        try:
            schema.upgrade(database)
        finally:
            database.close()

    def _begin(self) -> None:
        with self._lock:
            if "worker" in self._parts:
                self._parts["worker"].begin()

    def _await_broker(self) -> None:
        give_up_at = time.monotonic() + _BROKER_READY_WITHIN_S
        while not self._signals.is_stopping and not answers(self._settings.broker_socket):
            self.ensure()
            broker = self._parts.get("valkey")
            if time.monotonic() > give_up_at or (broker and broker.failures >= _BROKER_FAILURES_MAX):
                reason = _log_end(self._broker_log) if broker else "it belongs to another process"
                raise Unavailable(f"The embedded broker does not start: {reason}", code="broker_unavailable")
            time.sleep(_POLL_S)

    def _watch(self) -> None:
        while not self._closing.wait(_TAKEOVER_CHECK_S):
            try:
                self.ensure()
            except (RedraftError, OSError):
                log.exception("takeover_failed")


def _log_end(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines()[-_LOG_LINES_SHOWN:]
    return " | ".join(line.strip() for line in lines if line.strip())


def environment_for_child(settings: Settings) -> dict[str, str]:
    """Return an environment that gives a child the same settings, including those from options or code."""
    plain = Settings()
    changed = {
        name: _as_text(settings, name)
        for name in Settings.model_fields
        if getattr(settings, name) != getattr(plain, name)
    }
    # Always set. If these variables were empty, they would count as unset, and the child would read its `.env` file
    changed |= {
        "data_dir": str(settings.data_dir.absolute()),
        "broker_url": settings.effective_broker_url,
        "database_url": settings.effective_database_url,
    }
    return {**os.environ, **{f"REDRAFT_{name.upper()}": text for name, text in changed.items()}}


def _as_text(settings: Settings, name: str) -> str:
    value: Any = getattr(settings, name)
    if value is None:
        return ""
    plain = settings.model_dump(include={name})[name]
    return json.dumps(plain, default=_plain) if isinstance(plain, dict | list | bool) else _plain(plain)


def _plain(value: Any) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
