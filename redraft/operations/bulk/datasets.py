"""Imports datasets as streams of rows, and reads them. Equal rows are stored once, by version."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import Field
from sqlalchemy import Connection

from redraft.datasets.formats import Format
from redraft.datasets.reports import ERRORS_SHOWN, no_good_rows
from redraft.datasets.rows import BadRow, Row, RowReader
from redraft.domain.bodies.fields import As
from redraft.domain.jobs.ids import new_id
from redraft.domain.jobs.requests import JobFields
from redraft.errors import NotFound
from redraft.operations.paging import next_cursor, read_cursor
from redraft.operations.resource_base import Moment, Resource, RowError, Urls
from redraft.operations.services import Services
from redraft.storage.bulk import datasets
from redraft.storage.bulk.datasets import DatasetRecord

_BATCH = 500
_BROKEN_OFF_S = 24 * 3600.0
_NAME_CHARS = 200


class DatasetColumns(Resource):
    """The columns that fill fields, and the columns that fill none."""

    used: dict[str, str] = Field(description="By field, the column that fills it.")
    unused: dict[str, int] = Field(description="In how many rows each column stands that fills no field.")
    never_seen: list[str] = Field(description="Columns that the mapping names and no row has.")


class RowFields(JobFields):
    """The fields of a job that a row gives."""

    answer: str = Field(description="An answer to be judged.")


class Dataset(Resource):
    """The rows of a run; `version` is their hash, so equal rows are the same dataset."""

    id: str
    object: Literal["dataset"] = "dataset"
    name: str
    version: str
    format: str
    rows: int = Field(description="Good and bad ones.")
    bad_rows: int
    columns: Annotated[dict[str, Any], As(DatasetColumns)] = Field(
        description="Which column became which field, and which became none."
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
) -> tuple[Dataset, bool]:
    """Store the rows of a file, a batch at a time.

    Returns:
        The dataset, and whether it is new; False if a dataset with equal rows exists.

    Raises:
        Invalid: the file as a whole cannot be read, its columns are not clear, or none of its rows can be read
            (`no_good_rows`).
    """
    reader = RowReader(stream, name, file_format=file_format, mapping=mapping)
    dataset_id = new_id("dataset")
    with services.database.write() as connection:
        datasets.remove_unfinished(connection, older_than_s=_BROKEN_OFF_S)
        values: dict[str, Any] = {
            "id": dataset_id,
            "name": name[:_NAME_CHARS] or "dataset",
            "format": reader.format,
            "columns": {},
        }
        datasets.add(connection, values)
    try:
        bad = _store_rows(services, dataset_id, reader)
    except BaseException:
        with services.database.write() as connection:
            datasets.remove(connection, dataset_id)
        raise
    return _finish(services, dataset_id, reader, bad)


@dataclass(slots=True)
class _Bad:
    """The number of bad rows, and the first ones."""

    count: int = 0
    first: list[BadRow] = field(default_factory=list[BadRow])

    def note(self, rows: Iterable[Row | BadRow]) -> None:
        bad = [row for row in rows if isinstance(row, BadRow)]
        self.count += len(bad)
        self.first += bad[: ERRORS_SHOWN - len(self.first)]


def _store_rows(services: Services, dataset_id: str, reader: RowReader) -> int:
    """Store all rows and return the number of bad ones; raises Invalid if all are bad."""
    bad = _Bad()
    numbered = enumerate(reader)
    while batch := list(islice(numbered, _BATCH)):
        bad.note(row for _, row in batch)
        with services.database.write() as connection:
            datasets.add_items(connection, [_stored(dataset_id, position, row) for position, row in batch])
    if bad.count == reader.seen:
        raise no_good_rows(bad.first)
    return bad.count


def _stored(dataset_id: str, position: int, row: Row | BadRow) -> dict[str, Any]:
    place = {"dataset_id": dataset_id, "position": position, "custom_id": row.custom_id, "line": row.line}
    if isinstance(row, BadRow):
        errors = [asdict(error) for error in row.errors]
        nothing = {"row": None, "human_score": None, "human_pass": None}
        return {**place, **nothing, "errors": errors, "told": dict(row.told) or None, "digest": row.digest}
    human = {"human_score": row.human_score, "human_pass": row.human_pass}
    return {**place, **human, "row": asdict(row), "errors": None, "told": None, "digest": row.digest}


def _finish(services: Services, dataset_id: str, reader: RowReader, bad: int) -> tuple[Dataset, bool]:
    with services.database.write() as connection:
        known = datasets.find_version(connection, reader.digest)
        if known is not None:
            datasets.remove(connection, dataset_id)
            return _resource(known), False
        facts = {"rows": reader.seen, "bad_rows": bad, "columns": _columns(reader), "version": reader.digest}
        datasets.finish(connection, dataset_id, facts)
        record = find(connection, dataset_id)
    return _resource(record), True


def get_dataset(services: Services, dataset_id: str) -> Dataset:
    """One dataset. Raises NotFound if there is no such dataset."""
    with services.database.read() as connection:
        return _resource(find(connection, dataset_id))


def list_datasets(services: Services, *, cursor: str | None, limit: int) -> tuple[list[Dataset], str | None]:
    """A page of datasets, newest first, and the cursor of the next page.

    Raises Invalid if the cursor is not one of ours.
    """
    after = read_cursor(cursor)
    with services.database.read() as connection:
        records = datasets.list_page(connection, after=after, limit=limit)
    return [_resource(record) for record in records[:limit]], next_cursor(records, limit)


def list_items(services: Services, dataset_id: str, *, after: int, limit: int) -> list[DatasetItem]:
    """The rows after this position, in the file's order; the first row has position 0.

    Raises NotFound if there is no such dataset.
    """
    with services.database.read() as connection:
        find(connection, dataset_id)
        rows = datasets.list_items(connection, dataset_id, after=after, limit=limit)
    return [item_resource(row) for row in rows]


def item_resource(stored: Mapping[str, Any]) -> DatasetItem:
    row: Mapping[str, Any] = stored["row"] or {}
    names = ("position", "custom_id", "line", "human_score", "human_pass")
    return DatasetItem(
        **{name: stored[name] for name in names},
        fields=row.get("fields"),
        vars=row.get("vars"),
        errors=stored["errors"] or [],
    )


def find(connection: Connection, dataset_id: str) -> DatasetRecord:
    """Raises NotFound: there is no such dataset, or its import has not ended."""
    record = datasets.get(connection, dataset_id)
    if record is None or record.version is None:
        raise NotFound("dataset", dataset_id)
    return record


def _resource(record: DatasetRecord) -> Dataset:
    base = f"/v1/datasets/{record.id}"
    names = ("id", "name", "version", "format", "rows", "bad_rows", "columns", "created_at")
    return Dataset(**{name: getattr(record, name) for name in names}, urls={"self": base, "items": f"{base}/items"})


def _columns(reader: RowReader) -> dict[str, Any]:
    columns = reader.columns
    return {"used": dict(columns.used), "unused": dict(columns.unused), "never_seen": columns.never_seen()}
