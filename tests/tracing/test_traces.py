"""The traces of jobs, as an OTLP receiver gets them from real workers."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from redraft.domain.jobs.ids import TraceParent, read_traceparent
from redraft.domain.jobs.requests import ContinueJob, GenerateAnswer
from redraft.operations.jobs import lifecycle, queries, submit
from redraft.operations.services import Services
from redraft.runtime import build_runtime
from redraft.settings import Settings
from tests.model_server.scripts import Reply
from tests.model_server.server import ModelServer
from tests.support.processes import WorkerProcess, environment_of
from tests.support.receiver import Answer
from tests.support.shells import Shell
from tests.support.waiting import patient, wait_until
from tests.tracing.collector import Collector, Received

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = TraceParent(TRACE, CALLER, "01")
StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def database_url(make_database_url: Callable[[str], str]) -> str:
    return make_database_url("sqlite")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as opened:
        yield opened


@pytest.fixture
def traced(make_services: Callable[..., Services], collector: Collector) -> Services:
    return make_services(otel_exporter_otlp_endpoint=collector.url)


def ask(services: Services, traceparent: TraceParent | None = None, **fields: Any) -> str:
    request = GenerateAnswer.model_validate(
        {"instruct": "Name the capital of France.", "eval_crit": "It is Paris.", **fields}
    )
    return submit.submit(services, request, traceparent=traceparent).job.id


def wait_until_ended(services: Services, job_id: str) -> None:
    wait_until(lambda: queries.get_job(services, job_id).finished_at, within_s=30, what="the end of the job")


def below(spans: list[Received], parent: Received) -> list[Received]:
    return sorted((span for span in spans if span.parent_id == parent.span_id), key=lambda span: span.start)


def test_a_job_is_a_trace_of_iterations_and_calls_in_the_trace_of_its_caller(
    traced: Services, collector: Collector, model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Lyon", "Paris"], evaluate=[0.4, 0.9])
    start_worker(traced)
    job_id = ask(traced, PARENT)
    (root,) = collector.wait_for_jobs(1)
    spans = collector.spans
    assert {span.trace_id for span in spans} == {TRACE}
    assert len({span.span_id for span in spans}) == len(spans) == 1 + 2 + 4
    assert root.parent_id == CALLER
    assert root.resource["service.name"] == "redraft"
    assert root.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert root.attributes["redraft.job.id"] == job_id
    assert root.attributes["redraft.job.stop_reason"] == "accepted"
    assert (root.attributes["redraft.job.score"], root.attributes["redraft.job.success"]) == (0.9, True)

    first, second = below(spans, root)
    assert [first.name, second.name] == ["iteration 1", "iteration 2"]
    assert (first.attributes["redraft.iteration.score"], first.attributes["redraft.iteration.passed"]) == (0.4, False)
    assert root.start <= first.start < first.end <= second.start < second.end <= root.end
    generate, evaluate = below(spans, second)
    assert (generate.name, evaluate.name) == ("chat writer", "chat judge")
    assert generate.kind == 3, "a client span"
    usage = queries.get_job(traced, job_id).usage
    assert root.attributes["gen_ai.usage.input_tokens"] == usage.input_tokens
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "writer",
        "gen_ai.response.finish_reasons": ["stop"],
        "redraft.call.type": "generate",
        "redraft.call.attempt": 1,
    }
    assert {name: generate.attributes.get(name) for name in expected} == expected
    assert generate.attributes["gen_ai.usage.output_tokens"] > 0
    # Neither prompts nor answers nor reasons leave the installation
    assert b"Paris" not in collector.raw
    assert b"capital" not in collector.raw


def test_verdicts_are_events_of_the_calls_that_wrote_the_answers(
    traced: Services, collector: Collector, model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Lyon", "Paris"], evaluate=[0.4, 0.9])
    start_worker(traced)
    ask(traced, PARENT)
    collector.wait_for_jobs(1)
    verdicts = [event for event in collector.events if event.attributes["gen_ai.evaluation.name"] == "criteria"]
    assert {event.name for event in verdicts} == {"gen_ai.evaluation.result"}
    by_score = {event.attributes["gen_ai.evaluation.score.value"]: event for event in verdicts}
    labels = {score: event.attributes["gen_ai.evaluation.score.label"] for score, event in by_score.items()}
    assert labels == {0.4: "fail", 0.9: "pass"}
    written = [span for span in collector.spans if span.attributes.get("redraft.call.type") == "generate"]
    last = max(written, key=lambda span: span.start)
    assert (by_score[0.9].trace_id, by_score[0.9].span_id) == (TRACE, last.span_id)


def test_a_job_whose_worker_is_killed_has_one_job_span_with_all_calls(
    traced: Services, collector: Collector, model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Lyon", Reply(text="lost", is_held=True)], evaluate=[0.4, 0.9])
    first = start_worker(traced)
    job_id = ask(traced, PARENT)
    wait_until(lambda: len(model_server.requests("generate")) == 2, within_s=30, what="the second iteration")
    first.kill()
    model_server.release()
    model_server.script(generate=["Paris"], evaluate=[0.9])
    start_worker(traced)
    wait_until_ended(traced, job_id)
    (root,) = collector.wait_for_jobs(1)
    assert (root.trace_id, root.parent_id) == (TRACE, CALLER)
    first_iteration, second_iteration = below(collector.spans, root)
    types = [span.attributes["redraft.call.type"] for span in below(collector.spans, first_iteration)]
    assert types == ["generate", "evaluate"]
    lost, repeated, _ = below(collector.spans, second_iteration)
    assert (lost.has_error, lost.attributes["error.type"]) == (True, "worker_lost")
    assert (repeated.has_error, repeated.attributes["redraft.call.type"]) == (False, "generate")


def test_a_continuation_is_a_span_below_the_job_and_a_cancellation_ends_one(
    traced: Services, collector: Collector, model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Lyon", "Paris"], evaluate=[0.4, 0.9])
    start_worker(traced)
    job_id = ask(traced, iter_max=1)
    (root,) = collector.wait_for_jobs(1)
    assert (root.trace_id, root.parent_id) == (job_id.removeprefix("job_"), "")
    lifecycle.continue_job(traced, job_id, ContinueJob(iter_max=1))
    again = next(span for span in collector.wait_for_jobs(2) if span.attributes["redraft.job.continuation"] == 1)
    assert (again.trace_id, again.parent_id) == (root.trace_id, root.span_id)
    assert [span.name for span in below(collector.spans, root)] == ["iteration 1", "invoke_workflow redraft"]
    assert [span.name for span in below(collector.spans, again)] == ["iteration 2"]

    # This process cancels the job, and exports its trace
    model_server.script(generate=[Reply(text="never", is_held=True)])
    canceled = ask(traced)
    wait_until(lambda: len(model_server.requests("generate")) == 3, within_s=30, what="the call")
    lifecycle.cancel(traced, canceled)
    ended = next(span for span in collector.wait_for_jobs(3) if span.attributes["redraft.job.id"] == canceled)
    assert ended.attributes["redraft.job.status"] == "canceled"
    model_server.release()


def test_content_is_exported_only_if_asked_for_and_without_secrets(
    make_services: Callable[..., Services], collector: Collector, model_server: ModelServer, start_worker: StartWorker
):
    services = make_services(otel_exporter_otlp_endpoint=collector.url, trace_content=True)
    model_server.script(generate=["Paris"], evaluate=[0.9])
    start_worker(services)
    ask(services, instruct="Capital of France? My key is sk-abcdefghijklmnop1234.")
    (root,) = collector.wait_for_jobs(1)
    assert json.loads(root.attributes["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Paris"}]}
    ]
    generate = next(span for span in collector.spans if span.attributes.get("redraft.call.type") == "generate")
    assert "Capital of France?" in generate.attributes["gen_ai.input.messages"]
    assert json.loads(generate.attributes["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Paris"
    assert collector.events[0].attributes["gen_ai.evaluation.explanation"]
    assert b"sk-abcdefghijklmnop1234" not in collector.raw


def test_a_caller_that_does_not_sample_gets_no_trace(
    traced: Services, collector: Collector, model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Paris", "Paris"], evaluate=[0.9, 0.9])
    start_worker(traced)
    unsampled = ask(traced, read_traceparent(f"00-{TRACE}-{CALLER}-00"))
    wait_until_ended(traced, unsampled)
    sampled = ask(traced)
    assert [span.attributes["redraft.job.id"] for span in collector.wait_for_jobs(1)] == [sampled]


def test_a_receiver_that_hangs_delays_neither_a_job_nor_the_end_of_its_worker(
    make_services: Callable[..., Services], model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Paris", "Paris"], evaluate=[0.9, 0.9])
    over = threading.Event()
    with Collector(Answer(before=over.wait)) as hanging:
        services = make_services(otel_exporter_otlp_endpoint=hanging.url, shutdown_grace_s=1.0)
        worker = start_worker(services)
        wait_until_ended(services, ask(services))
        wait_until(lambda: hanging.receiver.hits, within_s=20, what="the export")
        wait_until_ended(services, ask(services))
        assert worker.stop(within_s=15) == 0
        assert "traces_dropped" in worker.log_text()
        over.set()


def test_a_receiver_that_refuses_is_a_warning(
    make_services: Callable[..., Services], model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Paris"], evaluate=[0.9])
    with Collector(Answer(status=401)) as refusing:
        services = make_services(otel_exporter_otlp_endpoint=refusing.url)
        worker = start_worker(services)
        wait_until_ended(services, ask(services))
        wait_until(lambda: "traces_not_exported" in worker.log_text(), within_s=20, what="the warning")
        assert {hit.path for hit in refusing.receiver.hits} == {"/v1/traces", "/v1/logs"}


def test_headers_reach_the_receiver_and_no_log(
    make_services: Callable[..., Services], collector: Collector, model_server: ModelServer, start_worker: StartWorker
):
    model_server.script(generate=["Paris"], evaluate=[0.9])
    services = make_services(
        otel_exporter_otlp_endpoint=collector.url + "/",
        otel_exporter_otlp_headers="Authorization=Basic%20c2VjcmV0LWtleQ==",
    )
    assert "c2VjcmV0LWtleQ==" in services.settings.secrets
    worker = start_worker(services)
    ask(services)
    collector.wait_for_jobs(1)
    assert {hit.headers["authorization"] for hit in collector.receiver.hits} == {"Basic c2VjcmV0LWtleQ=="}
    assert "c2VjcmV0" not in worker.log_text()


def test_without_an_endpoint_the_exporter_is_not_imported(make_settings: Callable[..., Settings]):
    program = (
        "import sys; from redraft.settings import Settings; from redraft.runtime import build_runtime; "
        "services = build_runtime(Settings()); print(services.traces, 'opentelemetry.exporter' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment_of(make_settings()), capture_output=True, text=True,
        check=True, timeout=patient(60),
    )  # fmt: skip
    assert done.stdout.split() == ["None", "False"]


def test_an_endpoint_without_the_extra_is_an_error_in_the_log(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with structlog.testing.capture_logs() as logged:
        services = build_runtime(make_settings(otel_exporter_otlp_endpoint="http://127.0.0.1:1"))
    services.close()
    assert services.traces is None
    assert [(each["log_level"], each["event"]) for each in logged] == [("error", "traces_not_exported")]
    assert "pip install 'redraft[otel]'" in logged[0]["reason"]
    assert "pip install 'redraft[otel]'" in Shell.of(services).run("doctor").out
