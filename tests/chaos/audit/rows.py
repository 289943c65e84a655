"""What the database holds of each job, and what the provider's log says of it, put together for the auditor."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Table, select, text

from redraft.operations.calls.model_calls import SPECULATIVE_SEQ
from redraft.storage.engine.tables import calls, evaluations, events, iterations, jobs
from redraft.storage.engine.unit_of_work import Database
from tests.model_server.logbook import Entry

Row = Mapping[str, Any]
Slot = tuple[int, int, str, int]


@dataclass(slots=True)
class JobRows:
    """All rows of one job. `committed_at` says of a row's id when its last change was committed, or at the latest."""

    job: Row
    ledger: list[Row] = field(default_factory=list[Row])
    iterations: list[Row] = field(default_factory=list[Row])
    evaluations: list[Row] = field(default_factory=list[Row])
    events: list[Row] = field(default_factory=list[Row])
    committed_at: dict[str, datetime] = field(default_factory=dict[str, datetime])
    requests: list[Entry] = field(default_factory=list[Entry])

    @property
    def case(self) -> str:
        return case_of(self.job)

    def of_slot(self) -> dict[Slot, list[Row]]:
        """Calls by slot, oldest first."""
        found: dict[Slot, list[Row]] = defaultdict(list)
        for call in self.ledger:
            found[slot_of(call)].append(call)
        return found

    def ok(self, iteration: int, candidate: int, step: str, *, speculative: bool = False) -> Row | None:
        """The last reply that counts for a candidate: a second asking supersedes the first."""
        found = [
            call
            for call in self.ledger
            if (call["iteration"], call["candidate"], call["step"], call["status"])
            == (iteration, candidate, step, "ok")
            and is_speculative(call) is speculative
        ]
        return max(found, key=lambda call: call["seq"], default=None)


def is_speculative(call: Row) -> bool:
    return call["step"] == "generate" and call["seq"] >= SPECULATIVE_SEQ


def slot_of(call: Row) -> Slot:
    return call["iteration"], call["candidate"], call["step"], call["seq"]


def case_of(job: Row) -> str:
    _, marker, rest = job["request"]["instruct"].partition("[[case:")
    return rest.partition("]]")[0] if marker else ""


def fingerprint(body: Any) -> str:
    """The same for a body as it was reserved and as it came over the wire."""
    return json.dumps(body, sort_keys=True, ensure_ascii=True)


def read_all(database: Database, requests: Sequence[Entry]) -> dict[str, JobRows]:
    """By job id."""
    with database.read() as connection:
        found = {row["id"]: JobRows(row) for row in connection.execute(select(jobs)).mappings()}
        tables: list[tuple[Table, str, tuple[Any, ...]]] = [
            (calls, "ledger", (calls.c.started_at, calls.c.id)),
            (iterations, "iterations", (iterations.c.number, iterations.c.candidate)),
            (evaluations, "evaluations", (evaluations.c.created_at, evaluations.c.id)),
            (events, "events", (events.c.seq,)),
        ]
        for table, name, order in tables:
            for row in connection.execute(select(table).order_by(*order)).mappings():
                getattr(found[row["job_id"]], name).append(row)
        if database.is_sqlite:
            _take_written_times(found)
        else:
            query = "SELECT job_id, id, pg_xact_commit_timestamp(xmin) FROM calls UNION ALL "
            query += "SELECT id, id, pg_xact_commit_timestamp(xmin) FROM jobs"
            for job_id, row_id, at in connection.execute(text(query)):
                if at is not None:
                    found[job_id].committed_at[row_id] = at
    by_case = {rows.case: rows for rows in found.values()}
    for entry in requests:
        if entry.case in by_case:
            by_case[entry.case].requests.append(entry)
    return found


def _take_written_times(found: Mapping[str, JobRows]) -> None:
    """SQLite has one writer at a time: whatever was written earlier was committed before what was written later."""
    for rows in found.values():
        rows.committed_at = {call["id"]: call["finished_at"] for call in rows.ledger if call["finished_at"]}
        if rows.job["finished_at"]:
            rows.committed_at[rows.job["id"]] = rows.job["finished_at"]
