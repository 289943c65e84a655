"""What was asked and when, and how many requests a model had in flight at most."""

import itertools
import threading
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Any

from tests.model_server.requests import Asked

_SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api-key"})


@dataclass(slots=True)
class Entry:
    """One request; `answered` is false while it hangs, and for ever when the client left first.

    A request of a batch has the ids of its batch and of its line."""

    number: int
    dialect: str
    role: str
    model: str
    case: str
    prompt: str
    body: Any
    headers: dict[str, str]
    started_at: float
    finished_at: float | None = None
    status: int | None = None
    answered: bool = False
    batch_id: str = ""
    custom_id: str = ""


class Logbook:
    def __init__(self, longest: int = 20_000) -> None:
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque(maxlen=longest)
        self._numbers = itertools.count(1)
        self._in_flight: Counter[str] = Counter()
        self._max_in_flight: Counter[str] = Counter()
        self._total = 0

    def begin(self, asked: Asked, *, keep: bool) -> Entry:
        headers = {k: "[redacted]" if k in _SECRET_HEADERS else v for k, v in asked.headers.items()}
        entry = Entry(
            next(self._numbers),
            asked.dialect,
            asked.role,
            asked.model,
            asked.case,
            asked.prompt if keep else "",
            asked.body if keep else None,
            headers if keep else {},
            time.time(),
        )
        with self._lock:
            self._total += 1
            self._in_flight[asked.model] += 1
            self._max_in_flight[asked.model] = max(self._max_in_flight[asked.model], self._in_flight[asked.model])
            if keep:
                self._entries.append(entry)
        return entry

    def end(self, entry: Entry) -> None:
        with self._lock:
            entry.finished_at = time.time()
            self._in_flight[entry.model] -= 1

    def entries(self) -> list[Entry]:
        with self._lock:
            return list(self._entries)

    @property
    def max_in_flight(self) -> dict[str, int]:
        with self._lock:
            return dict(self._max_in_flight)

    def clear(self) -> None:
        """Forget the past; what is in flight stays counted."""
        with self._lock:
            self._entries.clear()
            self._total = 0
            self._max_in_flight = Counter(self._in_flight)

    def to_json(self) -> dict[str, Any]:
        with self._lock:
            calls = [asdict(entry) for entry in self._entries]
            return {"total": self._total, "calls": calls, "max_in_flight": dict(self._max_in_flight)}
