"""Receives files as request bodies. A file is streamed to disk and is never completely in memory."""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, get_args

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from api.http.bodies import media_type_of, refuse_packed
from api.http.problems import HttpProblem
from redraft.datasets.formats import Format
from redraft.errors import Unavailable

_PIECE_BYTES = 1_000_000
# The format of each media type. None means that the name or the content of the file decides
MEDIA_TYPES: dict[str, Format | None] = {
    **dict.fromkeys(
        ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"), "jsonl"
    ),
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    **dict.fromkeys(("application/vnd.apache.parquet", "application/x-parquet"), "parquet"),
    **dict.fromkeys(("application/json", "text/plain", "application/octet-stream", "")),
    # Browsers send the first type for CSV files if Excel is installed. curl sends the second type by default
    **dict.fromkeys(("application/vnd.ms-excel", "application/x-www-form-urlencoded")),
}


def format_of(request: Request) -> Format | None:
    """Return the file format of the Content-Type, or None if the Content-Type allows several formats.

    Raises HttpProblem (415) if the type is unknown or the body is compressed.
    """
    refuse_packed(request)
    media_type = media_type_of(request).lower()
    if media_type not in MEDIA_TYPES:
        what = "within a form" if media_type.startswith("multipart/") else f"as {media_type[:100]}"
        words = f"Send the file itself as the body, not {what}. The formats are {', '.join(get_args(Format))}."
        raise HttpProblem(415, words, headers={"Accept": ", ".join(filter(None, MEDIA_TYPES))})
    return MEDIA_TYPES[media_type]


@asynccontextmanager
async def received(request: Request, folder: Path) -> AsyncGenerator[BinaryIO]:
    """Receive the body into an unnamed file in `folder`. The operating system deletes the file when it is closed.

    Raises HttpProblem (400) if the body is interrupted, and Unavailable if the file cannot be written.
    """
    file = await run_in_threadpool(_open, folder)
    try:
        await _fill(file, request)
        await run_in_threadpool(file.seek, 0)
        yield file
    finally:
        await run_in_threadpool(file.close)


def _open(folder: Path) -> BinaryIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise _unwritable(error) from error


async def _fill(file: BinaryIO, request: Request) -> None:
    # Each write uses a thread, so small chunks are collected
    piece = bytearray()
    try:
        async for chunk in request.stream():
            piece += chunk
            if len(piece) >= _PIECE_BYTES:
                await run_in_threadpool(file.write, bytes(piece))
                piece.clear()
        await run_in_threadpool(file.write, bytes(piece))
    except ClientDisconnect:
        raise HttpProblem(400, "The upload was interrupted before its end.", code="upload_broken_off") from None
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> Unavailable:
    return Unavailable(f"The upload cannot be written to the data folder: {error.strerror}.", code="storage_failed")
