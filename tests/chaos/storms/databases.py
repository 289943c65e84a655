"""Databases that can be taken away: a PostgreSQL of one's own that crashes, a SQLite file that somebody locks."""

import signal
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
from psycopg import sql

from tests.support.databases.postgres import PostgresServer
from tests.support.waiting import let_pass, patient, wait_until

# Commit times tell the auditor exactly what had been committed when something else began.
_SETTINGS = {"track_commit_timestamp": "on"}


class CrashingPostgres(PostgresServer):
    """`crash` is PostgreSQL's immediate shutdown: no goodbye, and recovery from the log at the next start."""

    def __init__(self) -> None:
        super().__init__()
        for name, value in _SETTINGS.items():
            self._execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        self.crash()
        self.start()

    def crash(self) -> None:
        process = self._server.get_postmaster_info().process
        assert process is not None
        backends = process.children(recursive=True)
        process.send_signal(signal.SIGQUIT)
        wait_until(lambda: not any(map(_runs, [process, *backends])), what="the end of PostgreSQL")

    def start(self) -> None:
        def is_up() -> bool:
            try:
                self._server.ensure_postgres_running()
            except (subprocess.SubprocessError, AssertionError):
                return False
            return True

        wait_until(is_up, within_s=15, every_s=0.2, what="PostgreSQL")


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold SQLite's write lock; to another connection it is the same whether a thread or a process has it."""
    connection = sqlite3.connect(path, timeout=patient(30), isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def lock_for(path: Path, seconds: float) -> None:
    with locked(path):
        let_pass(seconds)
