"""Reads the lines of a downloaded file of results. Their form, order and number may be wrong."""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from redraft.providers.batches.batch_endpoint import BatchLine, LineKind
from redraft.providers.shared.error_bodies import parse_json
from redraft.providers.shared.failures import Answer, Vendor
from redraft.providers.shared.replies import object_of, text_of
from redraft.providers.shared.response_bodies import BODY_BYTES_MAX

_EVIDENCE_CHARS = 2000

ReadResult = Callable[[dict[str, Any]], tuple[LineKind, Answer | None]]
"""Returns the kind of a line and the response in it. Each wire format has such a function."""


def read_lines(path: Path, call_ids: Collection[str], vendor: Vendor, read_result: ReadResult) -> Iterator[BatchLine]:
    """Yield the lines of a file; see `BatchEndpoint.lines`."""
    open_ids, ids = set(call_ids), frozenset(call_ids)
    with path.open("rb") as file:
        for number, raw in enumerate(_raw_lines(file), 1):
            kind, call_id, answer = _read(raw, read_result)
            if call_id in open_ids and kind.is_result:
                open_ids.remove(call_id)
                yield BatchLine(number, kind, call_id, answer)
                continue
            if kind.is_result:
                kind = LineKind.DUPLICATE if call_id in ids else LineKind.FOREIGN
            yield BatchLine(number, kind, call_id, answer, _evidence(vendor, raw))


def _raw_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are not blank. A line above the limit is cut, so that memory stays bounded."""
    while line := file.readline(BODY_BYTES_MAX):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(BODY_BYTES_MAX)
        if line.strip():
            yield line


def _read(raw: bytes, read_result: ReadResult) -> tuple[LineKind, str, Answer | None]:
    try:
        line = object_of(parse_json(raw))
    except ValueError:
        return LineKind.MALFORMED, "", None
    call_id = text_of(line.get("custom_id"))
    kind, answer = read_result(line) if call_id else (LineKind.MALFORMED, None)
    return kind, call_id, answer


def _evidence(vendor: Vendor, raw: bytes) -> str:
    return vendor.redact(raw[: 4 * _EVIDENCE_CHARS].decode("utf-8", "replace"))[:_EVIDENCE_CHARS].strip()
