"""The product without one of its mechanisms, in the processes of a stage: a storm has to notice.

Written `mutant=name` among a process's arguments. The numbers of events would stop a late worker by themselves, so that
nothing could be seen: where that is so, the mutant numbers them anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy import Connection, Update, update

from redraft.operations.steps.context import message_of
from redraft.operations.steps.leases import LeaseHolder
from redraft.queue import Queue
from redraft.settings import Settings
from redraft.storage.engine.statements import Change, Rows
from redraft.storage.engine.tables import events, webhook_deliveries
from redraft.storage.jobs import calls, jobs, transitions
from redraft.storage.jobs.jobs import JobRecord
from tests.support.waiting import let_pass

Mutant = Literal["no_fencing", "notify_before_commit", "recorded_replies_off", "cancel_keeps_token"]
_PREFIX = "mutant="
_COMMIT_S = 0.1

FAULTS: Mapping[Mutant, Sequence[str]] = MappingProxyType(
    {
        "no_fencing": ["worker stopped before its call", "worker SIGSTOP past its lease"],
        "notify_before_commit": ["api kill -9"],
        "recorded_replies_off": ["worker kill -9"],
        "cancel_keeps_token": ["api SIGTERM"],
    }
)
"""The faults of a storm in which each shows."""


def mutate(arguments: Sequence[str]) -> None:
    """Take out of this process what its arguments name."""
    for word in arguments:
        if word.startswith(_PREFIX):
            _MUTATIONS[word.removeprefix(_PREFIX)]()


def _take_out_fencing() -> None:
    """No look at the row before a call, and whoever brings something moves the job."""
    LeaseHolder.is_fresh = lambda *_: True
    _number_events_anew(lambda job, now: replace(job, lease_token=now.lease_token))


def _notify_before_commit() -> None:
    queue, add = Queue(Settings()), jobs.add

    def add_and_notify(*given: Any) -> JobRecord | None:
        job = add(*given)
        if job is not None:
            queue.notify(message_of(job))
            let_pass(_COMMIT_S)
        return job

    jobs.add = add_and_notify


def _forget_replies() -> None:
    calls.recorded_replies = lambda *_, **_kw: {}


def _cancel_without_token() -> None:
    """A canceled job keeps its lease and its token, and who holds it does not look at its status."""
    change, build = transitions.change, transitions._advance_statement

    def change_less(connection: Connection, job_id: str, values: Mapping[str, Any], **how: Any) -> int | None:
        if values.get("status") != "canceled":
            return change(connection, job_id, values, **how)
        table, count = jobs.jobs, how["new_events"]
        canceled = update(table).where(table.c.id == job_id, how["when"])
        canceled = canceled.values(version=table.c.version + 1, event_seq=table.c.event_seq + count, **values)
        last = connection.scalar(canceled.returning(table.c.event_seq))
        return None if last is None else last - count + 1

    def build_less(*given: Any, **how: Any) -> Update:
        statement = build(*given, **how)
        statement._where_criteria = tuple(each for each in statement._where_criteria if "status" not in str(each))
        return statement

    transitions.change, transitions._advance_statement = change_less, build_less
    _number_events_anew(lambda job, _: job)


def _number_events_anew(as_seen: Callable[[JobRecord, JobRecord], JobRecord]) -> None:
    advance_with = transitions.advance_with

    def advance_late(
        connection: Connection,
        job: JobRecord,
        advance: transitions.Advance,
        changes: Sequence[Change],
        rows: Sequence[Rows],
    ) -> list[Any] | None:
        now = jobs.get(connection, job.id)
        assert now is not None
        ahead = now.event_seq - job.event_seq
        moved: list[Rows] = [
            (table, [{**row, "seq": row["seq"] + ahead} for row in added] if table in _NUMBERED else added)
            for table, added in rows
        ]
        job = replace(as_seen(job, now), event_seq=now.event_seq)
        return advance_with(connection, job, advance, changes, moved)

    transitions.advance_with = advance_late


_NUMBERED = (events, webhook_deliveries)
_MUTATIONS: Mapping[str, Callable[[], None]] = MappingProxyType(
    {
        "no_fencing": _take_out_fencing,
        "notify_before_commit": _notify_before_commit,
        "recorded_replies_off": _forget_replies,
        "cancel_keeps_token": _cancel_without_token,
    }
)
