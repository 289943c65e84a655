"""Exports traces in a separate thread, so that no step waits. If no endpoint is set, OpenTelemetry is not imported."""

import contextlib
import queue
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import structlog

from redraft.settings import Settings
from redraft.storage.engine.unit_of_work import Database

if TYPE_CHECKING:
    from redraft.tracing.histories import Trace
    from redraft.tracing.otlp import OtlpExporter

log = structlog.get_logger()

_WAITING_MAX = 10_000
_BATCH = 50
# The export of a trace waits for this time, because a stopping worker, or that of a canceled job, still stores replies
_SETTLE_S = 0.5
# Must not exceed the time that a command with its own worker gives the worker to stop
_LAST_EXPORTS_S = 4.0
_QUIET_S = 60.0


def open_traces(settings: Settings, database: Database) -> "JobTraces | None":
    """Return the exporter of traces; None if no endpoint is set, or the extra is not installed."""
    if not settings.otel_exporter_otlp_endpoint:
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        # No exception, because operators of clusters set the variable for all programs, even those without the extra
        log.error("traces_not_exported", reason="OTEL_EXPORTER_OTLP_ENDPOINT needs: pip install 'redraft[otel]'")
        return None
    return JobTraces(settings, database)


class JobTraces:
    """A bounded queue of ended jobs, and the thread that exports their traces."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._ended = queue.Queue[tuple[str, int, float]](_WAITING_MAX)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._is_given_up = False
        self._exporter: OtlpExporter | None = None
        self._warned_at = 0.0

    def export(self, job_id: str, continuation: int) -> None:
        """Queue the trace of a job from its start, or from the start of a continuation, to its end. Never waits."""
        try:
            self._ended.put_nowait((job_id, continuation, time.monotonic() + _SETTLE_S))
        except queue.Full:
            self._warn("traces_dropped", reason=f"{_WAITING_MAX} ended jobs already wait for the export.")
            return
        self.start()

    def start(self) -> None:
        """Start the thread once. A worker calls this at its start, because the thread's import takes a second."""
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Export the queued traces, for a few seconds at most."""
        with self._lock:
            self._closing.set()
        if self._thread is None:
            return
        self._thread.join(_LAST_EXPORTS_S)
        # The thread must read no more traces, because the caller closes the database next
        self._is_given_up = True
        exporter = self._exporter
        if exporter is not None:
            # Ends the waits between the attempts of an export
            exporter.shutdown()
        if self._thread.is_alive():
            log.warning("traces_dropped", reason="The OTLP receiver did not answer in time.")

    def _run(self) -> None:
        try:
            # Imported here, because the import takes a second
            from redraft.tracing.otlp import OtlpExporter

            self._exporter = OtlpExporter(self._settings)
        except Exception:
            log.exception("traces_not_exported")
            return
        while not self._is_given_up and not (self._closing.is_set() and self._ended.empty()):
            batch = self._take()
            if batch:
                self._export(self._exporter, batch)

    def _take(self) -> list[tuple[str, int]]:
        batch: list[tuple[str, int]] = []
        with contextlib.suppress(queue.Empty):
            while len(batch) < _BATCH:
                job_id, continuation, due_at = self._ended.get(timeout=0 if batch else 0.2)
                self._closing.wait(max(0.0, due_at - time.monotonic()))
                batch.append((job_id, continuation))
        return batch

    def _export(self, exporter: "OtlpExporter", batch: list[tuple[str, int]]) -> None:
        traces = [trace for each in batch if (trace := self._read(*each)) is not None]
        try:
            is_accepted = exporter.export(traces)
        except Exception as error:  # noqa: BLE001 - an error must not end the thread
            self._warn("traces_not_exported", reason=f"{type(error).__name__}: {error}")
            return
        if not is_accepted:
            self._warn("traces_not_exported", reason="The OTLP receiver did not accept them.")

    def _read(self, job_id: str, continuation: int) -> "Trace | None":
        from redraft.tracing.histories import read_trace

        try:
            return read_trace(self._database, job_id, continuation, with_content=self._settings.trace_content)
        except Exception as error:  # noqa: BLE001 - the traces of other jobs must still be exported
            self._warn("traces_not_exported", reason=f"{type(error).__name__}: {error}")
            return None

    def _warn(self, event: str, reason: str) -> None:
        """Log a warning, at most once a minute."""
        now = time.monotonic()
        if now - self._warned_at >= _QUIET_S or not self._warned_at:
            self._warned_at = now
            log.warning(event, reason=reason)
