"""An OTLP receiver: it decodes the spans and the events that come over HTTP."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.receiver import Answer, Receiver
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Received:
    """A span, or an event in a span."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    kind: int = 0
    has_error: bool = False
    start: int = 0
    end: int = 0
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    resource: dict[str, Any] = field(default_factory=dict[str, Any])


class Collector:
    def __init__(self, usual: Answer | None = None) -> None:
        self.receiver = Receiver(usual=usual)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    @property
    def raw(self) -> bytes:
        return b"".join(hit.body for hit in self.receiver.hits)

    @property
    def spans(self) -> list[Received]:
        return [
            Received(
                span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.kind,
                span.status.code == 2, span.start_time_unix_nano, span.end_time_unix_nano,
                _values(span.attributes), _values(group.resource.attributes),
            )
            for hit in self.receiver.hits if hit.path == "/v1/traces"
            for group in ExportTraceServiceRequest.FromString(hit.body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]  # fmt: skip

    @property
    def events(self) -> list[Received]:
        return [
            Received(
                record.event_name, record.trace_id.hex(), record.span_id.hex(), attributes=_values(record.attributes)
            )
            for hit in self.receiver.hits if hit.path == "/v1/logs"
            for group in ExportLogsServiceRequest.FromString(hit.body).resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]  # fmt: skip

    def roots(self) -> list[Received]:
        return [span for span in self.spans if span.name == "invoke_workflow redraft"]

    def wait_for_jobs(self, count: int) -> list[Received]:
        """Wait for the traces of so many ended jobs, and for the events that follow each of them."""
        wait_until(lambda: len(self.roots()) >= count and self.events, within_s=20, what=f"{count} traces")
        return self.roots()

    def __enter__(self) -> Self:
        self.receiver.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.receiver.__exit__()


def _values(attributes: Sequence[Any]) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
