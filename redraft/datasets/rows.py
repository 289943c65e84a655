"""Reads the rows of a file as request fields, one row at a time. An invalid row is returned with its errors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

from redraft.datasets.assembling import Draft, assemble
from redraft.datasets.attachment_paths import AttachedFiles, read_attachments
from redraft.datasets.columns import Columns
from redraft.datasets.digests import DatasetHash, FirstLines, canonical, hash_of
from redraft.datasets.formats import Format, format_of
from redraft.datasets.json_rows import elements_of, parse_row
from redraft.datasets.lines import HEAD_BYTES, ROW_CHARS_MAX, Line, decoded, lines_of
from redraft.datasets.parquet import ParquetTable
from redraft.datasets.tables import Table
from redraft.errors import FieldError, Invalid

# 96 bits, so that two different rows practically never get the same id
_HASH_CHARS = 24
_HASH_ID = re.compile(rf"row_[0-9a-f]{{{_HASH_CHARS}}}")
_TOLD = ("instruct", "reference")


def is_hash_id(custom_id: str) -> bool:
    """Whether the id was made from the row's hash, because the row has no id of its own."""
    return _HASH_ID.fullmatch(custom_id) is not None


@dataclass(frozen=True, slots=True)
class Row:
    """One row whose columns are mapped to fields, but not validated.

    Attributes:
        custom_id: the id in the row, or `row_` and the beginning of the row's hash.
        line: the number of the first line, from 1; in Parquet the number of the row.
        fields: the request fields that the row sets, nested like a request.
        human_score: the score by a person, 0 to 1.
        unused: the columns that fill no field.
        digest: the hash of the row (`redraft/datasets/digests.py`).
    """

    custom_id: str
    line: int
    last_line: int
    fields: Mapping[str, Any]
    vars: Mapping[str, Any]
    human_score: float | None
    human_pass: bool | None
    unused: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """An invalid row with its errors. The texts in `told` help users to find the row in the file."""

    line: int
    last_line: int
    custom_id: str | None
    errors: tuple[FieldError, ...]
    digest: str
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RowReader:
    """An iterator over the rows of one file, for one pass.

    Attributes:
        delimiter: the delimiter of CSV or TSV; None for other formats.
        columns: the columns, complete after the last row.
        seen: the number of rows that were read, valid and invalid.
        chars: the number of characters of these rows as canonical JSON, with attached files.
        duplicates: the number of rows that have the id of an earlier row.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str = "",
        *,
        file_format: Format | None = None,
        delimiter: str | None = None,
        mapping: Mapping[str, str] | None = None,
        row_chars_max: int = ROW_CHARS_MAX,
        attached: AttachedFiles | None = None,
    ) -> None:
        """Read the first bytes of a file and the header of a table.

        Without `file_format`, the format is detected by the name and the first bytes. Without `delimiter`, the
        delimiter of a table is detected by its first lines. `mapping` has fields and the names of their
        columns, for columns whose names are neither the field's name nor an alias of it. Rows with more than
        `row_chars_max` characters are invalid. Files that rows attach by a path are read from `attached`. Without
        `attached`, such rows are invalid.

        Raises Invalid if the file as a whole is not readable (`unknown_format`, `unknown_encoding`, `parquet_missing`,
        `no_rows`, `invalid_header`, `duplicate_column`), or if its columns are ambiguous (`ambiguous_columns`,
        `invalid_mapping`).
        """
        self.columns = Columns(mapping or {})
        self.delimiter: str | None = None
        self.seen = 0
        self.chars = 0
        self.duplicates = 0
        self._ids = FirstLines()
        self._hash = DatasetHash()
        self._longest = row_chars_max
        self._attached = attached
        head = b"" if file_format == "parquet" else _first_bytes(stream)
        self.format: Format = file_format or format_of(name, head)
        self._drafts = self._open(stream, head, delimiter)

    @property
    def digest(self) -> str:
        """The version of the dataset, which is complete after the last row."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Row | BadRow]:
        """Yield all rows in order. Raises Invalid if there are no rows (`no_rows`), or the rest is not readable."""
        for line, draft in self._drafts:
            self.seen += 1
            row = self._row(line, draft)
            self._hash.add(row.digest)
            yield row
        if not self.seen:
            raise Invalid("The file holds no rows.", code="no_rows")

    def _open(self, stream: BinaryIO, head: bytes, delimiter: str | None) -> Iterator[tuple[Line, Draft]]:
        if self.format == "parquet":
            # A pipe cannot be rewound, and `ParquetTable` refuses it with a message
            with suppress(AttributeError, OSError):
                stream.seek(0)
            file = ParquetTable(stream, self._longest)
            self.columns.check_header(file.header)
            return self._objects(file.rows(), file.header)
        text = decoded(head, stream)
        if self.format == "json":
            return self._objects(elements_of(text, self._longest))
        if self.format == "jsonl":
            return self._objects(line for line in lines_of(text, self._longest) if not line.is_blank)
        table = Table(text, delimiter or ("\t" if self.format == "tsv" else None), self._longest)
        self.delimiter = table.delimiter
        self.columns.check_header(table.header)
        return self._records(table)

    def _objects(self, lines: Iterator[Line], header: Sequence[str] | None = None) -> Iterator[tuple[Line, Draft]]:
        """Yield rows that are JSON objects. If there is a header, they are rows of a table with cells as values."""
        for line in lines:
            try:
                row = parse_row(line)
            except ValueError as error:
                yield line, _unreadable(str(error))
                continue
            if header is None:
                yield line, assemble(row.items(), self.columns, is_table=False)
            else:
                pairs = ((name, row.get(name)) for name in header)
                yield replace(line, text="", length=0), assemble(pairs, self.columns, is_table=True)

    def _records(self, table: Table) -> Iterator[tuple[Line, Draft]]:
        for line, cells in table.records():
            if line.fault:
                yield line, _unreadable(line.fault)
            else:
                yield line, assemble(zip(table.header, cells, strict=True), self.columns, is_table=True)

    def _row(self, line: Line, draft: Draft) -> Row | BadRow:
        if "attachments" in draft.fields and not draft.errors:
            draft.fields["attachments"], draft.errors = read_attachments(draft.fields["attachments"], self._attached)
        if draft.errors:
            return _bad(line, draft, draft.errors, _text_hash(line, draft))
        try:
            text = canonical(draft.whole())
            self.chars += len(text)
            digest = hash_of(text)
            errors = draft.unstorable(text)
        except (ValueError, RecursionError) as error:
            words = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
            return _bad(line, draft, [FieldError("", f"The row {words}.", "invalid_row")], _text_hash(line, draft))
        custom_id = draft.custom_id or f"row_{digest[:_HASH_CHARS]}"
        if errors:
            return _bad(line, draft, errors, digest)
        before = self._ids.add(custom_id, line.number)
        if before is not None:
            self.duplicates += 1
            bad = _bad(line, draft, [_duplicate(draft.custom_id, before)], digest)
            return replace(bad, custom_id=custom_id)
        names = ("fields", "vars", "human_score", "human_pass", "unused")
        values = {name: getattr(draft, name) for name in names}
        return Row(custom_id=custom_id, line=line.number, last_line=line.last, **values, digest=digest)


