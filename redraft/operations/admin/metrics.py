"""Prometheus metrics from the database, the same for all workers and API processes.

No process counts anything. The current state is a gauge; ended jobs and calls are gauges over the last five minutes,
which an index answers quickly however many jobs are stored.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redraft import __version__
from redraft.errors import Unavailable
from redraft.operations.services import Services
from redraft.storage.admin import metrics, workers
from redraft.storage.engine import schema

WINDOW_S = 300.0
_FRESH_S = 5.0
# Model names come from requests: the less used ones share a label, so that the number of series stays bounded
_MODELS_MAX = 30
_OTHER = "other"
_STATES = ("waiting", "delayed", "in_flight", "lost")
_OUTCOMES = {"ok": "succeeded", "dup": "superseded", "error": "failed", "unknown": "lost"}

FAMILIES = {
    "database_up": "Whether the database answers.",
    "broker_up": "Whether the broker answers.",
    "build_info": "This program's version, and the schema's that it found.",
    "database_bytes": "Size of the database on its disk.",
    "workers": "Workers with a heartbeat within the last three intervals.",
    "worker_slots": "Steps that the workers can execute at once.",
    "jobs_live": "Jobs that have not ended.",
    "jobs_suspected": "Live jobs that lost several workers: they run in a process of their own.",
    "steps": "Next steps of live jobs: waiting for a worker, delayed, in_flight, or lost with their worker.",
    "oldest_wait_seconds": "How long the longest waiting step has been due.",
    "sweeper_lag_seconds": "How long the most overdue step has been due or lost without a notification of the workers.",
    "jobs_ended_5m": "Jobs that ended in the last five minutes.",
    "calls_open": "Open calls to models.",
    "calls_5m": "Calls that ended in the last five minutes.",
    "call_seconds_5m": "Total time of those calls.",
    "tokens_5m": "Tokens of those calls; cached_input is a part of input.",
    "cost_usd_5m": "Cost of those calls with a known price.",
    "unpriced_calls_5m": "Those calls with an unknown cost.",
    "webhook_deliveries": "Webhook deliveries that are pending or have failed.",
    "webhook_oldest_due_seconds": "How long the longest waiting webhook delivery has been due.",
    "metrics_seconds": "Time to collect the metrics.",
}
"""The help text of each metric; all names get the prefix `redraft_`."""


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    value: float
    labels: Mapping[str, str]


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name, value, labels)


class Metrics:
    """Caches the metrics for a few seconds, so that frequent scrapes cost the database nothing."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._text = ""
        self._stale_at = 0.0

    def read(self) -> str:
        """All metrics in the text format of Prometheus; only `…_up` metrics if the database does not answer."""
        with self._lock:
            if time.monotonic() >= self._stale_at:
                self._text = exposition(collect(self._services))
                self._stale_at = time.monotonic() + _FRESH_S
            return self._text


def collect(services: Services) -> list[Sample]:
    """Every metric, by short read transactions."""
    began = time.monotonic()
    found: list[Sample] = []
    is_up = _is_up(lambda: found.extend(_from_database(services)))
    found.append(sample("database_up", is_up))
    found.append(sample("broker_up", _is_up(services.queue.ping)))
    found.append(sample("metrics_seconds", time.monotonic() - began))
    return found


def _is_up(probe: Callable[[], None]) -> bool:
    try:
        probe()
    except Unavailable:
        return False
    return True


def _from_database(services: Services) -> list[Sample]:
    database = services.database
    version = schema.current(database) or ""
    found = [sample("build_info", 1, version=__version__, schema=version, database=database.url.get_backend_name())]
    if not schema.standing(database).is_usable:
        return found
    with database.read() as connection:
        found.append(sample("database_bytes", metrics.size_bytes(connection)))
        found += _workers(workers.alive(connection, within_s=3 * services.settings.heartbeat_s))
        found += _live(metrics.live_steps(connection))
        found += _open_calls(metrics.open_calls(connection))
        found += _deliveries(metrics.deliveries(connection))
    with database.read() as connection:
        ended = metrics.ended_jobs(connection, within_s=WINDOW_S)
        closed = metrics.closed_calls(connection, within_s=WINDOW_S)
    found += [
        sample("jobs_ended_5m", row["jobs"], status=row["status"], stop_reason=row["stop_reason"]) for row in ended
    ]
    return found + list(_closed_calls(closed))


