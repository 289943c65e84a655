"""Statements that every step runs: compiled once, then handed to the driver as text.

SQLAlchemy spends as much on each execution of a statement as driver and database take for it together, and a step
runs three to six of them. What is built here is still Core, with its types; only the way to the driver is shorter.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import (
    Boolean,
    Connection,
    CursorResult,
    Dialect,
    Insert,
    Table,
    TypeDecorator,
    bindparam,
    insert,
    literal,
)
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.schema import ScalarElementColumnDefault
from sqlalchemy.sql.selectable import ReturnsRows
from sqlalchemy.types import TypeEngine

_Process = Callable[[Any], Any]
_Rows = tuple[Table, Sequence[Mapping[str, Any]]]
_Shape = tuple[Table, tuple[str, ...], int]

_TOGETHER = "redraft_rows_together"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of database: a statement is the same text for all engines of it."""

    name: str
    dialect: Dialect = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Prepared:
    text: str
    given: tuple[tuple[str, _Process | None], ...]
    """What each execution brings."""
    fixed: Mapping[str, Any]
    """What the statement itself holds."""
    columns: tuple[tuple[str, _Process | None], ...]
    """What comes back."""

    def execute(self, connection: Connection, values: Mapping[str, Any]) -> CursorResult[Any]:
        bound = {name: process(values[name]) if process else values[name] for name, process in self.given}
        return connection.exec_driver_sql(self.text, {**self.fixed, **bound})


def run(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> CursorResult[Any]:
    """Execute a statement that is built once; `values` by the names of its bind parameters.

    The result is the driver's: columns that need a type of ours are read with `fetch`.
    """
    return _prepare(statement, _kind_of(connection)).execute(connection, values)


def fetch(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same for a statement that brings back one row or none, by the names of its columns."""
    ready = _prepare(statement, _kind_of(connection))
    row = ready.execute(connection, values).one_or_none()
    if row is None:
        return None
    found = zip(ready.columns, row, strict=True)
    return {name: process(value) if process else value for (name, process), value in found}


def add_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows with the same columns, by one statement."""
    if not rows:
        return
    together: list[_Rows] | None = connection.info.get(_TOGETHER)
    if together is None:
        _insert(connection, [(table, rows)])
    else:
        together.append((table, rows))


@contextmanager
def adding_together(connection: Connection) -> Generator[None]:
    """What is added within, to whichever tables, is there at its end: on PostgreSQL in one round trip.

    SQLite has no such statement, and no round trips.
    """
    if connection.dialect.name != "postgresql":
        yield
        return
    together = connection.info[_TOGETHER] = list[_Rows]()
    try:
        yield
    finally:
        del connection.info[_TOGETHER]
    if together:
        _insert(connection, together)


def _insert(connection: Connection, parts: Sequence[_Rows]) -> None:
    statement = _insert_statement(tuple((table, tuple(rows[0]), len(rows)) for table, rows in parts))
    given = {
        f"p{part}_{number}_{name}": row[name]
        for part, (_, rows) in enumerate(parts)
        for number, row in enumerate(rows)
        for name in row
    }
    run(connection, statement, given)


@lru_cache(maxsize=512)
def _insert_statement(shapes: tuple[_Shape, ...]) -> Executable:
    *before, last = (_insert_part(part, *shape) for part, shape in enumerate(shapes))
    return last.add_cte(*(each.cte(f"part{part}") for part, each in enumerate(before)))


def _insert_part(part: int, table: Table, names: tuple[str, ...], count: int) -> Insert:
    constants = constants_of(table, names)
    rows = [
        constants | {name: bindparam(f"p{part}_{number}_{name}", type_=table.c[name].type) for name in names}
        for number in range(count)
    ]
    return insert(table).values(rows if count > 1 else rows[0]).inline()


def constants_of(table: Table, names: Collection[str]) -> dict[str, Any]:
    """The defaults of a new row's other columns, as far as they are plain values."""
    return {
        column.name: literal(column.default.arg, column.type)
        for column in table.c
        if column.name not in names and isinstance(column.default, ScalarElementColumnDefault)
    }


def _kind_of(connection: Connection) -> _Kind:
    return _Kind(connection.dialect.name, connection.dialect)


@lru_cache(maxsize=512)
def _prepare(statement: Executable, kind: _Kind) -> _Prepared:
    dialect = kind.dialect
    compiled = cast("SQLCompiler", cast("Any", statement).compile(dialect=dialect))
    given: list[tuple[str, _Process | None]] = []
    fixed: dict[str, Any] = {}
    for name, bind in compiled.binds.items():
        process = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if bind.required:
            given.append((name, process))
        else:
            fixed[name] = process(bind.value) if process else bind.value
    exported = statement.exported_columns if isinstance(statement, ReturnsRows) else ()
    columns = tuple((each.name, _reader(each.type, dialect)) for each in exported)
    return _Prepared(str(compiled), tuple(given), fixed, columns)


def _reader(kind: TypeEngine[Any], dialect: Dialect) -> _Process | None:
    """What reads a column: our types, and SQLite's booleans; the drivers' own numbers and texts are right."""
    is_read = isinstance(kind, TypeDecorator | Boolean)
    return kind.dialect_impl(dialect).result_processor(dialect, None) if is_read else None
