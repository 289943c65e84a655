from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, event, select

from redraft.domain.ids import new_id
from redraft.storage import calls, events
from redraft.storage.jobs import JobRecord
from redraft.storage.statements import adding_together
from redraft.storage.tables import calls as call_rows
from redraft.storage.tables import events as event_rows
from redraft.storage.work import Database

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


def test_it_takes_one_round_trip_on_postgresql(database: Database, add_job: Callable[..., JobRecord]) -> None:
    job, seen = add_job(), list[str]()

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    with database.write() as connection, adding_together(connection):
        write(connection, job)
    assert len([text for text in seen if "INSERT" in text]) == (2 if database.is_sqlite else 1)


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
