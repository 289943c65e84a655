from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, bindparam, event, select, text, update
from sqlalchemy.exc import DataError

from redraft.domain.jobs.ids import new_id
from redraft.errors import Unavailable
from redraft.storage.engine.driver import Statement
from redraft.storage.engine.statements import Change, Rows, add_rows, adding_together, collecting_rows
from redraft.storage.engine.tables import calls as call_rows
from redraft.storage.engine.tables import evaluations as evaluation_rows
from redraft.storage.engine.tables import events as event_rows
from redraft.storage.engine.tables import iterations as iteration_rows
from redraft.storage.engine.tables import jobs as job_rows
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import calls, events, jobs, step_claims, transitions
from redraft.storage.jobs.jobs import JobRecord
from redraft.storage.jobs.transitions import Advance
from tests.storage.conftest import job_values

pytestmark = pytest.mark.both_databases

TOLD: list[tuple[str, dict[str, Any]]] = [("job.queued", {"message": "first"}), ("job.started", {"message": "ünïcode"})]


def opened(job: JobRecord) -> dict[str, Any]:
    names = {"id": new_id("call"), "job_id": job.id, "type": "generate", "step": "generate", "status": "started"}
    place = {"iteration": 1, "candidate": 1, "seq": 0, "attempt": 1, "lease_token": 1}
    return {**names, **place, "provider": "openai", "model": "openai:w", "request": {"a": [1]}, "cache_key": None}


def write(connection: Connection, job: JobRecord) -> None:
    events.add(connection, job, 1, TOLD)
    calls.open_calls(connection, [opened(job)])


def write_half(connection: Connection, job: JobRecord) -> None:
    write(connection, job)
    raise LookupError


def stored(connection: Connection) -> tuple[list[Any], list[Any]]:
    told = connection.execute(select(event_rows.c.seq, event_rows.c.type, event_rows.c.data).order_by("seq"))
    made = connection.execute(select(call_rows.c.request, call_rows.c.cached))
    return [tuple(row) for row in told], [tuple(row) for row in made]


def test_what_is_added_together_is_what_is_added_apart(database: Database, add_job: Callable[..., JobRecord]) -> None:
    job = add_job()
    with database.write() as connection, adding_together(connection):
        write(connection, job)
    with database.read() as connection:
        told, made = stored(connection)
    assert told == [(number, kind, data) for number, (kind, data) in enumerate(TOLD, 1)]
    assert made == [({"a": [1]}, False)]


