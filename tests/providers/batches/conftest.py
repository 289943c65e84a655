"""Batch endpoints of both wire formats against the scripted server."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from redraft.domain.calls.model_names import ModelRef
from redraft.providers.batches.batch_endpoint import (
    BatchEndpoint,
    BatchLimits,
    BatchLine,
    BatchRequest,
    ProviderBatch,
    RequestFile,
)
from redraft.providers.batches.batch_files import BatchFileWriter
from redraft.providers.catalog import ProviderCatalog
from redraft.providers.shared.protocol import Chat, ChatReply, Message
from redraft.providers.shared.transport import CALLS_LOOP
from redraft.settings import Settings
from tests.model_server import ModelServer

FORMATS = ("openai", "anthropic")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def endpoints_of(server: ModelServer, **rest: Any) -> dict[str, Any]:
    """An endpoint with batches for each wire format, by the name `via-FORMAT`."""
    urls = {"openai": server.openai_url, "anthropic": server.anthropic_url}
    return {f"via-{name}": {"format": name, "base_url": url, "batches": True, **rest} for name, url in urls.items()}


@pytest.fixture
def settings(server: ModelServer, tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, endpoints=endpoints_of(server))


@dataclass
class Client:
    """One batch endpoint with what a caller does with it."""

    format: str
    catalog: ProviderCatalog
    endpoint: BatchEndpoint
    folder: Path

    def body(self, text: str = "hello", **rest: Any) -> dict[str, Any]:
        chat = Chat(
            ModelRef(self.endpoint.name, rest.pop("model", "test-model")),
            "",
            (Message("user", text, media=rest.pop("media", ())),),
            **rest,
        )
        return self.catalog.get(chat.model).wire_body(chat)

    def requests(self, count: int, **rest: Any) -> list[BatchRequest]:
        """Requests of cases of their own."""
        numbers = range(1, count + 1)
        return [BatchRequest(f"call_{n}", self.body(f"hello [[case:{n}]]", **rest)) for n in numbers]

    def files(self, requests: list[BatchRequest]) -> list[RequestFile]:
        writer = BatchFileWriter(self.endpoint, self.folder)
        full = [file for request in requests if (file := writer.add(request))]
        return [*full, *writer.finish()]

    def file(self, count: int = 3, **rest: Any) -> RequestFile:
        [file] = self.files(self.requests(count, **rest))
        return file

    def submit(
        self, file: RequestFile, batch_id: str = "batch_of_ours", confirm: Callable[[], None] = lambda: None
    ) -> ProviderBatch:
        return CALLS_LOOP.run(self.endpoint.submit(file, batch_id, confirm))

    def find(self, file: RequestFile, batch_id: str = "batch_of_ours", **rest: Any) -> ProviderBatch | None:
        since = rest.pop("since", LONG_AGO)
        return CALLS_LOOP.run(self.endpoint.find(batch_id, file.call_ids, since, **rest))

    def read(self, batch: ProviderBatch) -> ProviderBatch:
        return CALLS_LOOP.run(self.endpoint.read(batch.id))

    def cancel(self, batch: ProviderBatch) -> ProviderBatch:
        return CALLS_LOOP.run(self.endpoint.cancel(batch.id))

    def ended(self, batch: ProviderBatch) -> ProviderBatch:
        """Read a batch until it has ended; the script of each test ends it after some reads."""
        while not batch.state.is_ended:
            batch = self.read(batch)
        return batch

    def lines(self, batch: ProviderBatch, file: RequestFile) -> list[BatchLine]:
        path = self.folder / "results.jsonl"
        CALLS_LOOP.run(self.endpoint.download(batch, path))
        return list(self.endpoint.lines(path, file.call_ids))

    def run(self, count: int = 3, **rest: Any) -> dict[str, BatchLine]:
        """Submit requests, wait for their results, and return those that count by their calls."""
        file = self.file(count, **rest)
        lines = self.lines(self.ended(self.submit(file)), file)
        return {line.call_id: line for line in lines if line.kind.is_result}

    def reply(self, line: BatchLine, **rest: Any) -> ChatReply:
        return self.endpoint.reply(line, self.body(f"hello [[case:{line.call_id.removeprefix('call_')}]]", **rest))


MakeClient = Callable[..., Client]


@pytest.fixture
def make_client(catalog: ProviderCatalog, tmp_path: Path) -> MakeClient:
    def make(wire_format: str, limits: BatchLimits | None = None) -> Client:
        endpoint = catalog.batches(f"via-{wire_format}")
        endpoint.limits = limits or endpoint.limits
        folder = tmp_path / wire_format
        folder.mkdir(exist_ok=True)
        return Client(wire_format, catalog, endpoint, folder)

    return make


@pytest.fixture(params=FORMATS)
def client(request: pytest.FixtureRequest, make_client: MakeClient) -> Client:
    return make_client(request.param)
