"""The ledger of calls: one reply for each slot, also from many workers; lost calls."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import update

from redraft.domain.jobs.ids import new_id
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import jobs as table
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import calls
from redraft.storage.jobs.jobs import JobRecord
from tests.storage.conftest import AddJob, at_once

pytestmark = pytest.mark.both_databases


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
