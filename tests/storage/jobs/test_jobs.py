"""Stored jobs with their events, under many writers; lists of jobs by filters and outcomes."""

from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, text, update

from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.states import Outcome, outcome_of
from redraft.storage.engine import query_parts
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.group_commit import GroupCommit
from redraft.storage.engine.tables import jobs as table
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import events, job_lists, jobs, transitions
from redraft.storage.jobs.job_filters import JobFilter, positions
from redraft.storage.jobs.jobs import JobRecord
from tests.storage.conftest import AddJob, at_once, job_values, read_job

pytestmark = pytest.mark.both_databases


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
    assert stored == read_job(database, values["id"])
    with database.read() as connection:
        assert [each.data for each in events.after(connection, values["id"], 0)] == [{"at": "now"}]
    # The same job again, as after a commit with an unknown outcome; then another job with the same key
    assert jobs.add_in_group(group_commit, values, 600, rows) is None
    assert jobs.add_in_group(group_commit, {**values, "id": new_id("job")}, 600, rows) is None


def page(database: Database, **criteria: Any) -> list[JobRecord]:
    with database.read() as connection:
        return jobs.list_page(connection, JobFilter(**criteria))


def walk(database: Database, between: Callable[[], None] = lambda: None, **criteria: Any) -> list[str]:
    """Return the ids on all pages of ten jobs; `between` is called after the first page."""
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
