"""Times, texts and JSON mean the same on both databases."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json
from sqlalchemy import insert, select
from sqlalchemy.dialects import sqlite

from redraft.domain.text.cleaning import clean_json
from redraft.storage.engine.admin_tables import api_keys
from redraft.storage.engine.columns import DbNow, Json
from redraft.storage.engine.tables import events
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs.jobs import JobRecord

pytestmark = pytest.mark.both_databases

AddJob = Callable[..., JobRecord]
MOMENT = datetime(2026, 3, 29, 1, 30, 0, 123_000, tzinfo=UTC)


def stored_time(database: Database, moment: Any, number: int = 1) -> datetime:
    with database.write() as connection:
        row = {"id": f"key_{number}", "name": "n", "hint": "h", "token_hash": str(number), "created_at": moment}
        connection.execute(insert(api_keys).values(row))
        found = connection.scalar(select(api_keys.c.created_at).where(api_keys.c.id == f"key_{number}"))
    assert found is not None
    return found


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-11))])
def test_a_time_comes_back_as_the_same_moment_with_its_zone(database: Database, zone: timezone):
    found = stored_time(database, MOMENT.astimezone(zone))
    assert found == MOMENT
    assert found.utcoffset() is not None


def test_times_sort_by_time_whatever_zone_they_were_written_in(database: Database):
    moments = [MOMENT + timedelta(milliseconds=step) for step in (0, 1, 999, 1000, 60_000, 3_600_000)]
    zones = [timezone(timedelta(hours=h)) for h in (0, 9, -9, 3, -3, 12)]
    for number, (moment, zone) in enumerate(zip(moments, zones, strict=True)):
        stored_time(database, moment.astimezone(zone), number)
    with database.read() as connection:
        found = list(connection.scalars(select(api_keys.c.created_at).order_by(api_keys.c.created_at)))
        later = list(connection.scalars(select(api_keys.c.id).where(api_keys.c.created_at > moments[2])))
    assert found == moments
    assert len(later) == 3


@pytest.mark.parametrize("seconds", [0, 600, -600, 0.25, 1e-6, 86_400.0, 1e7])
def test_the_databases_clock_moves_by_so_many_seconds(database: Database, seconds: float):
    with database.read() as connection:
        now, moved = connection.execute(select(DbNow(), DbNow(seconds))).one()
    assert abs((moved - now).total_seconds() - seconds) < 0.1
    assert abs((now - datetime.now(UTC)).total_seconds()) < 5


def test_the_clock_goes_on_within_a_unit_of_work(database: Database):
    with database.write() as connection:
        first = connection.scalar(select(DbNow()))
        times = [connection.scalar(select(DbNow())) for _ in range(200)]
        while times[-1] == first:
            times.append(connection.scalar(select(DbNow())))
    assert times == sorted(t for t in times if t)


def stored_event(database: Database, job_id: str, data: Any) -> Any:
    with database.write() as connection:
        connection.execute(insert(events).values(job_id=job_id, seq=1, type="t", data=data))
        return connection.scalar(select(events.c.data))


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"a": "x\x00y", "\x00k": 1}, {"a": "xy", "k": 1}),
        ({"a": "\ud83d"}, {"a": "\ufffd"}),
        ({"a": "\ud83d\ude00"}, {"a": "😀"}),
        ({"a": [float("nan"), float("inf"), 1.5]}, {"a": [None, None, 1.5]}),
        ({"a": "\\u0000 stays"}, {"a": "\\u0000 stays"}),
        ({"z": 1, "a": 2}, {"z": 1, "a": 2}),
        ({"a": 10**4250, "b": 10**4000}, {"a": None, "b": 10**4000}),
        ({"a": "tab\t, feed\f, bell\b, \x1b and \\f"}, {"a": "tab\t, feed , bell,  and \\f"}),
        ({"a": json.loads("[" * 210 + "]" * 210)}, {"a": json.loads("[" * 198 + "[null]" + "]" * 198)}),
    ],
)
def test_json_keeps_all_that_can_be_stored(database: Database, add_job: AddJob, value: Any, kept: Any):
    found = stored_event(database, add_job().id, value)
    assert found == kept
    assert list(found) == list(kept)


@pytest.mark.parametrize(("text", "kept"), [("a\x00b", "ab"), ("\udc00x", "\ufffdx"), ("é😀\n\t", "é😀\n\t"), ("", "")])
def test_texts_keep_all_that_can_be_stored(database: Database, add_job: AddJob, text: str, kept: str):
    assert add_job(guidance=text).guidance == kept


class Letter(Enum):
    A = "a"


class Name(str, Enum):  # noqa: UP042 - its text is not its value
    B = "b"


KEYS = st.one_of(
    *(st.text(st.characters(exclude_categories=())), st.integers(), st.floats(), st.booleans(), st.none()),
    *(st.binary(), st.datetimes(), st.timedeltas(), st.uuids(), st.sampled_from([*Letter, *Name])),
)
VALUES = st.recursive(
    KEYS | st.decimals() | st.integers(13_990, 14_010).map(lambda bits: 1 << bits),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(KEYS, inner) | st.sets(KEYS, max_size=1),
    max_leaves=9,
)


@given(VALUES)
def test_json_is_the_same_with_and_without_a_walk_through_the_value(value: Any):
    stored = Json().process_bind_param([value], sqlite.dialect())
    assert stored is not None
    assert json.loads(stored) == json.loads(to_json(clean_json([value])))


def test_metadata_comes_back_as_it_was(database: Database, add_job: AddJob):
    wanted = {"ключ": "värde 😀", "a.b": "'; DROP TABLE jobs; --", "n": ""}
    assert add_job(metadata=wanted).metadata == wanted


def test_stored_json_leaves_no_strings_in_memory_when_it_was_read():
    dialect = sqlite.dialect()
    texts = [json.dumps({"instruct": f"Task {number}"}) for number in range(2000)]
    before = sys.getallocatedblocks()
    for text in texts:
        Json().process_result_value(text, dialect)
    assert sys.getallocatedblocks() - before < len(texts) / 2
