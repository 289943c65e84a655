"""Datasets and their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, or_, select, text, update

from redraft.storage.engine.bulk_tables import dataset_items, datasets
from redraft.storage.engine.columns import DbNow
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
    """One row of `datasets`; without a version its import has not ended."""

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
    """Append rows; all by one execution."""
    connection.execute(dataset_items.insert(), [dict(row) for row in rows])


def finish(connection: Connection, dataset_id: str, values: Mapping[str, Any]) -> None:
    """The import is over: its rows are counted, its version is known."""
    connection.execute(update(datasets).where(datasets.c.id == dataset_id).values(**values))


def remove(connection: Connection, dataset_id: str) -> None:
    connection.execute(delete(datasets).where(datasets.c.id == dataset_id))


def hold(connection: Connection, dataset_id: str, *, is_shared: bool = False) -> bool:
    """Keep a dataset from being removed before this unit of work is committed; `is_shared`: others may, too."""
    query = select(datasets.c.id).where(datasets.c.id == dataset_id)
    return connection.scalar(query.with_for_update(read=is_shared, key_share=is_shared)) is not None


def remove_some(connection: Connection, dataset_id: str, limit: int) -> int:
    """Remove some rows of a dataset, or the dataset itself when it has none left: then 0."""
    is_its_own = dataset_items.c.dataset_id == dataset_id
    first = select(dataset_items.c.position).where(is_its_own).order_by(dataset_items.c.position).limit(limit)
    removed = connection.execute(delete(dataset_items).where(is_its_own, dataset_items.c.position.in_(first))).rowcount
    if not removed:
        remove(connection, dataset_id)
    return removed


def remove_unfinished(connection: Connection, *, older_than_s: float) -> None:
    """What is left of imports that were broken off."""
    is_left = and_(datasets.c.version.is_(None), datasets.c.created_at < DbNow(-older_than_s))
    connection.execute(delete(datasets).where(is_left))


def get(connection: Connection, dataset_id: str) -> DatasetRecord | None:
    return _one(connection, datasets.c.id == dataset_id)


def find_version(connection: Connection, version: str) -> DatasetRecord | None:
    """The oldest dataset with the same rows."""
    return _one(connection, datasets.c.version == version)


def _one(connection: Connection, condition: Any) -> DatasetRecord | None:
    query = select(datasets).where(condition).order_by(datasets.c.created_at, datasets.c.id).limit(1)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else DatasetRecord(**row)


def list_page(connection: Connection, *, after: tuple[datetime, str] | None, limit: int) -> list[DatasetRecord]:
    """Finished ones, newest first: one page and one more."""
    query = select(datasets).where(datasets.c.version.is_not(None))
    if after:
        at, dataset_id = after
        query = query.where(
            or_(datasets.c.created_at < at, and_(datasets.c.created_at == at, datasets.c.id < dataset_id))
        )
    query = query.order_by(datasets.c.created_at.desc(), datasets.c.id.desc()).limit(limit + 1)
    return [DatasetRecord(**row) for row in connection.execute(query).mappings()]


def list_items(connection: Connection, dataset_id: str, *, after: int, limit: int) -> list[dict[str, Any]]:
    """Rows whose position is beyond `after` (-1: all), in order."""
    query = (
        select(dataset_items)
        .where(dataset_items.c.dataset_id == dataset_id, dataset_items.c.position > after)
        .order_by(dataset_items.c.position)
        .limit(limit)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def metadata_names(connection: Connection, dataset_id: str, limit: int) -> list[str]:
    """The names that the rows' metadata have, so many at most, in order."""
    statement = _METADATA_NAMES[connection.dialect.name]
    return list(connection.scalars(statement, {"dataset_id": dataset_id, "limit": limit}))
