"""Statements that every step runs: compiled once, then handed to the driver as text.

SQLAlchemy spends as much on each execution of a statement as driver and database take for it together, and a step
runs five to eight of them. What is built here is still Core, with its types; only the way to the driver is shorter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import Connection, CursorResult, Dialect, Table, bindparam, insert, literal
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.schema import ScalarElementColumnDefault

_Process = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Prepared:
    text: str
    given: tuple[tuple[str, _Process | None], ...]
    """What each execution brings."""
    fixed: Mapping[str, Any]
    """What the statement itself holds."""


def run(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> CursorResult[Any]:
    """Execute a statement that is built once; `values` by the names of its bind parameters.

    The result is the driver's: columns that need a type of ours are read with `connection.execute`.
    """
    ready = _prepare(statement, connection.dialect)
    bound = {name: process(values[name]) if process else values[name] for name, process in ready.given}
    return connection.exec_driver_sql(ready.text, {**ready.fixed, **bound})


def add_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows with the same columns, by one statement."""
    if rows:
        statement = _insert(table, tuple(rows[0]), len(rows))
        run(connection, statement, {f"p{i}_{name}": row[name] for i, row in enumerate(rows) for name in row})


@lru_cache(maxsize=256)
def _insert(table: Table, names: tuple[str, ...], count: int) -> Executable:
    constants = {
        column.name: literal(column.default.arg, column.type)
        for column in table.c
        if column.name not in names and isinstance(column.default, ScalarElementColumnDefault)
    }
    rows = [
        constants | {name: bindparam(f"p{i}_{name}", type_=table.c[name].type) for name in names} for i in range(count)
    ]
    return insert(table).values(rows if count > 1 else rows[0]).inline()


@lru_cache(maxsize=512)
def _prepare(statement: Executable, dialect: Dialect) -> _Prepared:
    compiled = cast("SQLCompiler", cast("Any", statement).compile(dialect=dialect))
    given: list[tuple[str, _Process | None]] = []
    fixed: dict[str, Any] = {}
    for name, bind in compiled.binds.items():
        process = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if bind.required:
            given.append((name, process))
        else:
            fixed[name] = process(bind.value) if process else bind.value
    return _Prepared(str(compiled), tuple(given), fixed)
