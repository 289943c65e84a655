"""Detects the format of a file by its name, or by its first bytes."""

from pathlib import PurePath
from typing import Literal, get_args

from redraft.datasets.lines import BOM, encoding_of
from redraft.errors import Invalid

Format = Literal["jsonl", "json", "csv", "tsv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

_BY_SUFFIX: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_PACKED = {
    b"PK\x03\x04": "a zip archive or an Excel workbook: save it as CSV",
    b"\x1f\x8b": "packed with gzip: unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save it as CSV",
    b"(\xb5/\xfd": "packed with zstd: unpack it",
}


def format_of(name: str, head: bytes) -> Format:
    """Return the format of a file by its name, which may be empty, and its first bytes.

    Raises Invalid if the file is compressed (`unknown_format`), or has an unknown encoding (`unknown_encoding`).
    """
    packed = next((words for magic, words in _PACKED.items() if head.startswith(magic)), None)
    if packed:
        raise Invalid(f"The file is {packed}.", code="unknown_format")
    if head.startswith(b"PAR1"):
        return "parquet"
    if by_suffix := _BY_SUFFIX.get(PurePath(name.lower()).suffix):
        return by_suffix
    text = head.decode("utf-16" if encoding_of(head) == "utf-16" else "utf-8-sig", "replace").lstrip(BOM).lstrip()
    if text.startswith("["):
        return "json"
    return "jsonl" if text.startswith("{") else "csv"
