"""Writes requests into files, none of which exceeds the limits of a batch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from redraft.errors import ProviderError
from redraft.providers.batches.batch_endpoint import BatchEndpoint, BatchRequest, RequestFile

# Anthropic's requests are sent as one array, which adds a comma per request, and these bytes around all requests
_AROUND = 16


@dataclass(slots=True)
class _OpenFile:
    path: Path
    url: str
    model: str
    stream: BinaryIO
    call_ids: list[str] = field(default_factory=list[str])
    size: int = 0

    def close(self) -> RequestFile:
        self.stream.close()
        return RequestFile(self.path, self.url, self.model, tuple(self.call_ids), self.size)


class BatchFileWriter:
    """Writes requests into files. Each file has one model and one URL, and does not exceed the limits of a batch.

    The same requests in the same order give the same files. Only one line is held in memory.
    """

    def __init__(self, endpoint: BatchEndpoint, folder: Path) -> None:
        self._endpoint = endpoint
        self._folder = folder
        self._open: dict[tuple[str, str], _OpenFile] = {}
        self._count = 0

    def add(self, request: BatchRequest) -> RequestFile | None:
        """Write a request. If the request does not fit into the open file, close and return that file.

        Raises:
            ProviderError: if the request alone exceeds the limit (code `context_too_long`). It is not written.
        """
        line, limits = self._endpoint.line_of(request), self._endpoint.limits
        if len(line) + _AROUND > limits.bytes:
            words = f"The request has {len(line)} bytes, but a batch of {self._endpoint.name} at most {limits.bytes}."
            raise ProviderError("context_too_long", words)
        key = (self._endpoint.url_of(request.body), str(request.body.get("model", "")))
        full = self._open.get(key)
        if full is not None:
            size = full.size + len(full.call_ids) + len(line) + 1 + _AROUND
            if size > limits.bytes or len(full.call_ids) >= limits.requests:
                del self._open[key]
            else:
                full = None
        file = self._open.get(key) or self._new(*key)
        file.stream.write(line)
        file.call_ids.append(request.call_id)
        file.size += len(line)
        return full and full.close()

    def finish(self) -> list[RequestFile]:
        """Close and return the files that are not full."""
        files, self._open = self._open, {}
        return [file.close() for file in files.values()]

    def _new(self, url: str, model: str) -> _OpenFile:
        self._count += 1
        path = self._folder / f"requests-{self._count}.jsonl"
        self._open[url, model] = _OpenFile(path, url, model, path.open("wb"))
        return self._open[url, model]
