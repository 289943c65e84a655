"""A file as the body of a request: streamed to disk, never whole in memory."""

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
MEDIA_TYPES: dict[str, Format | None] = {
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/x-jsonlines": "jsonl",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
    # One array, or lines: the content tells
    "application/json": None,
    "text/plain": None,
    "application/octet-stream": None,
    # What browsers call CSV beside an installed Excel, and curl anything
    "application/vnd.ms-excel": None,
    "application/x-www-form-urlencoded": None,
    "": None,
}
"""What a dataset may come as; None: its name or its content tells the format."""


def format_of(request: Request) -> Format | None:
    """The format that the Content-Type tells, if any.

    Raises:
        HttpProblem: 415, the body is packed, a form, or something that no dataset is.
    """
    refuse_packed(request)
    media_type = media_type_of(request).lower()
    if media_type not in MEDIA_TYPES:
        what = "within a form" if media_type.startswith("multipart/") else f"as {media_type[:100]}"
        words = f"Send the file itself as the body, not {what}: {', '.join(get_args(Format))} are read."
        accepted = ", ".join(each for each in MEDIA_TYPES if each)
        raise HttpProblem(415, words, headers={"Accept": accepted})
    return MEDIA_TYPES[media_type]


@asynccontextmanager
async def received(request: Request, folder: Path) -> AsyncGenerator[BinaryIO]:
    """The whole body, in a file without a name that goes with its last reader.

    Args:
        request: whose body has not been read.
        folder: where there is room for it.

    Raises:
        HttpProblem: 400, the body broke off.
        Unavailable: it cannot be written down.
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
    piece = bytearray()
    try:
        async for chunk in request.stream():
            piece += chunk
            if len(piece) >= _PIECE_BYTES:
                await run_in_threadpool(file.write, bytes(piece))
                piece.clear()
        await run_in_threadpool(file.write, bytes(piece))
    except ClientDisconnect:
        raise HttpProblem(400, "The upload broke off before its end.", code="upload_broken_off") from None
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> Unavailable:
    return Unavailable(f"The upload cannot be written to the data folder: {error.strerror}.", code="storage_failed")
