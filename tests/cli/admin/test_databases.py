"""`redraft db prune`, `backup`, and a schema of a later version."""

import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from redraft.operations.services import Services
from redraft.storage.engine import schema
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import jobs
from tests.support.next_release import REVISION, upgrade_to_next_release
from tests.support.shells import Shell

AddJob = Callable[..., str]


def age(services: Services, job_id: str, days: float) -> None:
    with services.database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(finished_at=DbNow(-days * 86_400)))


def test_old_jobs_are_counted_and_then_removed(shell: Shell, home: Services, add_job: AddJob) -> None:
    old, young = add_job(is_done=True), add_job(is_done=True)
    age(home, old, 31)
    counted = shell.run("db", "prune", "--older", "30d", "--dry-run")
    assert (counted.code, counted.out) == (0, "")
    assert "To remove: 1 succeeded; ended before" in counted.err
    assert shell.run("jobs", "show", old).code == 0
    removed = shell.run("db", "prune", "--older", "30d", "--json")
    assert removed.data["jobs"] == {"succeeded": 1}
    assert removed.data["dry_run"] is False
    assert removed.data["before"].endswith("Z")
    assert shell.run("jobs", "show", old).code == 5
    assert shell.run("jobs", "show", young).code == 0
    assert "Removed: none" in shell.run("db", "prune", "--older", "2w").err


def test_only_named_statuses_are_removed(shell: Shell, home: Services, add_job: AddJob) -> None:
    job_id = add_job(is_done=True)
    age(home, job_id, 3)
    kept = shell.run("db", "prune", "--older", "12h", "--status", "failed", "--status", "canceled", "--json")
    assert kept.data["jobs"] == {}
    assert shell.run("db", "prune", "--older", "12h", "--status", "succeeded", "--json").data["jobs"] == {
        "succeeded": 1
    }


@pytest.mark.parametrize(
    "wrong",
    [
        ("--older", "soon"),
        ("--older", "30"),
        ("--older", "-1d"),
        ("--older", "99999w"),
        ("--older", "1d", "--status", "running"),
        (),
    ],
)
def test_a_wrong_age_or_status_removes_nothing(shell: Shell, wrong: tuple[str, ...]) -> None:
    assert shell.run("db", "prune", *wrong).code == 2


def test_a_backup_is_a_database_that_works(shell: Shell, add_job: AddJob, tmp_path: Path) -> None:
    job_id = add_job(is_done=True)
    file = tmp_path / "copy.db"
    made = shell.run("db", "backup", str(file), "--json")
    assert made.code == 0
    assert made.data == {"file": str(file), "kind": "sqlite", "schema": schema.head(), "bytes": file.stat().st_size}
    assert "keep it safe" in made.err
    (tmp_path / "restored").mkdir()
    file.rename(tmp_path / "restored" / "redraft.db")
    restored = shell.run("jobs", "show", job_id, "--json", REDRAFT_DATA_DIR=str(tmp_path / "restored"))
    assert restored.data["status"] == "succeeded"


def test_a_backup_replaces_a_file_only_when_told_to(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "copy.db"
    file.write_text("precious")
    refused = shell.run("db", "backup", str(file))
    assert refused.code == 1
    assert "--force" in refused.err
    assert file.read_text() == "precious"
    assert shell.run("db", "backup", str(file), "--force").code == 0
    with closing(sqlite3.connect(file)) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_backup_that_cannot_be_written_is_75(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("db", "backup", str(tmp_path / "no" / "copy.db")).code == 75


def test_a_full_disk_leaves_no_half_backup(shell: Shell, home: Services, tmp_path: Path) -> None:
    with home.database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE ballast AS SELECT zeroblob(4000000) AS weight")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, usual[1]))
    try:
        done = shell.run("db", "backup", str(tmp_path / "copy.db"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert done.code == 75, done.err
    assert "The backup failed" in done.err
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == []


def test_a_schema_of_a_later_version_is_worked_with_and_told(shell: Shell, home: Services, add_job: AddJob) -> None:
    job_id = add_job(is_done=True)
    upgrade_to_next_release(home.database)
    found = shell.run("db", "current")
    assert (found.code, found.out.strip()) == (0, REVISION)
    assert "which is newer than version" in found.err
    upgraded = shell.run("db", "upgrade", "--json")
    assert upgraded.data == {"before": REVISION, "current": REVISION}
    assert "which is newer than version" in upgraded.err
    assert shell.run("jobs", "show", job_id).code == 0
    outside = {"REDRAFT_DATABASE_URL": str(home.database.url)}
    assert shell.run("jobs", "show", job_id, **outside).code == 0
