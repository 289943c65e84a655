"""Copies a consistent view of a whole database into a file, while other processes write."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import URL

from redraft.errors import Unavailable
from redraft.storage.engine.unit_of_work import Database

_PAGES_AT_ONCE = 512
_PROGRESS_EVERY_S = 0.5
_LOCK_WAIT_MS = 10_000

# The arguments are the copied share (None if unknown) and the number of copied bytes
Progress = Callable[[float | None, int], None]


def copy_sqlite(database: Database, target: Path, on_progress: Progress) -> None:
    """Copy one view of the database page by page. Later writes are not in the copy.

    Raises Unavailable if the database cannot be read, the file cannot be written, or the copy is damaged.
    """
    try:
        with (
            closing(sqlite3.connect(str(database.url.database), isolation_level=None)) as source,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            _copy_pages(source, copy, on_progress)
            # In WAL mode, the copy would consist of several files
            copy.execute("PRAGMA journal_mode=DELETE")
            findings = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(5)")]
    except sqlite3.Error as error:
        raise Unavailable(f"The backup failed: {error}", code="backup_failed") from error
    if findings != ["ok"]:
        message = f"The backup is damaged, because the database is damaged: {findings[0]}"
        raise Unavailable(message, code="database_damaged")


def _copy_pages(source: sqlite3.Connection, copy: sqlite3.Connection, on_progress: Progress) -> None:
    size = int(source.execute("PRAGMA page_size").fetchone()[0])

    def progress(_status: int, left: int, total: int) -> None:
        on_progress(1 - left / max(1, total), (total - left) * size)

    copy.execute("PRAGMA synchronous=OFF")
    # Copy within a transaction. Without one, SQLite starts the copy again at each write of another process
    source.execute("BEGIN")
    source.execute("SELECT count(*) FROM sqlite_master").fetchone()
    source.backup(copy, pages=_PAGES_AT_ONCE, progress=progress)


def dump_postgresql(database: Database, target: Path, on_progress: Progress) -> None:
    """Write one view of the database with `pg_dump` as an archive for `pg_restore`.

    Raises Unavailable if pg_dump is not installed, or if it fails.
    """
    program = shutil.which("pg_dump")
    if program is None:
        message = f"pg_dump is not installed here. On a machine with pg_dump, run: {dump_command(database.url)}"
        raise Unavailable(message, code="pg_dump_missing")
    with _address(database.url) as address:
        files = [f"--file={target}", f"--dbname={address}"]
        arguments = [program, "--format=custom", "--no-password", f"--lock-wait-timeout={_LOCK_WAIT_MS}", *files]
        _run(arguments, lambda: on_progress(None, target.stat().st_size))
    # Use the pg_restore beside pg_dump, because a pg_restore of another version may not read the archive
    restorer = Path(program).with_name("pg_restore")
    if restorer.exists():
        _run([str(restorer), "--list", "--file=/dev/null", str(target)], lambda: None)


def dump_command(url: URL) -> str:
    """Return a command that a user can run. The command asks for the password."""
    return f"pg_dump --format=custom --file=FILE '{_without_password(url)}'"


def _run(arguments: list[str], watch: Callable[[], None]) -> None:
    with subprocess.Popen(  # noqa: S603 - a program of PostgreSQL's, found by name, without a shell
        arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while True:
            try:
                error_output = process.communicate(timeout=_PROGRESS_EVERY_S)[1]
                break
            except subprocess.TimeoutExpired:
                watch()
            except BaseException:
                process.kill()
                raise
    if process.returncode:
        message = " ".join(error_output.split())[:600]
        raise Unavailable(f"{Path(arguments[0]).name} failed: {message}", code="backup_failed")


def _without_password(url: URL) -> str:
    query = {name: value for name, value in url.query.items() if name not in {"password", "sslpassword"}}
    bare = URL.create("postgresql", url.username, None, url.host, url.port, url.database, query)
    return bare.render_as_string(hide_password=False)


@contextmanager
def _address(url: URL) -> Generator[str]:
    """Yield the database's URL for a program of PostgreSQL. A temporary private file has the password."""
    # The password is not in the URL, because other users can read the arguments of a process
    password = url.password or url.query.get("password")
    if not password:
        yield _without_password(url)
        return
    escaped = str(password).replace("\\", "\\\\").replace(":", "\\:")
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="redraft-") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(f"*:*:*:*:{escaped}\n")
        file.flush()
        yield _without_password(url.update_query_dict({"passfile": file.name}))
