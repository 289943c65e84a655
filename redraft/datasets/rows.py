"""The rows of a file, as fields of requests: one at a time, each good or with what is wrong with it."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

from redraft.datasets.assembling import Draft, assemble
from redraft.datasets.columns import Columns
from redraft.datasets.digests import DatasetHash, FirstLines, canonical, hash_of
from redraft.datasets.formats import Format, format_of
from redraft.datasets.json_rows import elements_of, parse_object
from redraft.datasets.lines import HEAD_BYTES, ROW_CHARS_MAX, Line, decoded, lines_of
from redraft.datasets.parquet import ParquetTable
from redraft.datasets.tables import Table
from redraft.errors import FieldError, Invalid

_HASH_CHARS = 24
_TOLD = ("instruct", "reference")


@dataclass(frozen=True, slots=True)
class Row:
    """One row, its columns resolved; not yet a request.

    Attributes:
        custom_id: the row's own, or `row_` and the beginning of its hash.
        line: on which it begins, from 1 on; in Parquet the row's number.
        last_line: on which it ends.
        fields: those of a request that the row gives, nested as there; not validated.
        vars: the values of templates.
        human_score: 0 to 1, a person's.
        human_pass: whether a person passes it.
        unused: the columns that fill no field, as they were.
        digest: SHA-256 in hex; `redraft/datasets/digests.py` says of what.
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
    """A row that cannot be used, and why; `custom_id` if it is known.

    Attributes:
        told: those of its texts by which a person knows it again, as far as they could be read.
    """

    line: int
    last_line: int
    custom_id: str | None
    errors: tuple[FieldError, ...]
    digest: str
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RowReader:
    """The rows of one file, to be gone through once.

    Attributes:
        format: as given or found out.
        delimiter: of a table in text; None elsewhere.
        columns: what the columns mean; which of them were met is known at the end.
        seen: how many rows have been read, good and bad; `duplicates` of them had the id of an earlier one.
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
    ) -> None:
        """Look at a file's first bytes and, in a table, at its header.

        Args:
            stream: bytes; a pipe will do, except for Parquet. The caller closes it.
            name: the file's; tells the format unless `file_format` does.
            file_format: what to read it as.
            delimiter: one character between the cells of a table; None: found out, a tab in TSV.
            mapping: the column for each field that is called otherwise.
            row_chars_max: a longer row is an error of its own.

        Raises:
            Invalid: the file as a whole cannot be read (`unknown_format`, `unknown_encoding`, `parquet_missing`,
                `no_rows`, `invalid_header`, `duplicate_column`), or its columns are not clear
                (`ambiguous_columns`, `invalid_mapping`).
        """
        self.columns = Columns(mapping or {})
        self.delimiter: str | None = None
        self.seen = 0
        self.duplicates = 0
        self._ids = FirstLines()
        self._hash = DatasetHash()
        self._longest = row_chars_max
        head = b"" if file_format == "parquet" else _first_bytes(stream)
        self.format: Format = file_format or format_of(name, head)
        self._drafts = self._open(stream, head, delimiter)

    @property
    def digest(self) -> str:
        """The dataset's version, once all rows have been read: SHA-256 in hex."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Row | BadRow]:
        """All rows in order.

        Raises:
            Invalid: there are none (`no_rows`), or the file breaks off so that nothing more can be read.
        """
        for line, draft in self._drafts:
            self.seen += 1
            row = self._row(line, draft)
            self._hash.add(row.digest)
            yield row
        if not self.seen:
            raise Invalid("The file holds no rows.", code="no_rows")

    def _open(self, stream: BinaryIO, head: bytes, delimiter: str | None) -> Iterator[tuple[Line, Draft]]:
        if self.format == "parquet":
            return self._open_parquet(stream)
        text = decoded(head, stream)
        if self.format == "json":
            return self._objects(elements_of(text, self._longest))
        if self.format == "jsonl":
            return self._objects(line for line in lines_of(text, self._longest) if not line.is_blank)
        table = Table(text, delimiter or ("\t" if self.format == "tsv" else None), self._longest)
        self.delimiter = table.delimiter
        self.columns.check_header(table.header)
        return self._records(table)

    def _open_parquet(self, stream: BinaryIO) -> Iterator[tuple[Line, Draft]]:
        with suppress(AttributeError, OSError):
            stream.seek(0)
        file = ParquetTable(stream, self._longest)
        self.columns.check_header(file.header)
        return self._parquet_rows(file)

    def _objects(self, lines: Iterator[Line]) -> Iterator[tuple[Line, Draft]]:
        for line in lines:
            if line.fault:
                yield line, _unreadable(line.fault)
                continue
            try:
                pairs = parse_object(line.text)
            except ValueError as error:
                yield line, _unreadable(str(error))
            else:
                yield line, assemble(pairs.items(), self.columns, is_table=False)

    def _records(self, table: Table) -> Iterator[tuple[Line, Draft]]:
        for record in table.records():
            line = Line(record.number, record.last, record.text, len(record.text))
            if record.fault:
                yield line, _unreadable(record.fault)
            else:
                pairs = zip(table.header, record.cells, strict=True)
                yield line, assemble(pairs, self.columns, is_table=True)

    def _parquet_rows(self, file: ParquetTable) -> Iterator[tuple[Line, Draft]]:
        for line in file.rows():
            if line.fault:
                yield line, _unreadable(line.fault)
                continue
            try:
                row = parse_object(line.text)
            except ValueError as error:
                yield line, _unreadable(str(error))
            else:
                pairs = ((name, row.get(name)) for name in file.header)
                yield replace(line, text="", length=0), assemble(pairs, self.columns, is_table=True)

    def _row(self, line: Line, draft: Draft) -> Row | BadRow:
        if draft.errors:
            return _bad(line, draft, draft.errors, _text_hash(line, draft))
        try:
            text = canonical(draft.whole())
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
        return Row(
            custom_id=custom_id,
            line=line.number,
            last_line=line.last,
            fields=draft.fields,
            vars=draft.vars,
            human_score=draft.human_score,
            human_pass=draft.human_pass,
            unused=draft.unused,
            digest=digest,
        )


def _first_bytes(stream: BinaryIO) -> bytes:
    """Read until the buffer is full: one read of a pipe may return fewer bytes."""
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
    """Texts alone: what else it holds may be what is wrong with it."""
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
