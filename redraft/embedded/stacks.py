"""The embedded stack of a data folder: one process owns its broker and its worker, others join.

When the owner goes, one of those that joined takes over: the next worker finds every job in the database.
"""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import structlog

from redraft.embedded.environments import environment_for_child
from redraft.embedded.lifelines import EMBEDDED, SILENCE_TIMES, guarded
from redraft.embedded.locks import FolderLock
from redraft.embedded.parts import Part
from redraft.embedded.valkeys import answers, prepare_folders, valkey_command
from redraft.errors import RedraftError, Unavailable
from redraft.settings import Settings

log = structlog.get_logger()

_BROKER_READY_WITHIN_S = 30.0
_BROKER_FAILURES_MAX = 3
_BROKER_GRACE_S = 7.0
_TAKEOVER_CHECK_S = 0.3
_POLL_S = 0.01
_LOG_LINES_SHOWN = 8
# Added to the worker's own grace, so that it can release its leases before SIGKILL.
_WORKER_SLACK_S = 5.0


class Stack:
    """Use `redraft.embedded.stack(settings)`."""

    def __init__(self, settings: Settings, worker_log: Path | None) -> None:
        self._settings = settings
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
        """Start or join; returns when the broker answers. The worker is on its way."""
        prepare_folders(self._settings)
        self._start_if_free()
        self._upgrade()
        self._begin()
        self._await_broker()
        self._watcher.start()

    def ensure(self) -> None:
        """Take over when the process that this one joined has gone; done every moment by a thread as well."""
        if self._settings.is_embedded_broker and self._start_if_free():
            self._begin()

    def close(self) -> None:
        """End the parts that are ours: the worker first, within its grace, then the broker."""
        self._closing.set()
        if self._watcher.is_alive():
            self._watcher.join()
        with self._lock:
            try:
                self._stop("worker", self._settings.shutdown_grace_s + _WORKER_SLACK_S)
            finally:
                self._stop("valkey", _BROKER_GRACE_S)
                self._folder_lock.release()

    def _stop(self, name: str, grace_s: float) -> None:
        part = self._parts.pop(name, None)
        if part is not None:
            part.stop(grace_s)

    def _start_if_free(self) -> bool:
        with self._lock:
            if self.is_owner or self._closing.is_set() or not self._folder_lock.try_take():
                return False
            self._start()
            return True

    def _start(self) -> None:
        environment = environment_for_child(self._settings)
        broker = valkey_command(self._settings)
        # Without the current folder on the path: a `worker.py` there would be started instead.
        worker = guarded(
            [sys.executable, "-P", "-m", "worker", EMBEDDED],
            self._settings.shutdown_grace_s + _WORKER_SLACK_S,
            # It waits for the previous worker to end, and takes over its leases
            self._settings.data_dir.absolute() / "worker.lock",
            silent_s=SILENCE_TIMES * self._settings.frozen_after_s,
        )
        self._parts["valkey"] = Part("valkey", broker, environment, self._broker_log)
        self._parts["worker"] = Part("worker", worker, environment, self._worker_log)

    def _upgrade(self) -> None:
        if self._settings.database_url:
            return
        # Import here: the children start and import in parallel.
        from redraft.storage.engine import schema
        from redraft.storage.engine.work import Database

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
        while not answers(self._settings.broker_socket):
            self.ensure()
            broker = self._parts.get("valkey")
            if time.monotonic() > give_up_at or (broker and broker.failures >= _BROKER_FAILURES_MAX):
                told = _log_end(self._broker_log) if broker else "it belongs to another process"
                raise Unavailable(f"The embedded broker does not start: {told}", code="broker_unavailable")
            time.sleep(_POLL_S)

    def _watch(self) -> None:
        while not self._closing.wait(_TAKEOVER_CHECK_S):
            try:
                self.ensure()
            except (RedraftError, OSError):
                log.exception("takeover_failed")


@contextmanager
def open_stack(settings: Settings, worker_log: Path | None) -> Generator[Stack]:
    """See `redraft.embedded.stack`."""
    built = Stack(settings, worker_log)
    if not settings.is_embedded_broker:
        yield built
        return
    try:
        built.open()
        yield built
    finally:
        built.close()


def _log_end(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines()[-_LOG_LINES_SHOWN:]
    return " | ".join(line.strip() for line in lines if line.strip())