def _workers(alive: list[dict[str, Any]]) -> list[Sample]:
    count = Counter(worker["version"] for worker in alive)
    slots: Counter[str] = Counter()
    for worker in alive:
        slots[worker["version"]] += worker["concurrency"]
    return [
        *(sample("workers", count[version], version=version) for version in count or [__version__]),
        *(sample("worker_slots", slots[version], version=version) for version in slots or [__version__]),
    ]


def _live(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    for status in ("queued", "running"):
        yield sample("jobs_live", sum(row["jobs"] for row in rows if row["status"] == status), status=status)
    for step in ("generate", "evaluate"):
        for state in _STATES:
            yield sample("steps", sum(row[state] for row in rows if row["step"] == step), state=state, step=step)
    yield sample("jobs_suspected", sum(row["suspects"] for row in rows))
    yield sample("oldest_wait_seconds", max((_age_s(row, "due_since") for row in rows), default=0.0))
    yield sample("sweeper_lag_seconds", max((_age_s(row, "unheard_since") for row in rows), default=0.0))


def _age_s(row: Mapping[str, Any], name: str) -> float:
    since: datetime | None = row[name]
    return 0.0 if since is None else max(0.0, (row["now"] - since).total_seconds())


def _open_calls(rows: list[dict[str, Any]]) -> list[Sample]:
    shown = _busiest(rows)
    counts: Counter[str] = Counter()
    for row in rows:
        counts[shown(row["model"])] += row["calls"]
    return [sample("calls_open", count, model=model) for model, count in counts.items()]


def _deliveries(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    for row in rows:
        yield sample("webhook_deliveries", row["deliveries"], status=row["status"])
    yield sample("webhook_oldest_due_seconds", max(_age_s(row, "due_since") for row in rows))


def _closed_calls(rows: list[dict[str, Any]]) -> Iterator[Sample]:
    shown = _busiest(rows)
    sums: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
    for row in rows:
        for each in _of_closed(row, shown(row["model"])):
            sums[each.name, tuple(each.labels.items())] += each.value
    for (name, labels), value in sums.items():
        yield Sample(name, value, dict(labels))


def _of_closed(row: Mapping[str, Any], model: str) -> Iterator[Sample]:
    yield sample(
        "calls_5m",
        row["calls"],
        model=model,
        type=row["type"],
        outcome=_OUTCOMES[row["status"]],
        http_status=str(row["http_status"] or ""),
        cached=str(bool(row["cached"])).lower(),
    )
    yield sample("call_seconds_5m", row["latency_ms"] / 1000, model=model, type=row["type"])
    for kind in ("input", "cached_input", "output"):
        yield sample("tokens_5m", row[f"{kind}_tokens"], model=model, kind=kind)
    yield sample("cost_usd_5m", row["cost_nano_usd"] / 1e9, model=model)
    yield sample("unpriced_calls_5m", row["unpriced"], model=model)


def _busiest(rows: list[dict[str, Any]]) -> Callable[[str], str]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["model"]] += row["calls"]
    named = {model for model, _ in counts.most_common(_MODELS_MAX)}
    return lambda model: model if model in named else _OTHER


def exposition(samples: Iterable[Sample]) -> str:
    """Prometheus' text format, version 0.0.4."""
    by_name: dict[str, list[Sample]] = {name: [] for name in FAMILIES}
    for each in samples:
        by_name[each.name].append(each)
    lines: list[str] = []
    for name, found in by_name.items():
        if found:
            lines += [f"# HELP redraft_{name} {FAMILIES[name]}", f"# TYPE redraft_{name} gauge"]
            lines += [f"redraft_{name}{_labels(each.labels)} {float(each.value):.15g}" for each in found]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items()) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
