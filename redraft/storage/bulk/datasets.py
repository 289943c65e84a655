"""Stores, reads and removes datasets and their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, select, text, update

from redraft.storage.engine.bulk_tables import dataset_items, datasets
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.query_parts import ListPosition, fetch_all, fetch_one, list_newest
from redraft.storage.engine.statements import add_rows

_METADATA_NAMES = {
    "sqlite": text(
        "SELECT DISTINCT label.key FROM dataset_items, json_each(dataset_items.row, '$.fields.metadata') AS label "
        "WHERE dataset_items.dataset_id = :dataset_id "
        "AND json_type(dataset_items.row, '$.fields.metadata') = 'object' ORDER BY 1 LIMIT :limit"
    ),
    "postgresql": text(
        "SELECT DISTINCT label FROM dataset_items, "
        "json_object_keys(CASE json_typeof(\"row\"::json #> '{fields,metadata}') "
        "WHEN 'object' THEN \"row\"::json #> '{fields,metadata}' ELSE '{}' END) AS label "
        "WHERE dataset_id = :dataset_id ORDER BY 1 LIMIT :limit"
    ),
}


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """One row of `datasets`; `version` is None until its import has ended."""

    id: str
    name: str
    version: str | None
    format: str
    rows: int
    bad_rows: int
    columns: dict[str, Any]
    created_at: datetime


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    add_rows(connection, datasets, [{"rows": 0, "bad_rows": 0, "version": None, **values}])


def add_items(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    connection.execute(dataset_items.insert(), [dict(row) for row in rows])


def finish(connection: Connection, dataset_id: str, values: Mapping[str, Any]) -> None:
    """Store the number of rows and the version when the import has ended."""
    connection.execute(update(datasets).where(datasets.c.id == dataset_id).values(**values))


def remove(connection: Connection, dataset_id: str) -> None:
    connection.execute(delete(datasets).where(datasets.c.id == dataset_id))


def lock(connection: Connection, dataset_id: str, *, is_shared: bool = False) -> bool:
    """Lock a dataset until the unit of work ends. Return False if there is no such dataset.

    If `is_shared`, other units of work can take a shared lock at the same time.
    """
    query = select(datasets.c.id).where(datasets.c.id == dataset_id)
    return connection.scalar(query.with_for_update(read=is_shared, key_share=is_shared)) is not None


def remove_some(connection: Connection, dataset_id: str, limit: int) -> int:
    """Remove at most `limit` rows of a dataset, or the dataset itself if it has no rows. Return the number of rows."""
    is_its_own = dataset_items.c.dataset_id == dataset_id
    query = select(dataset_items.c.position).where(is_its_own).order_by(dataset_items.c.position).limit(limit)
    first = list(connection.scalars(query))
    removed = connection.execute(delete(dataset_items).where(is_its_own, dataset_items.c.position.in_(first))).rowcount
    if not removed:
        remove(connection, dataset_id)
    return removed


def remove_unfinished(connection: Connection, *, older_than_s: float) -> None:
    """Remove the datasets whose import has not ended `older_than_s` seconds after its start: it was interrupted."""
    is_left = and_(datasets.c.version.is_(None), datasets.c.created_at < DbNow(-older_than_s))
    connection.execute(delete(datasets).where(is_left))


def get(connection: Connection, dataset_id: str) -> DatasetRecord | None:
    return _one(connection, datasets.c.id == dataset_id)


def find_version(connection: Connection, version: str) -> DatasetRecord | None:
    return _one(connection, datasets.c.version == version)


def _one(connection: Connection, condition: ColumnElement[bool]) -> DatasetRecord | None:
    query = select(datasets).where(condition).order_by(datasets.c.created_at, datasets.c.id).limit(1)
    row = fetch_one(connection, query)
    return None if row is None else DatasetRecord(**row)


def list_page(connection: Connection, *, after: ListPosition | None, limit: int) -> list[DatasetRecord]:
    """Return one page of the imported datasets, newest first, and one more row, which shows whether more follow."""
    query = list_newest(datasets, after, limit, datasets.c.version.is_not(None))
    return [DatasetRecord(**row) for row in fetch_all(connection, query)]


def list_items(
    connection: Connection, dataset_id: str, *, after: int, limit: int, only_bad: bool = False
) -> list[dict[str, Any]]:
    """Return the rows after a position, in order; for -1, all rows. `only_bad`: only invalid rows."""
    query = select(dataset_items).where(dataset_items.c.dataset_id == dataset_id, dataset_items.c.position > after)
    if only_bad:
        query = query.where(dataset_items.c.errors.is_not(None))
    return fetch_all(connection, query.order_by(dataset_items.c.position).limit(limit))


def metadata_names(connection: Connection, dataset_id: str, limit: int) -> list[str]:
    """Return the names of the metadata of all rows in alphabetical order, at most `limit` names."""
    statement = _METADATA_NAMES[connection.dialect.name]
    return list(connection.scalars(statement, {"dataset_id": dataset_id, "limit": limit}))
