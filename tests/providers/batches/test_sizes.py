"""Request files below the limits of a batch, and memory that does not grow with them."""

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from redraft.errors import ProviderError
from redraft.providers.batches.batch_endpoint import BatchLimits, BatchRequest
from redraft.providers.batches.batch_files import BatchFileWriter
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import BatchScript, ModelServer
from tests.providers.batches.conftest import FORMATS, Client, MakeClient
from tests.support.waiting import patient

MB = 1_000_000


@pytest.mark.parametrize("wire_format", FORMATS)
def test_requests_are_split_by_their_number(make_client: MakeClient, server: ModelServer, wire_format: str):
    server.script(batch=BatchScript(polls=0, requests_max=3))
    client = make_client(wire_format, BatchLimits(3, MB))
    files = client.files(client.requests(7))
    assert [file.call_ids for file in files] == [
        ("call_1", "call_2", "call_3"),
        ("call_4", "call_5", "call_6"),
        ("call_7",),
    ]
    assert all(client.submit(file).state.is_ended for file in files)
    assert sum(len(batch.answered) for batch in server.batches()) == 7


@pytest.mark.parametrize("wire_format", FORMATS)
@pytest.mark.parametrize("limit", [2000, 2001, 2100])
def test_requests_are_split_by_their_size(make_client: MakeClient, server: ModelServer, wire_format: str, limit: int):
    server.script(batch=BatchScript(polls=0, bytes_max=limit))
    client = make_client(wire_format, BatchLimits(1000, limit))
    files = client.files(client.requests(30))
    assert len(files) > 1
    assert all(file.size == file.path.stat().st_size <= limit for file in files)
    assert [call_id for file in files for call_id in file.call_ids] == [f"call_{n}" for n in range(1, 31)]
    # The server refuses what is above the limit
    states = [client.submit(file).state for file in files]
    assert [str(state) for state in states] == ["completed"] * len(files)


def test_models_have_files_of_their_own(client: Client):
    requests = client.requests(4)
    second = client.body("hello", model="second-model")
    requests[1:3] = [BatchRequest("call_2", second), BatchRequest("call_3", second)]
    assert [(file.model, file.call_ids) for file in client.files(requests)] == [
        ("test-model", ("call_1", "call_4")),
        ("second-model", ("call_2", "call_3")),
    ]


def test_the_same_requests_give_the_same_files(make_client: MakeClient):
    client = make_client("openai", BatchLimits(2, MB))
    first = [(file.call_ids, file.path.read_bytes()) for file in client.files(client.requests(5))]
    assert first == [(file.call_ids, file.path.read_bytes()) for file in client.files(client.requests(5))]


def test_a_request_above_the_limit_is_in_no_file(make_client: MakeClient):
    client = make_client("openai", BatchLimits(10, 1000))
    writer = BatchFileWriter(client.endpoint, client.folder)
    assert writer.add(client.requests(1)[0]) is None
    with pytest.raises(ProviderError, match="at most 1000") as caught:
        writer.add(BatchRequest("call_2", client.body("x" * 2000)))
    assert caught.value.code == "context_too_long"
    assert [file.call_ids for file in writer.finish()] == [("call_1",)]


@pytest.fixture
def server_elsewhere() -> Iterator[str]:
    """A server in a process of its own, whose memory does not count."""
    command = [sys.executable, "-m", "tests.model_server", "--no-log"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()
        process.wait(patient(10))


@pytest.mark.parametrize("wire_format", FORMATS)
def test_a_large_batch_needs_little_memory(server_elsewhere: str, tmp_path: Path, wire_format: str):
    url = server_elsewhere if wire_format == "anthropic" else f"{server_elsewhere}/v1"
    endpoint = {"format": wire_format, "base_url": url, "batches": True}
    catalog = ProviderCatalog(Settings(data_dir=tmp_path, endpoints={f"via-{wire_format}": endpoint}))
    client = Client(wire_format, catalog, catalog.batches(f"via-{wire_format}"), tmp_path)
    client.ended(client.submit(client.file(1)))
    body = client.body("x" * 20_000)
    tracemalloc.start()
    try:
        writer = BatchFileWriter(client.endpoint, client.folder)
        for number in range(1000):
            writer.add(BatchRequest(f"call_{number}", body))
        [file] = writer.finish()
        batch = client.ended(client.submit(file))
        path = tmp_path / "results.jsonl"
        CALLS_LOOP.run(client.endpoint.download(batch, path))
        count = sum(line.kind.is_result for line in client.endpoint.lines(path, file.call_ids))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        catalog.close()
    assert count == 1000
    assert file.size > 20 * MB
    assert peak < 5 * MB
