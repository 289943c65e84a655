"""Writes requests into files that are below the limits of a batch."""

from pathlib import Path

from redraft.providers.batches.batch_endpoint import BatchEndpoint, BatchRequest, RequestFile


class BatchFileWriter:
    """Writes requests into files, each with one model and one URL, and below both limits.

    The same requests in the same order give the same files. Only one line is held in memory.
    """

    def __init__(self, endpoint: BatchEndpoint, folder: Path) -> None:
        self._endpoint = endpoint
        self._folder = folder

    def add(self, request: BatchRequest) -> RequestFile | None:
        """Write a request. Return the file that is full and closed, so that the request went into the next one.

        Raises:
            ProviderError: if the request alone is above the limit (code `context_too_long`). It is in no file.
        """
        raise NotImplementedError

    def finish(self) -> list[RequestFile]:
        """Close and return the files that are not full."""
        raise NotImplementedError
