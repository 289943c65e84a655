"""Sends traces to an OTLP receiver with the SDK of OpenTelemetry, which the extra `otel` installs."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from redraft.settings import Settings
from redraft.tracing.histories import EvaluationEvent, Span, Trace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OtlpExporter:
    """Exports spans, and evaluation results as log records. OpenTelemetry's own variables set further options."""

    def __init__(self, settings: Settings) -> None:
        base, headers = settings.otel_exporter_otlp_endpoint.rstrip("/"), settings.trace_headers
        self._spans = OTLPSpanExporter(endpoint=f"{base}/v1/traces", headers=headers)
        logs = OTLPLogExporter(endpoint=f"{base}/v1/logs", headers=headers)
        # Some receivers accept no log records; OTEL_LOGS_EXPORTER=none switches them off
        self._logs = None if settings.otel_logs_exporter == "none" else logs
        name = OTELResourceDetector().detect().attributes.get(SERVICE_NAME, "redraft")
        self._resource = Resource.create({SERVICE_NAME: name, "service.version": version("redraft")})
        self._scope = InstrumentationScope("redraft", version("redraft"))

    def export(self, traces: Sequence[Trace]) -> bool:
        """Send traces, and return whether the receiver accepted them. The exporter repeats failed attempts."""
        spans = [self._span(trace, span) for trace in traces for span in trace.spans]
        records = [self._record(trace, event) for trace in traces for event in trace.events]
        is_accepted = not spans or self._spans.export(spans) is SpanExportResult.SUCCESS
        if self._logs is not None and records:
            is_accepted = self._logs.export(records) is LogRecordExportResult.SUCCESS and is_accepted
        return is_accepted

    def shutdown(self) -> None:
        self._spans.shutdown()
        if self._logs is not None:
            self._logs.shutdown()

    def _span(self, trace: Trace, span: Span) -> ReadableSpan:
        is_remote = span is trace.spans[0]
        parent = None if span.parent_id is None else _context(trace, span.parent_id, is_remote=is_remote)
        return ReadableSpan(
            span.name,
            context=_context(trace, span.span_id),
            parent=parent,
            resource=self._resource,
            attributes=_present(span.attributes),
            kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=self._scope,
        )

    def _record(self, trace: Trace, event: EvaluationEvent) -> ReadableLogRecord:
        record = LogRecord(
            timestamp=_nanoseconds(event.at),
            context=set_span_in_context(NonRecordingSpan(_context(trace, event.span_id))),
            severity_number=SeverityNumber.INFO,
            event_name="gen_ai.evaluation.result",
            attributes=_present(event.attributes),
        )
        return ReadableLogRecord(record, self._resource, self._scope)


def _context(trace: Trace, span_id: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace.trace_id, span_id, is_remote=is_remote, trace_flags=_SAMPLED)


def _present(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
