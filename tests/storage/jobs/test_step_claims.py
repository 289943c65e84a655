"""Claims of steps, leases and their tokens under many workers; which steps the sweeper takes."""

from typing import Any

import pytest
from sqlalchemy import select, update

from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.group_commit import GroupCommit
from redraft.storage.engine.tables import jobs as table
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import due_steps, events, step_claims, transitions
from redraft.storage.jobs.jobs import JobRecord
from redraft.storage.jobs.step_claims import Claim
from tests.storage.conftest import AddJob, at_once, read_job

pytestmark = pytest.mark.both_databases

ENDED = {"status": "failed", "stop_reason": "error", "finished_at": DbNow()}


def claim(database: Database, job: JobRecord, *, lease_s: float = 30, owner: str = "wrk_1") -> Claim | None:
    with database.write() as connection:
        return step_claims.claim(connection, job.id, job.step, job.step_no, owner=owner, lease_s=lease_s)


def must_claim(database: Database, job: JobRecord, **options: Any) -> Claim:
    found = claim(database, job, **options)
    assert found is not None
    return found


def advance(database: Database, job_id: str, token: int, **values: Any) -> int | None:
    with database.write() as connection:
        return transitions.advance(connection, job_id, token, values, new_events=1)


def test_of_sixteen_claims_at_once_one_succeeds(database: Database, add_job: AddJob):
    job = add_job()
    claims = at_once(16, lambda n: claim(database, job, owner=f"wrk_{n}"))
    (winner,) = [found for found in claims if found]
    row = read_job(database, job.id)
    assert (row.lease_owner, row.lease_token) == (winner.job.lease_owner, 1)
    assert (row.status, row.step_claims, row.lost_leases) == ("running", 1, 0)


def test_a_claim_tells_the_time_left_and_what_it_starts(database: Database, add_job: AddJob):
    found = must_claim(database, add_job())
    assert 590 < found.remaining_s <= 600
    assert (found.starts_job, found.starts_iteration) == (True, True)
    assert found.job.started_at is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "evaluate"},
        {"step_no": 2},
        {"available_at": DbNow(60)},
        {"lease_expires_at": DbNow(60), "lease_owner": "wrk_2"},
        ENDED,
    ],
)
def test_what_is_not_due_is_not_claimed(database: Database, add_job: AddJob, changes: dict[str, Any]):
    job = add_job()
    with database.write() as connection:
        connection.execute(update(table).values(**changes))
    before = read_job(database, job.id)
    assert claim(database, job) is None
    assert read_job(database, job.id) == before


def test_an_expired_lease_is_claimed_again_and_counted_as_lost(database: Database, add_job: AddJob):
    job = add_job()
    must_claim(database, job, lease_s=-1)
    second = must_claim(database, job)
    assert (second.job.lease_token, second.job.lost_leases, second.job.step_claims) == (2, 1, 2)
    assert (second.starts_job, second.starts_iteration) == (False, False)
    assert claim(database, job) is None


def test_only_the_tokens_holder_advances_and_only_once(database: Database, add_job: AddJob):
    job = add_job()
    first = must_claim(database, job, lease_s=-1).job.lease_token
    second = must_claim(database, job).job.lease_token
    assert advance(database, job.id, first, step="evaluate") is None
    assert read_job(database, job.id).step == "generate"

    assert advance(database, job.id, second, step="evaluate", step_no=2) == read_job(database, job.id).event_seq
    after = read_job(database, job.id)
    assert (after.step, after.lease_owner, after.lease_expires_at) == ("evaluate", None, None)
    assert advance(database, job.id, second, step="generate", step_no=3) is None
    assert read_job(database, job.id) == after


def test_what_has_ended_is_not_advanced(database: Database, add_job: AddJob):
    job = add_job()
    token = must_claim(database, job).job.lease_token
    with database.write() as connection:
        connection.execute(update(table).values(**ENDED))
    assert advance(database, job.id, token, step="evaluate") is None
    assert advance(database, job.id, token, **{**ENDED, "status": "succeeded"}) is None


def test_each_change_raises_the_version(database: Database, add_job: AddJob):
    job = add_job()
    versions = [job.version, must_claim(database, job).job.version]
    advance(database, job.id, 1, step="evaluate")
    versions.append(read_job(database, job.id).version)
    assert versions == sorted(set(versions))


def test_a_planned_step_is_claimed_as_it_was_planned(group_commit: GroupCommit, database: Database, add_job: AddJob):
    job = add_job()
    found = step_claims.find_new(group_commit, job.id)
    assert found is not None
    rows = [events.rows_of(job.id, found.job.event_seq - 1, [("job.started", {}), ("iteration.started", {})])]
    assert step_claims.claim_new(group_commit, found, rows, owner="wrk_1", lease_s=30)
    claimed = read_job(database, job.id)
    assert (claimed.status, claimed.lease_owner, claimed.version) == ("running", "wrk_1", job.version + 1)
    same = ("lease_token", "event_seq", "step_claims", "iteration", "request")
    assert [getattr(claimed, name) for name in same] == [getattr(found.job, name) for name in same]
    with database.read() as connection:
        assert [each.seq for each in events.after(connection, job.id, 0)] == [1, 2]
    assert step_claims.find_new(group_commit, job.id) is None
    assert not step_claims.claim_new(group_commit, found, rows, owner="wrk_2", lease_s=30)


