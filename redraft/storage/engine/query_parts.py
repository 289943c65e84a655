"""Parts of queries that several tables share: rows as dictionaries, pages of lists, rows by how people name them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, FromClause, Select, Table, func, literal, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

# Where a row stands in a list: when it was created, and its id
ListPosition = tuple[datetime, str]

# Enough to distinguish one row from several, and to name two of them
_MATCHES_MAX = 3


def fetch_all(connection: Connection, query: Executable) -> list[dict[str, Any]]:
    """The rows of a query, by the names of its columns."""
    return [dict(row) for row in connection.execute(query).mappings()]


def fetch_one(connection: Connection, query: Executable) -> dict[str, Any] | None:
    """The row of a query that finds at most one."""
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def exists(connection: Connection, *conditions: ColumnElement[bool]) -> bool:
    return connection.scalar(select(1).where(*conditions).limit(1)) is not None


def count(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).where(*conditions)).scalar_one()


def insert_into(table: Table, dialect_name: str) -> postgresql.Insert | sqlite.Insert:
    """An INSERT with ON CONFLICT, which SQLAlchemy has for each dialect only."""
    return (postgresql if dialect_name == "postgresql" else sqlite).insert(table)


def insert_if_absent(connection: Connection, table: Table, values: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    """Insert a row; False, and nothing is stored, if there is one with this unique key."""
    statement = insert_into(table, connection.dialect.name).values(**values)
    statement = statement.on_conflict_do_nothing(index_elements=[table.c[name] for name in key])
    return connection.execute(statement.returning(literal(1))).one_or_none() is not None


def matches(table: FromClause, criteria: object, names: Sequence[str]) -> list[ColumnElement[bool]]:
    """The conditions of a filter on the columns with these names; None matches all."""
    return [table.c[name] == value for name in names if (value := getattr(criteria, name)) is not None]


def is_between(
    column: ColumnElement[datetime], after: datetime | None, before: datetime | None
) -> list[ColumnElement[bool]]:
    """The conditions of a filter on a time; None: without this limit."""
    return [*([column > after] if after else []), *([column < before] if before else [])]


def is_after_position(table: Table, place: ListPosition, *, newest_first: bool) -> ColumnElement[bool]:
    """Whether a row comes after this place of a list. Whole rows are compared, so that an index finds the place."""
    here = tuple_(table.c.created_at, table.c.id)
    there = tuple_(literal(place[0], table.c.created_at.type), literal(place[1], table.c.id.type))
    return here < there if newest_first else here > there


def list_newest(table: Table, after: ListPosition | None, limit: int, *conditions: ColumnElement[bool]) -> Select[Any]:
    """One page of a list, newest first, and one more row, which shows whether there is a next page."""
    query = select(table).where(*conditions).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit + 1)
    return query.where(is_after_position(table, after, newest_first=True)) if after else query


def latest_id(connection: Connection, table: Table) -> str | None:
    return connection.scalar(select(table.c.id).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(1))


def ids_where(connection: Connection, table: Table, condition: ColumnElement[bool]) -> list[str]:
    """A few ids of the rows that meet a condition, the oldest first."""
    return list(connection.scalars(select(table.c.id).where(condition).order_by(table.c.id).limit(_MATCHES_MAX)))
