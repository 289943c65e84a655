"""Prometheus metrics from the database, the same for all workers and API processes.

No process counts events: a killed worker would lose its counts, and workers have no port to scrape. Ended jobs and
calls are gauges over the last five minutes. Their queries use partial indexes, so stored jobs do not slow them down.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from redraft import __version__
from redraft.errors import Unavailable
from redraft.operations.services import Services
from redraft.storage.admin import metrics, workers
from redraft.storage.engine import schema

WINDOW_S = 300.0
# Several Prometheus servers may scrape at the same time, and each collection costs the database several queries
_FRESH_S = 5.0
# Requests choose model names. The less used models share a label, so that the number of series is bounded
_MODELS_MAX = 30
_OTHER = "other"
_STATES = ("waiting", "delayed", "in_flight", "lost")
_OUTCOMES = {"ok": "succeeded", "dup": "superseded", "error": "failed", "unknown": "lost"}

FAMILIES = {
    "database_up": "Whether the database answers.",
    "broker_up": "Whether the broker answers.",
    "build_info": "Versions of this program and of the schema in the database.",
    "database_bytes": "Size of the database on its disk.",
    "workers": "Workers with a heartbeat within the last three intervals.",
    "worker_slots": "Steps that the workers can execute at once.",
    "jobs_live": "Jobs that have not ended.",
    "jobs_suspected": "Live jobs whose worker was lost several times. Their steps now run in separate processes.",
    "steps": "Next steps of live jobs by state: waiting for a worker, delayed, in_flight, or lost with their worker.",
    "oldest_wait_seconds": "Time for which the longest waiting step has been due.",
    "sweeper_lag_seconds": "Longest time for which a due or lost step has caused no notification of the workers.",
    "jobs_ended_5m": "Jobs that ended in the last five minutes.",
    "job_continuations": "Continuations of all stored jobs.",
    "calls_open": "Open calls to models.",
    "calls_5m": "Calls that ended in the last five minutes.",
    "call_seconds_5m": "Total duration of the calls that ended in the last five minutes.",
    "tokens_5m": "Tokens of the calls that ended in the last five minutes; cached_input and cache_write are parts of "
    "input, and reasoning is a part of output.",
    "cost_usd_5m": "Known cost of the calls that ended in the last five minutes.",
    "unpriced_calls_5m": "Calls with an unknown cost that ended in the last five minutes.",
    "webhook_deliveries": "Webhook deliveries that are pending or have failed.",
    "webhook_oldest_due_seconds": "Time for which the longest waiting webhook delivery has been due.",
    "metrics_seconds": "Time to collect the metrics.",
}
"""The help text of each metric; all names get the prefix `redraft_`."""


class Gauges:
    """Holds the values of the metrics by name and labels."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, float]] = {name: {} for name in FAMILIES}

    def add(self, name: str, value: float, **labels: str) -> None:
        """Add to the value with these labels. Every value begins with 0."""
        escaped = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        values = self._values[name]
        values[escaped] = values.get(escaped, 0.0) + float(value)

    def exposition(self) -> str:
        """Return all values in Prometheus' text format, version 0.0.4."""
        # Written without prometheus_client, because its registry of metrics within a process is not needed here
        lines: list[str] = []
        for name, values in self._values.items():
            if values:
                lines += [f"# HELP redraft_{name} {FAMILIES[name]}", f"# TYPE redraft_{name} gauge"]
            for labels, value in values.items():
                lines.append(f"redraft_{name}{f'{{{labels}}}' if labels else ''} {value:.15g}")
        return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Metrics:
    """Caches the metrics for a few seconds, so that frequent scrapes cost the database nothing."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._text = ""
        self._stale_at = 0.0

    def read(self) -> str:
        """Return all metrics in the text format of Prometheus; only `…_up` metrics if the database does not answer."""
        with self._lock:
            if time.monotonic() >= self._stale_at:
                self._text = collect(self._services).exposition()
                self._stale_at = time.monotonic() + _FRESH_S
            return self._text


def collect(services: Services) -> Gauges:
    """Collect all metrics in short read transactions."""
    began = time.monotonic()
    gauges = Gauges()
    is_up = _is_up(lambda: _add_from_database(gauges, services))
    if not is_up:
        # If the connection broke during the collection, only some values are there, and nothing would show the gap
        gauges = Gauges()
    gauges.add("database_up", is_up)
    gauges.add("broker_up", _is_up(services.queue.ping))
    gauges.add("metrics_seconds", time.monotonic() - began)
    return gauges


def _is_up(probe: Callable[[], None]) -> bool:
    try:
        probe()
    except Unavailable:
        return False
    return True


def _add_from_database(gauges: Gauges, services: Services) -> None:
    database = services.database
    version = schema.current(database) or ""
    gauges.add("build_info", 1, version=__version__, schema=version, database=database.url.get_backend_name())
    if not schema.schema_state(database).is_usable:
        return
    with database.read() as connection:
        gauges.add("database_bytes", metrics.size_bytes(connection))
        _add_workers(gauges, workers.alive(connection, within_s=3 * services.settings.heartbeat_s))
        _add_live(gauges, metrics.live_steps(connection))
        gauges.add("job_continuations", metrics.count_continuations(connection))
        open_calls = metrics.open_calls(connection)
        deliveries = metrics.deliveries(connection)
    with database.read() as connection:
        ended = metrics.ended_jobs(connection, within_s=WINDOW_S)
        closed_calls = metrics.closed_calls(connection, within_s=WINDOW_S)
    shown = _model_labels(open_calls)
    for row in open_calls:
        gauges.add("calls_open", row["calls"], model=shown(row["model"]))
    for row in deliveries:
        gauges.add("webhook_deliveries", row["deliveries"], status=row["status"])
    gauges.add("webhook_oldest_due_seconds", max(_age_s(row, "due_since") for row in deliveries))
    for row in ended:
        gauges.add("jobs_ended_5m", row["jobs"], status=row["status"], stop_reason=row["stop_reason"])
    shown = _model_labels(closed_calls)
    for row in closed_calls:
        _add_closed(gauges, row, shown(row["model"]))


def _add_workers(gauges: Gauges, alive: list[dict[str, Any]]) -> None:
    for worker in alive or [{"version": __version__, "concurrency": 0}]:
        gauges.add("workers", 1 if alive else 0, version=worker["version"])
        gauges.add("worker_slots", worker["concurrency"], version=worker["version"])


def _add_live(gauges: Gauges, rows: list[dict[str, Any]]) -> None:
    # Values of 0 are exported too: an alert on a missing series never fires
    for status in ("queued", "running"):
        gauges.add("jobs_live", sum(row["jobs"] for row in rows if row["status"] == status), status=status)
    for step in ("generate", "evaluate"):
        for state in _STATES:
            gauges.add("steps", sum(row[state] for row in rows if row["step"] == step), state=state, step=step)
    gauges.add("jobs_suspected", sum(row["suspects"] for row in rows))
    gauges.add("oldest_wait_seconds", max((_age_s(row, "due_since") for row in rows), default=0.0))
    gauges.add("sweeper_lag_seconds", max((_age_s(row, "unnotified_since") for row in rows), default=0.0))


def _age_s(row: Mapping[str, Any], name: str) -> float:
    since: datetime | None = row[name]
    return 0.0 if since is None else max(0.0, (row["now"] - since).total_seconds())


def _add_closed(gauges: Gauges, row: Mapping[str, Any], model: str) -> None:
    gauges.add(
        "calls_5m",
        row["calls"],
        model=model,
        type=row["type"],
        outcome=_OUTCOMES[row["status"]],
        http_status=str(row["http_status"] or ""),
        cached=str(bool(row["cached"])).lower(),
    )
    gauges.add("call_seconds_5m", row["latency_ms"] / 1000, model=model, type=row["type"])
    for kind in ("input", "cached_input", "cache_write", "output", "reasoning"):
        gauges.add("tokens_5m", row[f"{kind}_tokens"], model=model, kind=kind)
    gauges.add("cost_usd_5m", row["cost_nano_usd"] / 1e9, model=model)
    gauges.add("unpriced_calls_5m", row["unpriced"], model=model)


def _model_labels(rows: list[dict[str, Any]]) -> Callable[[str], str]:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["model"]] += row["calls"]
    named = {model for model, _ in counts.most_common(_MODELS_MAX)}
    return lambda model: model if model in named else _OTHER