def _first_bytes(stream: BinaryIO) -> bytes:
    # The stream is read several times, because one read of a pipe may return fewer bytes
    head = b""
    while len(head) < HEAD_BYTES and (piece := stream.read(HEAD_BYTES - len(head))):
        head += piece
    return head


def _unreadable(fault: str) -> Draft:
    draft = Draft()
    draft.errors.append(FieldError("", f"The row {fault}.", "invalid_row"))
    return draft


def _bad(line: Line, draft: Draft, errors: list[FieldError], digest: str) -> BadRow:
    return BadRow(line.number, line.last, draft.custom_id, tuple(errors), digest, _recognizable_texts(draft))


def _recognizable_texts(draft: Draft) -> dict[str, Any]:
    """Return the texts of an invalid row by which users can recognize the row."""
    # Only texts are returned, because other values may be the reason for the errors
    found: dict[str, Any] = {name: draft.fields[name] for name in _TOLD if isinstance(draft.fields.get(name), str)}
    labels = draft.fields.get("metadata")
    if isinstance(labels, dict):
        given = cast("dict[str, Any]", labels)
        found["metadata"] = {name: value for name, value in given.items() if isinstance(value, str)}
    return found


def _text_hash(line: Line, draft: Draft) -> str:
    return hash_of(line.text or repr((line.length, draft.given)))


def _duplicate(custom_id: str | None, before: int) -> FieldError:
    if custom_id is None:
        words = f"The row repeats line {before} in every column: to run it again, give it a custom_id."
        return FieldError("", words, "duplicate_row")
    return FieldError("/custom_id", f"custom_id {custom_id!r} is on line {before} already.", "duplicate_custom_id")
