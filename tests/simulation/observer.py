"""Looks at the committed rows after each unit of work, and at each message, in virtual time."""

import sqlite3
from typing import Any

from redraft.messages import StepMessage
from tests.chaos.audit.witness import GROWING, KEPT, changes
from tests.simulation.world import Process, World

_COLUMNS = sorted({"id", *GROWING, *KEPT, "lease_owner"})


class Observer:
    """A connection of its own, which sees only what is committed."""

    def __init__(self, world: World, file: str) -> None:
        self._world = world
        self._connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)
        self._query = f"SELECT {', '.join(_COLUMNS)} FROM jobs"
        self._last: dict[str, dict[str, Any]] = {}
        self.names: dict[str, str] = {}
        """Of jobs: ids differ from run to run, and what is printed shall not."""
        self.holders: dict[tuple[str, int], str] = {}
        """Who has held which token of which job, by the owner's id."""

    def look(self, process: Process) -> None:
        for values in self._connection.execute(self._query):
            row = dict(zip(_COLUMNS, values, strict=True))
            before = self._last.get(row["id"])
            if before == row:
                continue
            name = self.names.setdefault(row["id"], f"job {len(self.names) + 1}")
            if before is not None:
                self._world.problems += [f"{name}: {words}" for words in changes(before, row)]
            if row["lease_owner"]:
                self.holders[row["id"], row["lease_token"]] = row["lease_owner"]
            where = f"{row['status']}, step {row['step_no']}, token {row['lease_token']}, event {row['event_seq']}"
            self._world.note(process.name, f"commits {name}: {where}")
            self._last[row["id"]] = row

    def has_ended(self, job_id: str) -> bool:
        return job_id in self._last and self._last[job_id]["finished_at"] is not None

    def check_message(self, who: str, message: StepMessage) -> None:
        found = self._connection.execute("SELECT step_no FROM jobs WHERE id = ?", (message.job_id,)).fetchone()
        name = self.names.get(message.job_id, "a job")
        if found is None or found[0] < message.step_no:
            self._world.problems.append(f"{name}: a message names step {message.step_no}, which is not committed")
        self._world.note(who, f"notifies of {message.step.value} {message.step_no} of {name}")

    def close(self) -> None:
        self._connection.close()
