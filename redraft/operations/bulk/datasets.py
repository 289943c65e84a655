"""Imports datasets as streams of rows, and reads them. Files with equal rows are one dataset."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import Field
from sqlalchemy import Connection

from redraft.datasets.attachment_paths import AttachedFiles
from redraft.datasets.formats import Format
from redraft.datasets.reports import ERRORS_SHOWN, no_good_rows
from redraft.datasets.rows import BadRow, Row, RowReader
from redraft.domain.bodies.fields import As
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import JobFields
from redraft.errors import existing
from redraft.operations.cursors import next_cursor, read_cursor
from redraft.operations.resource_base import Moment, Resource, RowError, Urls
from redraft.operations.services import Services
from redraft.storage.bulk import datasets
from redraft.storage.bulk.datasets import DatasetRecord

_BATCH = 500
# Rows with attached files are large, so a batch also ends at this number of characters
_BATCH_CHARS = 20_000_000
# An import that is unfinished for a day belongs to a dead process, because no upload takes that long
_UNFINISHED_S = 24 * 3600.0
_NAME_CHARS = 200


class DatasetColumns(Resource):
    """The columns that fill fields, and the columns that fill no field."""

    used: dict[str, str] = Field(description="The column that fills each field.")
    unused: dict[str, int] = Field(description="For each column that fills no field, the number of rows that have it.")
    never_seen: list[str] = Field(description="Columns that the mapping names and no row has.")


class RowFields(JobFields):
    """The fields of a job that a row holds."""

    answer: str = Field(description="An answer to evaluate.")


class Dataset(Resource):
    """The rows of a file. `version` is the hash of the rows, so files with equal rows are the same dataset."""

    id: str
    object: Literal["dataset"] = "dataset"
    name: str
    version: str
    format: str
    rows: int = Field(description="The number of good and bad rows.")
    bad_rows: int
    columns: Annotated[dict[str, Any], As(DatasetColumns)] = Field(
        description="The columns that fill fields, and the columns that fill no field."
    )
    created_at: Moment
    urls: Urls


class DatasetItem(Resource):
    """One row: its fields, or its errors."""

    position: int
    custom_id: str | None
    line: int
    fields: Annotated[dict[str, Any] | None, As(RowFields | None)]
    vars: dict[str, Any] | None
    human_score: float | None
    human_pass: bool | None
    errors: Annotated[list[dict[str, Any]], As(list[RowError])]


def import_dataset(
    services: Services,
    stream: BinaryIO,
    name: str,
    *,
    file_format: Format | None = None,
    mapping: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> tuple[Dataset, bool]:
    """Store the rows of a file in batches. Returns the dataset, and whether it is new. Equal rows are stored only once.

    Files that rows attach by a path are read from `folder`; without a folder, rows with such a path are bad.

    Raises Invalid if the file cannot be read, its columns are ambiguous, or none of its rows is good (`no_good_rows`).
    """
    attached = attached_files(services, folder)
    reader = RowReader(stream, name, file_format=file_format, mapping=mapping, attached=attached)
    dataset_id = new_id("dataset")
    with services.database.write() as connection:
        datasets.remove_unfinished(connection, older_than_s=_UNFINISHED_S)
        named = name[:_NAME_CHARS] or "dataset"
        datasets.add(connection, {"id": dataset_id, "name": named, "format": reader.format, "columns": {}})
    try:
        bad = _store_rows(services, dataset_id, reader)
    # The rows are also removed after an interrupt, which is not an Exception
    except BaseException:
        with services.database.write() as connection:
            datasets.remove(connection, dataset_id)
        raise
    return _finish(services, dataset_id, reader, bad)


def attached_files(services: Services, folder: Path | None) -> AttachedFiles | None:
    """Return the folder of a dataset file with the limits of attachments. None without a folder."""
    settings = services.settings
    return folder and AttachedFiles(folder, settings.attachment_max_bytes, settings.attachments_max_bytes)


def _store_rows(services: Services, dataset_id: str, reader: RowReader) -> int:
    """Store all rows, and return the number of bad rows. Raises Invalid if all rows are bad."""
    count, first = 0, list[BadRow]()
    for batch in _batches(reader):
        bad = [row for _, row in batch if isinstance(row, BadRow)]
        count += len(bad)
        first += bad[: ERRORS_SHOWN - len(first)]
        with services.database.write() as connection:
            datasets.add_items(connection, [_stored(dataset_id, position, row) for position, row in batch])
    if count == reader.seen:
        raise no_good_rows(first)
    return count


def _batches(reader: RowReader) -> Iterator[list[tuple[int, Row | BadRow]]]:
    batch, before = list[tuple[int, Row | BadRow]](), 0
    for numbered in enumerate(reader):
        batch.append(numbered)
        if len(batch) == _BATCH or reader.chars - before > _BATCH_CHARS:
            yield batch
            batch, before = [], reader.chars
    if batch:
        yield batch


def _stored(dataset_id: str, position: int, row: Row | BadRow) -> dict[str, Any]:
    is_bad = isinstance(row, BadRow)
    return {
        "dataset_id": dataset_id,
        "position": position,
        "custom_id": row.custom_id,
        "line": row.line,
        "digest": row.digest,
        "row": None if is_bad else asdict(row),
        "human_score": None if is_bad else row.human_score,
        "human_pass": None if is_bad else row.human_pass,
        "errors": [asdict(error) for error in row.errors] if is_bad else None,
        "told": (dict(row.told) or None) if is_bad else None,
    }


def _finish(services: Services, dataset_id: str, reader: RowReader, bad: int) -> tuple[Dataset, bool]:
    with services.database.write() as connection:
        # The version is the hash of all rows, so it is known only after the last one
        known = datasets.find_version(connection, reader.digest)
        # Equal rows were imported before, so the rows of this import are not needed
        if known is not None:
            datasets.remove(connection, dataset_id)
            return _resource(known), False
        seen = reader.columns
        columns = {"used": dict(seen.used), "unused": dict(seen.unused), "never_seen": seen.never_seen()}
        facts = {"rows": reader.seen, "bad_rows": bad, "columns": columns, "version": reader.digest}
        datasets.finish(connection, dataset_id, facts)
        record = find(connection, dataset_id)
    return _resource(record), True


def get_dataset(services: Services, dataset_id: str) -> Dataset:
    """One dataset. Raises NotFound if there is no such dataset."""
    with services.database.read() as connection:
        return _resource(find(connection, dataset_id))


def list_datasets(services: Services, *, cursor: str | None, limit: int) -> tuple[list[Dataset], str | None]:
    """A page of datasets, newest first, and the cursor of the next page. Raises Invalid for a bad cursor."""
    after = read_cursor(cursor)
    with services.database.read() as connection:
        records = datasets.list_page(connection, after=after, limit=limit)
    return [_resource(record) for record in records[:limit]], next_cursor(records, limit)


def list_items(services: Services, dataset_id: str, *, after: int, limit: int) -> list[DatasetItem]:
    """The rows after this position, in the order of the file. The first row has position 0.

    Raises NotFound if there is no such dataset.
    """
    with services.database.read() as connection:
        find(connection, dataset_id)
        rows = datasets.list_items(connection, dataset_id, after=after, limit=limit)
    return [item_resource(row) for row in rows]


def item_resource(stored: Mapping[str, Any]) -> DatasetItem:
    row: Mapping[str, Any] = stored["row"] or {}
    computed: dict[str, Any] = {"fields": row.get("fields"), "vars": row.get("vars"), "errors": stored["errors"] or []}
    return DatasetItem.model_validate({**stored, **computed})


def find(connection: Connection, dataset_id: str) -> DatasetRecord:
    """The record of a dataset. Raises NotFound if there is no such dataset, or its import has not ended."""
    record = datasets.get(connection, dataset_id)
    return existing(record if record and record.version else None, "dataset", dataset_id)


def _resource(record: DatasetRecord) -> Dataset:
    base = f"/v1/datasets/{record.id}"
    return Dataset.from_row(record, urls={"self": base, "items": f"{base}/items"})