def test_of_eight_planned_claims_of_a_step_one_succeeds(group_commit: GroupCommit, add_job: AddJob):
    found = step_claims.find_new(group_commit, add_job().id)
    assert found is not None
    claimed = at_once(8, lambda n: step_claims.claim_new(group_commit, found, [], owner=f"wrk_{n}", lease_s=30))
    assert claimed.count(True) == 1


@pytest.mark.parametrize("values", [{"continuations": 1}, {"step": "evaluate"}, {"status": "canceled"}, {"wait_s": 60}])
def test_only_a_new_and_due_step_is_planned_before_its_claim(
    group_commit: GroupCommit, database: Database, add_job: AddJob, values: dict[str, Any]
):
    job = add_job()
    if "wait_s" in values:
        values = {"available_at": DbNow(values["wait_s"]), "rung_at": None}
    elif "status" in values:
        values = {**values, "stop_reason": "canceled", "finished_at": DbNow()}
    with database.write() as connection:
        connection.execute(update(table).where(table.c.id == job.id).values(**values))
    assert step_claims.find_new(group_commit, job.id) is None


def due_ids(database: Database, pause_s: float = 3) -> list[str]:
    with database.write() as connection:
        return [each.job_id for each in due_steps.take_due(connection, pause_s=pause_s, limit=100)]


def test_a_job_is_rung_again_after_a_pause_that_grows(database: Database, add_job: AddJob):
    add_job()
    pauses = []
    for _ in range(8):
        low, high = 0, 4096
        while high - low > 1:
            middle = (low + high) // 2
            with database.write() as connection:
                connection.execute(update(table).values(rung_at=DbNow(-middle - 0.5)))
                is_due = bool(due_steps.take_due(connection, pause_s=1, limit=1))
                connection.rollback()
            low, high = (low, middle) if is_due else (middle, high)
        pauses.append(high)
        with database.write() as connection:
            connection.execute(update(table).values(ring_count=table.c.ring_count + 1))
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 64]


def test_jobs_that_nobody_could_ring_for_are_due_at_once(database: Database, add_job: AddJob):
    job = add_job()
    assert due_ids(database) == []
    with database.write() as connection:
        transitions.mark_unnotified(connection, job.id)
    assert due_ids(database) == [job.id]
    assert due_ids(database) == []


def test_each_due_job_is_taken_by_one_sweeper(database: Database, add_job: AddJob):
    ids = [add_job().id for _ in range(20)]
    with database.write() as connection:
        connection.execute(update(table).values(rung_at=None))
    taken = [job_id for found in at_once(4, lambda _: due_ids(database)) for job_id in found]
    assert sorted(taken) == sorted(ids)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_due_job_that_another_sweeper_holds_is_left_to_it(database: Database, add_job: AddJob):
    held, free = add_job(), add_job()
    with database.write() as connection:
        connection.execute(update(table).values(rung_at=None))
    with database.engine.connect() as other:
        other.execute(select(table.c.id).where(table.c.id == held.id).with_for_update())
        assert due_ids(database) == [free.id]


def test_a_claimed_job_is_overdue_some_time_after_its_deadline_and_another_one_at_once(
    database: Database, add_job: AddJob
):
    free, claimed = add_job(), add_job()
    must_claim(database, claimed)
    found: list[set[str]] = []
    for ago_s in (-2.0, 2.0, 9.0):
        with database.write() as connection:
            connection.execute(update(table).values(deadline_at=DbNow(-ago_s)))
            found.append(set(due_steps.overdue(connection, slack_s=5, limit=9)))
    assert found == [set(), {free.id}, {free.id, claimed.id}]


def test_a_stopping_worker_gives_back_its_own_leases_only(database: Database, add_job: AddJob):
    mine, other = add_job(), add_job()
    must_claim(database, mine, owner="wrk_1")
    must_claim(database, other, owner="wrk_2")
    with database.write() as connection:
        # The last value is the job's run. This job has none, and SQLite must not show it as an item of a run
        assert transitions.release_leases(connection, "wrk_1") == [("generate", mine.id, 1, None)]
    assert advance(database, mine.id, 1, step="evaluate") is None
    assert claim(database, mine) is not None
    assert claim(database, other) is None
    assert advance(database, mine.id, 1, step="evaluate") is None


def test_a_heartbeat_extends_only_what_is_still_its_own(database: Database, add_job: AddJob):
    mine, other, lost = add_job(), add_job(), add_job()
    must_claim(database, mine, owner="wrk_1")
    must_claim(database, other, owner="wrk_2")
    must_claim(database, lost, owner="wrk_1", lease_s=-1)
    must_claim(database, lost, owner="wrk_2")
    with database.write() as connection:
        held = transitions.extend_leases(connection, "wrk_1", [mine.id, other.id, lost.id], 99)
    assert held == {mine.id: 1}
