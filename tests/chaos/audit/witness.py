"""Looks at the rows all the time: what must only grow grows, and what has ended stays as it is."""

import threading
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select

from redraft.errors import Unavailable
from redraft.storage.engine.tables import jobs
from redraft.storage.engine.unit_of_work import Database
from tests.support.waiting import patient

_EVERY_S = 0.25
GROWING = (
    *("version", "lease_token", "event_seq", "step_no", "iteration", "continuations"),
    *("calls", "input_tokens", "output_tokens"),
)
KEPT = ("status", "stop_reason", "finished_at", "event_seq", "best_score")


class Witness:
    """A thread with a connection of its own, from `start` to `stop`."""

    def __init__(self, url: str) -> None:
        self.problems: list[str] = []
        self.looks = 0
        self.live = 0
        self._database = Database(url, pool_size=1)
        self._last: dict[str, dict[str, Any]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)

    def start(self) -> "Witness":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(patient(40))
        self.look()
        self._database.close()

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                self.look()
            except Unavailable:
                continue

    def look(self) -> None:
        names = sorted({"id", *GROWING, *KEPT})
        with self._database.read() as connection:
            rows = [dict(row) for row in connection.execute(select(*(jobs.c[name] for name in names))).mappings()]
        for row in rows:
            before = self._last.get(row["id"])
            if before is not None:
                self.problems += [f"{row['id']}: {words}" for words in changes(before, row)]
            self._last[row["id"]] = row
        self.problems += [f"{gone}: is gone" for gone in self._last.keys() - {row["id"] for row in rows}]
        self.live = sum(row["finished_at"] is None for row in rows)
        self.looks += 1


def changes(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    yield from (f"{name} fell from {before[name]} to {now[name]}" for name in GROWING if now[name] < before[name])
    if before["finished_at"] is not None and now["continuations"] == before["continuations"]:
        moved = [f"{name} from {before[name]} to {now[name]}" for name in KEPT if now[name] != before[name]]
        yield from (f"had ended, and was changed: {words}" for words in moved)
    moved = any(now[name] != before[name] for name in ("status", "event_seq", "step_no", "iteration", "calls"))
    if moved and now["version"] == before["version"] and now["status"] != before["status"]:
        yield f"changed from {before['status']} to {now['status']}, and its version did not"
