"""Backs up the database into one file. An existing file is replaced only after the copy is complete."""

import contextlib
import os
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from redraft.errors import Conflict, Invalid, Unavailable
from redraft.operations.services import Services
from redraft.storage.admin import backups
from redraft.storage.admin.backups import Progress
from redraft.storage.engine import schema


@dataclass(frozen=True, slots=True)
class Backup:
    file: Path
    kind: str
    schema: str
    size: int


def back_up(
    services: Services, file: Path, *, may_replace: bool = False, on_progress: Progress = lambda _share, _size: None
) -> Backup:
    """Copy the database into a file without downtime. With `may_replace` a complete copy replaces an existing file.

    Only the file's owner can read it, because it contains all tasks and answers. `on_progress` gets the copied share
    (0 to 1, None if unknown) and the number of copied bytes.

    Raises:
        Conflict: the file exists.
        Invalid: the file is the database itself, a folder or a device.
        Unavailable: the database or the folder cannot be used, or the copy failed.
    """
    database = services.database
    current = schema.current(database)
    if current is None:
        raise Unavailable("The database has no schema yet: there is nothing to back up.", code="schema_outdated")
    _check_place(services, file, may_replace=may_replace)
    copy = backups.copy_sqlite if database.is_sqlite else backups.dump_postgresql
    with _written_whole(file) as partial:
        copy(database, partial, on_progress)
    return Backup(file, database.url.get_backend_name(), current, file.stat().st_size)


def _check_place(services: Services, file: Path, *, may_replace: bool) -> None:
    source = str(Path(services.database.url.database or "").resolve())
    own = {source, *(source + end for end in ("-wal", "-shm", "-journal"))}
    if services.database.is_sqlite and str(file.resolve()) in own:
        raise Invalid.at("/file", f"{file} is the database itself, or belongs to it.", "backup_file")
    if file.is_dir():
        raise Invalid.at("/file", f"{file} is a folder; name a file.", "backup_file")
    if file.exists() and not file.is_file():
        raise Invalid.at("/file", f"{file} is a device, a pipe or a socket; name a file.", "backup_file")
    if file.exists() and not may_replace:
        raise Conflict(f"{file} already exists; --force replaces it.", code="file_exists")


@contextlib.contextmanager
def _written_whole(file: Path) -> Generator[Path]:
    """Yield a temporary file in the same folder, and rename it to the target after it is written to the disk."""
    try:
        # The folder must be the same: a rename is atomic only within one file system
        handle, name = tempfile.mkstemp(prefix=f".{file.name}-", suffix=".partial", dir=file.parent)
        os.close(handle)
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}.", code="backup_failed") from error
    partial = Path(name)
    try:
        yield partial
        # Without the first sync, the file could be empty after a power failure. Without the second, the rename could
        # be undone
        _sync(partial)
        partial.replace(file)
        _sync(file.parent)
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}.", code="backup_failed") from error
    finally:
        partial.unlink(missing_ok=True)
        partial.with_name(f"{partial.name}-journal").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