def statements_of(database: Database) -> list[str]:
    """What is executed from now on."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    return seen


def test_it_takes_one_round_trip_on_postgresql(database: Database, add_job: Callable[..., JobRecord]) -> None:
    job, seen = add_job(), statements_of(database)
    with database.write() as connection, adding_together(connection):
        write(connection, job)
    assert len([each for each in seen if "INSERT" in each]) == (2 if database.is_sqlite else 1)


def test_nothing_together_is_nothing(database: Database, add_job: Callable[..., JobRecord]) -> None:
    add_job()
    with database.write() as connection, adding_together(connection):
        pass
    with database.read() as connection:
        assert stored(connection) == ([], [])


def test_an_error_within_leaves_nothing_for_the_next_unit_of_work(
    database: Database, add_job: Callable[..., JobRecord]
) -> None:
    job = add_job()
    with pytest.raises(LookupError), database.write() as connection, adding_together(connection):
        write_half(connection, job)
    with database.write() as connection:
        events.add(connection, job, 1, TOLD[:1])
        assert stored(connection) == ([(1, *TOLD[0])], [])


def iteration_row(job: JobRecord, number: int, **changes: Any) -> dict[str, Any]:
    row = {"id": new_id("iteration"), "job_id": job.id, "number": number, "candidate": 1, "generator_model": None}
    return {**row, "answer": "ünïcode\x00", "feedback_given": None, "grounding": {"a": [None, 1.5]}, **changes}


def evaluation_row(job: JobRecord, iteration: str, **changes: Any) -> dict[str, Any]:
    row = {"id": new_id("evaluation"), "job_id": job.id, "iteration_id": iteration, "status": "error", "score": None}
    told = {"passed": False, "suggestions": ["a"], "evaluator_model": "openai:j", "profile": "criteria"}
    return {**row, **told, "confidence": 0.25, "meets_criteria": None, "criteria": None, **changes}


def advance_of(**changes: Any) -> Advance:
    return Advance(
        **{"values": {"step": "evaluate"}, "usage": {"calls": 1}, "new_events": 2, "keep_lease_s": 60.0} | changes
    )


OK = {"status": "ok", "reply_text": "an answer", "response": {"id": 1}, "http_status": 200, "input_tokens": 3}


def step_rows(connection: Connection, job: JobRecord) -> list[Rows]:
    first, second = iteration_row(job, 1), iteration_row(job, 2, generator_model="openai:w")
    with collecting_rows(connection) as rows:
        events.add(connection, job, job.event_seq + 1, TOLD)
        add_rows(connection, iteration_rows, [first, second])
        add_rows(connection, evaluation_rows, [evaluation_row(job, first["id"])])
    return rows


def held(database: Database, add_job: Callable[..., JobRecord]) -> tuple[JobRecord, str]:
    """A claimed job with one open call."""
    job = add_job()
    with database.write() as connection:
        claim = step_claims.claim(connection, job.id, job.step, job.step_no, owner="w", lease_s=60)
        assert claim is not None
        call = opened(claim.job)
        calls.open_calls(connection, [call])
    return claim.job, call["id"]


def everything(database: Database) -> list[list[dict[str, Any]]]:
    with database.read() as connection:
        tables = (job_rows, call_rows, event_rows, iteration_rows, evaluation_rows)
        return [[dict(row) for row in connection.execute(select(table)).mappings()] for table in tables]


def test_a_step_is_stored_with_all_that_it_brought(database: Database, add_job: Callable[..., JobRecord]) -> None:
    job, call = held(database, add_job)
    with database.write() as connection:
        rows = step_rows(connection, job)
        closed = transitions.advance_with(connection, job, advance_of(), [calls.close_change(call, OK)], rows)
    assert closed == ["ok"]
    moved, made, told, written, judged = everything(database)
    assert (moved[0]["step"], moved[0]["calls"], moved[0]["event_seq"]) == (
        "evaluate",
        job.calls + 1,
        job.event_seq + 2,
    )
    assert moved[0]["lease_token"] == job.lease_token + 1
    assert (made[0]["status"], made[0]["reply_text"], made[0]["response"]) == ("ok", "an answer", {"id": 1})
    assert [(each["seq"], each["data"]) for each in told] == [
        (job.event_seq + number, data) for number, (_, data) in enumerate(TOLD, 1)
    ]
    assert [each["answer"] for each in written] == ["ünïcode", "ünïcode"]
    assert [each["generator_model"] for each in written] == [None, "openai:w"]
    assert (judged[0]["score"], judged[0]["confidence"], judged[0]["meets_criteria"]) == (None, 0.25, None)
    assert all(each["at"] is not None for each in told)


def test_rows_that_depend_on_a_move_get_the_defaults_that_other_rows_get(
    database: Database, add_job: Callable[..., JobRecord]
) -> None:
    job, _ = held(database, add_job)
    with database.write() as connection:
        transitions.advance_with(connection, job, advance_of(), [], step_rows(connection, job))
        with adding_together(connection):
            row = iteration_row(job, 3)
            add_rows(connection, iteration_rows, [row])
            add_rows(connection, evaluation_rows, [evaluation_row(job, row["id"])])
    *_, written, judged = everything(database)
    own = {"id", "number", "iteration_id", "generator_model", "created_at"}
    for found in (written, judged):
        assert [{k: v for k, v in row.items() if k not in own} for row in found] == [
            {k: v for k, v in found[0].items() if k not in own} for _ in found
        ]
        assert all(row["created_at"] is not None for row in found)


def test_what_is_too_long_for_its_column_is_refused_not_cut(
    database: Database, add_job: Callable[..., JobRecord]
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite knows no lengths")
    job, _ = held(database, add_job)
    rows = [(iteration_rows, [iteration_row(job, 1, generator_model="x" * 300)])]
    with pytest.raises(DataError), database.write() as connection:
        transitions.advance_with(connection, job, advance_of(), [], rows)


def test_a_step_of_one_call_is_stored_by_one_statement_or_not_at_all(
    database: Database, add_job: Callable[..., JobRecord]
) -> None:
    group_commit = database.group_commit
    if group_commit is None:
        pytest.skip("SQLite has no group commit")
    job, call = held(database, add_job)
    late, wrong = replace(job, lease_token=job.lease_token - 1), replace(job, event_seq=job.event_seq + 7)
    before = everything(database)

    def stores(job: JobRecord) -> bool:
        def statement(connection: Connection) -> Statement:
            rows, closing = step_rows(connection, job), calls.close_change(call, OK)
            return transitions.single_advance(connection, job, advance_of(), call, [closing], rows)

        row = group_commit.execute(job.id, statement)
        return row is not None and row[0] is not None

    assert [stores(late), stores(wrong)] == [False, False]
    assert everything(database) == before
    assert stores(job)
    assert everything(database)[1][0]["status"] == "ok"
    # The same again, as after a commit of unknown outcome
    assert not stores(job)


def test_without_the_lease_nothing_is_stored_with_a_step(database: Database, add_job: Callable[..., JobRecord]) -> None:
    job, call = held(database, add_job)
    before = everything(database)
    with database.write() as connection:
        late = replace(job, lease_token=job.lease_token - 1)
        rows = step_rows(connection, late)
        assert transitions.advance_with(connection, late, advance_of(), [calls.close_change(call, OK)], rows) is None
    assert everything(database) == before


def test_a_step_is_stored_in_one_round_trip_on_postgresql(
    database: Database, add_job: Callable[..., JobRecord]
) -> None:
    job, call = held(database, add_job)
    seen = statements_of(database)
    with database.write() as connection:
        transitions.advance_with(
            connection, job, advance_of(), [calls.close_change(call, OK)], step_rows(connection, job)
        )
    assert len([each for each in seen if not each.startswith("BEGIN")]) == (5 if database.is_sqlite else 1)


def test_a_reply_that_came_second_is_told(database: Database, add_job: Callable[..., JobRecord]) -> None:
    job, call = held(database, add_job)
    other, failed = opened(job), {**opened(job), "candidate": 2}
    with database.write() as connection:
        calls.open_calls(connection, [other, failed])
        calls.close(connection, other["id"], OK)
        closing = [calls.close_change(call, OK), calls.close_change(failed["id"], {"status": "error"}, number=1)]
        assert transitions.advance_with(connection, job, advance_of(new_events=0), closing, []) == ["dup", "error"]


@pytest.mark.parametrize("gather", [collecting_rows, adding_together])
def test_a_connection_that_is_lost_while_rows_are_collected_is_a_database_that_is_away(
    database: Database, gather: Callable[[Connection], AbstractContextManager[Any]]
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite has no connections to lose")
    with pytest.raises(Unavailable), database.write() as connection, gather(connection):
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


def test_events_are_never_numbered_past_what_the_job_knows(
    database: Database, add_job: Callable[..., JobRecord]
) -> None:
    job, _ = held(database, add_job)
    before = everything(database)
    wrong = replace(job, event_seq=job.event_seq + 7)
    with database.write() as connection:
        rows = step_rows(connection, wrong)
    with pytest.raises(RuntimeError, match="numbered"), database.write() as connection:
        transitions.advance_with(connection, wrong, advance_of(), [], rows)
    assert everything(database) == before


def test_a_row_is_added_with_rows_and_changes_of_other_tables_or_nothing_is(
    database: Database, add_job: Callable[..., JobRecord]
) -> None:
    other, new = add_job(), job_values()
    rows = [events.rows_of(new["id"], 1, TOLD)]
    is_other = job_rows.c.id == bindparam("p_other")
    done = update(job_rows).where(is_other).values(guidance=bindparam("p_words")).returning(job_rows.c.id)
    for words in ("first", "second"):
        with database.write() as connection:
            made = jobs.add(connection, new, 600, rows, [Change(done, {"p_other": other.id, "p_words": words})])
        assert (made is not None) == (words == "first")
    with database.read() as connection:
        told, _ = stored(connection)
        changed = jobs.get(connection, other.id)
    assert [number for number, *_ in told] == [1, 2]
    assert changed is not None
    assert changed.guidance == "first"
