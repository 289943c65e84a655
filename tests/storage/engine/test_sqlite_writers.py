"""SQLite under many writers: everything is written, and nobody hears "database is locked" (case D09)."""

import contextlib
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from redraft.errors import Unavailable
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import events, jobs, step_claims, transitions
from tests.storage.conftest import job_values
from tests.support.databases.sqlite import create_sqlite
from tests.support.waiting import patient

THREADS, PROCESSES, ROUNDS = 8, 4, 15


@pytest.fixture
def url(tmp_path: Path) -> str:
    return create_sqlite(tmp_path / "redraft.db")


def write_jobs(url: str, threads: int, rounds: int) -> list[Exception]:
    """Submit, claim, advance and read, as API and workers do, from so many threads."""
    database, failures = Database(url), []

    def work(number: int) -> None:
        try:
            for _ in range(rounds):
                _one_job(database, f"wrk_{number}")
        except Exception as error:  # noqa: BLE001 - each failure is what the test looks for
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    database.close()
    return failures


def _one_job(database: Database, owner: str) -> None:
    with database.write() as connection:
        job = jobs.add(connection, job_values(event_seq=1), 600)
        assert job is not None
        events.add(connection, job, 1, [("job.queued", {})])
    with database.write() as connection:
        claim = step_claims.claim(connection, job.id, job.step, job.step_no, owner=owner, lease_s=30)
        assert claim is not None
    with database.read() as connection:
        assert jobs.get(connection, job.id) is not None
    with database.write() as connection:
        first = transitions.advance(connection, job.id, claim.job.lease_token, {"step": "evaluate"}, new_events=1)
        assert first is not None
        events.add(connection, job, first, [("iteration.generated", {})])


def counts(url: str) -> tuple[int, int]:
    database = Database(url)
    with database.read() as connection:
        found = connection.execute(text("SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM events)")).one()
    database.close()
    return tuple(found)


def test_eight_threads_write_without_a_locked_database(url: str):
    assert write_jobs(url, THREADS, ROUNDS) == []
    assert counts(url) == (THREADS * ROUNDS, 2 * THREADS * ROUNDS)


def test_four_processes_write_without_a_locked_database(url: str):
    program = (
        "import sys; from tests.storage.engine.test_sqlite_writers import write_jobs;"
        "sys.exit(str(write_jobs(sys.argv[1], 2, int(sys.argv[2])) or ''))"
    )
    arguments = [sys.executable, "-c", program, url, str(ROUNDS)]
    writers = [subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    complaints = [writer.communicate(timeout=patient(60))[1].strip() for writer in writers]
    assert complaints == [""] * PROCESSES
    assert counts(url) == (PROCESSES * 2 * ROUNDS, PROCESSES * 2 * ROUNDS * 2)


def test_a_reader_is_not_disturbed_by_an_open_write(url: str):
    database = Database(url)
    with database.write() as writer:
        jobs.add(writer, job_values(), 600)
        with database.read() as reader:
            assert reader.scalar(text("SELECT count(*) FROM jobs")) == 0
    with database.read() as reader:
        assert reader.scalar(text("SELECT count(*) FROM jobs")) == 1
    database.close()


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path: Path):
    database = Database(f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.db'}")
    with pytest.raises(Unavailable), database.read():
        pass
    database.close()


def test_what_must_not_be_lost_is_tried_again_until_the_database_is_back(tmp_path: Path):
    folder = tmp_path / "later"
    database, tries = Database(f"sqlite:///{folder / 'redraft.db'}"), []

    def appear() -> None:
        folder.mkdir()

    timer = threading.Timer(0.15, appear)
    timer.start()
    assert database.persist(lambda _: tries.append(1) or "stored", for_s=10) == "stored"
    assert tries == [1]
    timer.join()
    database.close()


def test_what_cannot_be_stored_in_time_is_given_up(tmp_path: Path):
    database = Database(f"sqlite:///{tmp_path / 'never' / 'redraft.db'}")
    with pytest.raises(Unavailable):
        database.persist(lambda _: None, for_s=0.2)
    database.close()


def test_a_database_that_another_process_is_creating_is_waited_for(tmp_path: Path):
    file = tmp_path / "redraft.db"
    database = Database(f"sqlite:///{file}")
    # Before its switch to WAL mode, a new database has a rollback journal
    with contextlib.closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.1, other.execute, ["COMMIT"])
        end.start()
        with database.engine.connect() as connection:
            assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        end.join()
    database.close()
