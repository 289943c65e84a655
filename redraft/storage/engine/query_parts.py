"""Parts of queries for several tables: rows as dictionaries, filters, pages of lists, inserts without duplicates."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, FromClause, Select, Table, func, literal, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

# The position of a row in a list: its time of creation and its id
ListPosition = tuple[datetime, str]

# This is enough to see that a reference is ambiguous, and to name two of the rows in the error message
_MATCHES_MAX = 3


def fetch_all(connection: Connection, query: Executable) -> list[dict[str, Any]]:
    """Return the rows of a query, each as a dictionary by column name."""
    return [dict(row) for row in connection.execute(query).mappings()]


def fetch_one(connection: Connection, query: Executable) -> dict[str, Any] | None:
    """Return the row of a query that finds at most one row, as a dictionary by column name."""
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def exists(connection: Connection, *conditions: ColumnElement[bool]) -> bool:
    return connection.scalar(select(1).where(*conditions).limit(1)) is not None


def count(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).where(*conditions)).scalar_one()


def insert_into(table: Table, dialect_name: str) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT that supports ON CONFLICT. SQLAlchemy has one such class for each dialect."""
    return (postgresql if dialect_name == "postgresql" else sqlite).insert(table)


def insert_if_absent(connection: Connection, table: Table, values: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    """Insert a row and return True. If a row has the same unique key, insert nothing and return False."""
    statement = insert_into(table, connection.dialect.name).values(**values)
    statement = statement.on_conflict_do_nothing(index_elements=[table.c[name] for name in key])
    return connection.execute(statement.returning(literal(1))).one_or_none() is not None


def matches(table: FromClause, criteria: object, names: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return conditions that compare columns with the attributes of a filter. An attribute of None matches all rows."""
    return [table.c[name] == value for name in names if (value := getattr(criteria, name)) is not None]


def is_between(
    column: ColumnElement[datetime], after: datetime | None, before: datetime | None
) -> list[ColumnElement[bool]]:
    """Return conditions that a time is after `after` and before `before`. None means no limit."""
    return [*([column > after] if after else []), *([column < before] if before else [])]


def is_after_position(table: Table, place: ListPosition, *, newest_first: bool) -> ColumnElement[bool]:
    """Whether a row comes after a position of a list."""
    # Row values are compared, because both databases find the position in an index for such a condition
    here = tuple_(table.c.created_at, table.c.id)
    there = tuple_(literal(place[0], table.c.created_at.type), literal(place[1], table.c.id.type))
    return here < there if newest_first else here > there


def list_newest(table: Table, after: ListPosition | None, limit: int, *conditions: ColumnElement[bool]) -> Select[Any]:
    """Return a query for a page, newest first, and one more row, which shows whether there is a next page."""
    query = select(table).where(*conditions).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit + 1)
    return query.where(is_after_position(table, after, newest_first=True)) if after else query


def latest_id(connection: Connection, table: Table) -> str | None:
    return connection.scalar(select(table.c.id).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(1))


def ids_where(connection: Connection, table: Table, condition: ColumnElement[bool]) -> list[str]:
    """Return a few ids of the rows that meet a condition, oldest first."""
    return list(connection.scalars(select(table.c.id).where(condition).order_by(table.c.id).limit(_MATCHES_MAX)))
