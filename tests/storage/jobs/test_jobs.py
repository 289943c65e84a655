"""Claims, fences, the ledger and the events, under many hands; lists and what they cost."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, text, update

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.states import Outcome, outcome_of
from redraft.storage.engine import query_parts
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.group_commit import GroupCommit
from redraft.storage.engine.tables import jobs as table
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import calls, due_steps, events, job_lists, jobs, step_claims, transitions
from redraft.storage.jobs.job_filters import JobFilter, positions
from redraft.storage.jobs.jobs import JobRecord
from redraft.storage.jobs.step_claims import Claim
from tests.storage.conftest import job_values

pytestmark = pytest.mark.both_databases

AddJob = Callable[..., JobRecord]
ENDED = {"status": "failed", "stop_reason": "error", "finished_at": DbNow()}


@pytest.fixture
def group_commit(database: Database) -> GroupCommit:
    if database.group_commit is None:
        pytest.skip("SQLite has no group commit")
    return database.group_commit


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


def read(database: Database, job_id: str) -> JobRecord:
    with database.read() as connection:
        record = jobs.get(connection, job_id)
    assert record is not None
    return record


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    barrier = threading.Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_of_sixteen_claims_at_once_one_succeeds(database: Database, add_job: AddJob):
    job = add_job()
    claims = at_once(16, lambda n: claim(database, job, owner=f"wrk_{n}"))
    (winner,) = [found for found in claims if found]
    row = read(database, job.id)
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
    before = read(database, job.id)
    assert claim(database, job) is None
    assert read(database, job.id) == before


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
    assert read(database, job.id).step == "generate"

    assert advance(database, job.id, second, step="evaluate", step_no=2) == read(database, job.id).event_seq
    after = read(database, job.id)
    assert (after.step, after.lease_owner, after.lease_expires_at) == ("evaluate", None, None)
    assert advance(database, job.id, second, step="generate", step_no=3) is None
    assert read(database, job.id) == after


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
    versions.append(read(database, job.id).version)
    assert versions == sorted(set(versions))


def open_call(database: Database, job: JobRecord, *, seq: int = 0, token: int = 1, **changes: Any) -> str:
    row = {
        "id": new_id("call"),
        "job_id": job.id,
        "type": "generate",
        "step": "generate",
        "iteration": 1,
        "candidate": 1,
        "seq": seq,
        "attempt": 1,
        "lease_token": token,
        "provider": "openai",
        "model": "openai:writer",
        "status": "started",
        "request": {},
        **changes,
    }
    with database.write() as connection:
        calls.open_calls(connection, [row])
    return row["id"]


def close_call(database: Database, call_id: str, status: str = "ok", **values: Any) -> calls.ClosedCall | None:
    return database.persist(lambda c: calls.close(c, call_id, {"status": status, **values}), for_s=5)


def statuses(database: Database, job: JobRecord) -> list[str]:
    with database.read() as connection:
        return [row["status"] for row in calls.of_job(connection, job.id)]


def test_a_slot_has_one_reply_and_a_second_becomes_a_duplicate(database: Database, add_job: AddJob):
    job = add_job()
    first, second, other = open_call(database, job), open_call(database, job), open_call(database, job, seq=1)
    assert close_call(database, first, reply_text="first") == calls.ClosedCall("ok", was_lost=False)
    assert close_call(database, second, reply_text="second") == calls.ClosedCall("dup", was_lost=False)
    assert close_call(database, other) == calls.ClosedCall("ok", was_lost=False)
    assert close_call(database, first, reply_text="again") is None
    with database.read() as connection:
        recorded = calls.recorded_replies(connection, job.id, "generate", 1, with_failures=True)
    assert recorded[1, 1, 0]["reply_text"] == "first"


def test_a_lost_call_costs_nothing_on_the_users_own_machine(database: Database, add_job: AddJob):
    job = add_job()
    own = open_call(database, job, provider="local", model="local:tiny")
    open_call(database, job, seq=1)
    with database.write() as connection:
        assert calls.close_stopped(connection, [(job.id, 1)]) == {job.id: {"calls": 2, "unpriced_calls": 1}}
        assert {row["cost_nano_usd"] for row in calls.of_job(connection, job.id)} == {0, None}
        assert calls.close_stopped(connection, []) == {}
    assert close_call(database, own, cost_nano_usd=0) == calls.ClosedCall("ok", was_lost=True, is_free=True)


@pytest.mark.parametrize(("is_canceled", "code"), [(True, "canceled"), (False, "worker_lost")])
def test_a_call_that_a_stopping_worker_leaves_was_aborted_where_its_job_is_canceled(
    database: Database, add_job: AddJob, *, is_canceled: bool, code: str
):
    job = add_job()
    open_call(database, job)
    with database.write() as connection:
        if is_canceled:
            connection.execute(update(table).values(status="canceled", stop_reason="canceled", finished_at=DbNow()))
        assert calls.close_stopped(connection, [(job.id, 1)]) == {job.id: {"calls": 1, "unpriced_calls": 1}}
        [row] = calls.of_job(connection, job.id)
    assert row["error"]["code"] == code


def test_of_many_replies_at_once_one_is_the_reply(database: Database, add_job: AddJob):
    job = add_job()
    ids = [open_call(database, job) for _ in range(8)]
    at_once(8, lambda n: close_call(database, ids[n]))
    assert Counter(statuses(database, job)) == {"ok": 1, "dup": 7}


def test_a_lost_call_is_unknown_until_its_worker_tells_better(database: Database, add_job: AddJob):
    job = add_job()
    old, new = open_call(database, job, token=1), open_call(database, job, token=2)
    with database.write() as connection:
        assert calls.close_lost(connection, job.id, 2) == {"calls": 1, "unpriced_calls": 1}
    assert statuses(database, job) == ["unknown", "started"]
    assert close_call(database, old) == calls.ClosedCall("ok", was_lost=True)
    assert close_call(database, new) == calls.ClosedCall("dup", was_lost=False)
    with database.read() as connection:
        assert [row["error"] for row in calls.of_job(connection, job.id)] == [None, None]


@pytest.mark.parametrize(("retryable", "is_remembered"), [(True, False), (False, True)])
def test_only_final_failures_are_remembered(
    database: Database, add_job: AddJob, *, retryable: bool, is_remembered: bool
):
    job = add_job()
    close_call(database, open_call(database, job), "error", error={"code": "c", "retryable": retryable})
    with database.read() as connection:
        assert (
            (1, 1, 0) in calls.recorded_replies(connection, job.id, "generate", 1, with_failures=True)
        ) is is_remembered


def test_events_have_no_gaps_under_concurrent_writers(database: Database, add_job: AddJob):
    job = add_job()

    def write(number: int) -> None:
        for step in range(5):
            with database.write() as connection:
                first = transitions.change(connection, job.id, {}, when=transitions.is_live(), new_events=2)
                new = [("t", {"by": number, "step": step}), ("t", {"by": number, "step": step, "second": True})]
                events.add(connection, job, first, new)

    at_once(8, write)
    with database.read() as connection:
        found = events.after(connection, job.id, 0)
        assert [event.seq for event in found] == list(range(1, 81))
        assert [event.seq for event in events.after(connection, job.id, 78)] == [79, 80]
        assert [event.seq for event in events.after(connection, job.id, 3, limit=2)] == [4, 5]


def test_an_event_number_is_not_lost_by_a_unit_of_work_that_fails(database: Database, add_job: AddJob):
    job = add_job()
    with suppress(ZeroDivisionError), database.write() as connection:
        transitions.change(connection, job.id, {}, when=transitions.is_live(), new_events=3)
        raise ZeroDivisionError
    with database.write() as connection:
        assert transitions.change(connection, job.id, {}, when=transitions.is_live(), new_events=1) == 1


# Idempotency


def test_of_twenty_jobs_with_one_key_one_is_stored(database: Database):
    def add(_: int) -> JobRecord | None:
        with database.write() as connection:
            values = job_values(idempotency_scope="me", idempotency_key="key")
            return jobs.add(connection, values, 600)

    stored = [record for record in at_once(20, add) if record]
    assert len(stored) == 1
    with database.read() as connection:
        found = jobs.find_by_key(connection, "me", "key")
        assert found is not None
        assert found.id == stored[0].id
        assert jobs.find_by_key(connection, "you", "key") is None


def test_a_job_is_stored_with_its_first_event_in_a_group_once(group_commit: GroupCommit, database: Database):
    values = job_values(idempotency_scope="me", idempotency_key="key", event_seq=1)
    rows = [events.rows_of(values["id"], 1, [("job.queued", {"at": "now"})])]
    stored = jobs.add_in_group(group_commit, values, 600, rows)
    assert stored == read(database, values["id"])
    with database.read() as connection:
        assert [each.data for each in events.after(connection, values["id"], 0)] == [{"at": "now"}]
    # The same again, as after a commit with unknown outcome; and another job with the same key
    assert jobs.add_in_group(group_commit, values, 600, rows) is None
    assert jobs.add_in_group(group_commit, {**values, "id": new_id("job")}, 600, rows) is None


def test_jobs_without_a_key_do_not_meet(add_job: AddJob):
    assert add_job().id != add_job().id


# Claims of planned steps


def test_a_planned_step_is_claimed_as_it_was_planned(group_commit: GroupCommit, database: Database, add_job: AddJob):
    job = add_job()
    found = step_claims.find_new(group_commit, job.id)
    assert found is not None
    rows = [events.rows_of(job.id, found.job.event_seq - 1, [("job.started", {}), ("iteration.started", {})])]
    assert step_claims.claim_new(group_commit, found, rows, owner="wrk_1", lease_s=30)
    claimed = read(database, job.id)
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


# Lists


def page(database: Database, **criteria: Any) -> list[JobRecord]:
    with database.read() as connection:
        return jobs.list_page(connection, JobFilter(**criteria))


def walk(database: Database, between: Callable[[], None] = lambda: None, **criteria: Any) -> list[str]:
    """All pages of ten, with something happening after the first one."""
    seen: list[str] = []
    after = None
    while True:
        rows = page(database, limit=10, after=after, **criteria)
        seen += [row.id for row in rows[:10]]
        if len(rows) <= 10:
            return seen
        after = (rows[9].created_at, rows[9].id)
        between()
        between = _nothing


def _nothing() -> None:
    pass


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_neither_repeat_nor_skip_rows_of_the_same_moment(
    database: Database, add_job: AddJob, *, newest_first: bool
):
    moment = datetime.now(UTC).replace(microsecond=5000)
    ids = [new_id("job") for _ in range(25)]
    with database.write() as connection:
        rows = [job_values(id=each, created_at=moment, deadline_at=moment) for each in ids]
        connection.execute(insert(table), rows)

    seen = walk(database, lambda: [add_job() for _ in range(3)] and None, newest_first=newest_first)
    old = [each for each in seen if each in ids]
    assert old == sorted(ids, reverse=newest_first)
    assert len(seen) == len(set(seen)) == (25 if newest_first else 28)


def test_microseconds_do_not_make_a_page_repeat_rows(database: Database):
    moment = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    with database.write() as connection:
        rows = [job_values(created_at=moment + timedelta(microseconds=n * 150), deadline_at=moment) for n in range(25)]
        connection.execute(insert(table), rows)
    assert sorted(walk(database)) == sorted(row["id"] for row in rows)
    assert len(walk(database, newest_first=False)) == 25


def test_lists_are_narrowed_by_each_filter_and_by_all_of_them(database: Database, add_job: AddJob):
    old = datetime.now(UTC) - timedelta(days=2)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    first = add_job(created_at=old, model="openai:a", metadata={"team": "x", "n": "1"})
    second = add_job(kind="evaluate_answer", model=None, metadata={"team": "x", "n": "2"})
    third = add_job(status="failed", stop_reason="error", finished_at=datetime.now(UTC), metadata={"team": "y"})

    def ids(**criteria: Any) -> set[str]:
        return {row.id for row in page(database, **criteria)}

    assert ids() == {first.id, second.id, third.id}
    assert ids(statuses=("failed",)) == {third.id}
    assert ids(statuses=("failed", "queued")) == {first.id, second.id, third.id}
    assert ids(stop_reason="error") == {third.id}
    assert ids(kind="evaluate_answer") == {second.id}
    assert ids(model="openai:a") == {first.id}
    assert ids(created_after=yesterday) == {second.id, third.id}
    assert ids(created_before=yesterday) == {first.id}
    assert ids(metadata={"team": "x"}) == {first.id, second.id}
    assert ids(metadata={"team": "x", "n": "2"}) == {second.id}
    assert ids(metadata={"team": "x", "n": "1"}, statuses=("failed",)) == set()
    assert ids(metadata={"te": "x"}) == ids(metadata={"team": "X"}) == set()


@pytest.mark.parametrize("key", ['a"b', "a.b", "$", "a'b", "%", "ключ", "a\\b"])
def test_any_metadata_key_can_be_searched_by(database: Database, add_job: AddJob, key: str):
    job = add_job(metadata={key: "v"})
    add_job(metadata={"other": "v"})
    assert [row.id for row in page(database, metadata={key: "v"})] == [job.id]


def test_postgresql_plans_each_search_by_labels_for_its_labels(make_database_url: Callable[[str], str]):
    with closing(Database(make_database_url("postgresql"))) as database, database.read() as connection:
        for number in range(3):
            positions(connection, JobFilter(metadata={"n": str(number)}))
            positions(connection, JobFilter(model=f"openai:{number}"))
        prepared = list(connection.scalars(text("SELECT statement FROM pg_prepared_statements")))
    assert [each for each in prepared if "jobs.model" in each]
    assert [each for each in prepared if "jobs.metadata" in each] == []


def test_jobs_with_long_and_short_labels_are_in_one_order(database: Database, add_job: AddJob):
    long = {"team": "x", **{f"key{n}": "w" * 500 for n in range(8)}}
    added = [add_job(metadata=labels).id for labels in ({"team": "x"}, long, {"team": "y"}, {"team": "x"}, long)]
    wanted = [job_id for at, job_id in enumerate(added) if at != 2]
    assert walk(database, metadata={"team": "x"}) == wanted[::-1]
    assert walk(database, metadata={"team": "x"}, newest_first=False) == wanted
    assert walk(database, metadata={"key7": "w" * 500}, statuses=("queued",)) == [added[4], added[1]]


def test_ids_are_found_by_their_beginning(database: Database, add_job: AddJob):
    job = add_job()
    with database.read() as connection:
        assert query_parts.ids_where(connection, table, table.c.id.startswith(job.id[:30])) == [job.id]
        assert query_parts.ids_where(connection, table, table.c.id == job.id) == [job.id]
        assert query_parts.ids_where(connection, table, table.c.id.startswith("job_zz")) == []


# The sweeper's share


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
        # No run: SQLite must not take it for an item of one
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


def test_each_job_has_one_outcome_by_which_it_is_found(database: Database, add_job: AddJob):
    def ended(status: str, reason: str, *, success: bool | None = None, **values: Any) -> str:
        result = None if success is None else {"success": success, "final_answer": '"success": true'}
        values |= {"status": status, "stop_reason": reason, "finished_at": DbNow(), "result": result}
        job = add_job()
        with database.write() as connection:
            connection.execute(update(table).where(table.c.id == job.id).values(**values))
        return job.id

    expected = {
        add_job().id: Outcome.QUEUED,
        ended("succeeded", "accepted", success=True, best_score=0.9): Outcome.ACCEPTED,
        ended("succeeded", "plateau", success=False, best_score=0.5): Outcome.NOT_ACCEPTED,
        ended("succeeded", "evaluator_error", success=False): Outcome.NOT_EVALUATED,
        ended("succeeded", "plateau", success=True, best_score=0.9, continuations=1): Outcome.ACCEPTED,
        ended("succeeded", "plateau", success=False, best_score=0.5, continuations=1): Outcome.NOT_ACCEPTED,
        ended("succeeded", "error", success=False, continuations=1): Outcome.NOT_EVALUATED,
        ended("failed", "error"): Outcome.FAILED,
        ended("canceled", "canceled", success=False, best_score=0.5): Outcome.CANCELED,
    }
    with database.read() as connection:
        found = {
            job.id: outcome
            for outcome in Outcome
            for job in jobs.list_page(connection, JobFilter(outcomes=(outcome,), limit=50))
        }
        all_at_once = jobs.list_page(connection, JobFilter(outcomes=tuple(Outcome), limit=50))
        lines = job_lists.page(connection, JobFilter(limit=50))
        counts = {each: job_lists.count(connection, JobFilter(outcomes=(each,)), most=50) for each in Outcome}
    assert found == expected
    assert [job.id for job in all_at_once] == [line.id for line in lines]
    assert counts == {outcome: list(expected.values()).count(outcome) for outcome in Outcome}
    shown = {
        line.id: outcome_of(line.status, is_accepted=line.is_accepted, is_evaluated=line.best_score is not None)
        for line in lines
    }
    assert shown == expected
