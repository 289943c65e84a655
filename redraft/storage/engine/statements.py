"""Runs statements that are compiled once and then passed to the driver as text.

The statements are built with SQLAlchemy Core. If SQLAlchemy also executed them, they would take twice the time that
driver and database need. A step executes three to six statements. SQLAlchemy begins and ends the transactions, and
translates the errors of the driver.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.selectable import ReturnsRows
from sqlalchemy.types import TypeEngine

from redraft.storage.engine import driver
from redraft.storage.engine.columns import CleanText, Json

_Process = Callable[[Any], Any]
# Rows of one table with the same columns
Rows = tuple[sa.Table, Sequence[Mapping[str, Any]]]
_Shape = tuple[sa.Table, tuple[str, ...], int]

_COLLECTED = "redraft_collected_rows"


@dataclass(frozen=True, slots=True)
class Change:
    """An UPDATE of one row that returns one column, with the values of its bind parameters."""

    statement: sa.Update
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A part of the cache key. All engines of one kind of database use the same text of a statement."""

    name: str
    dialect: sa.Dialect = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The text of a compiled statement.

    Attributes:
        order: the names of the parameters by position; None if the driver binds by name.
        parameters: the parameters without a value, which each execution sets, with their converters.
        fixed: the values that are part of the statement, by parameter name.
        columns: the result columns with their converters.
    """

    text: str
    order: tuple[str, ...] | None
    parameters: tuple[tuple[str, _Process | None], ...]
    fixed: Mapping[str, Any]
    columns: tuple[tuple[str, _Process | None], ...]

    def bind(self, values: Mapping[str, Any]) -> driver.Statement:
        bound = {name: process(values[name]) if process else values[name] for name, process in self.parameters}
        bound = {**self.fixed, **bound}
        parameters = bound if self.order is None else tuple(bound[name] for name in self.order)
        return driver.Statement(self.text, parameters, self.columns)


def run(connection: sa.Connection, statement: Executable, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Execute a statement that returns at most one row, with the values of its bind parameters.

    Returns the row, or None. Its values are not converted. For columns with types of `columns.py`, use `fetch`.
    """
    bound = bind(connection, statement, values)
    return driver.execute(connection, bound, has_result=bool(bound.columns))


def fetch(connection: sa.Connection, statement: Executable, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Execute a statement that finds at most one row. Return this row by column name, or None."""
    bound = bind(connection, statement, values)
    row = driver.execute(connection, bound, has_result=True)
    return None if row is None else bound.read(row)


def add_rows(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that have the same columns, or collect them for `collecting_rows`."""
    if not rows:
        return
    collected: list[Rows] | None = connection.info.get(_COLLECTED)
    if collected is None:
        _insert(connection, [(table, rows)])
    else:
        collected.append((table, rows))


@contextmanager
def collecting_rows(connection: sa.Connection) -> Generator[list[Rows]]:
    """Collect the rows that the block passes to `add_rows`, without inserting them."""
    # Read `info` now, because it cannot be read if the block loses the connection
    info, collected = connection.info, list[Rows]()
    info[_COLLECTED] = collected
    try:
        yield collected
    finally:
        del info[_COLLECTED]


@contextmanager
def adding_together(connection: sa.Connection) -> Generator[None]:
    """Insert the rows that the block passes to `add_rows` at the end of the block. PostgreSQL needs one round trip."""
    with collecting_rows(connection) as collected:
        yield
    if collected and _is_postgresql(connection):
        _insert(connection, collected)
    else:
        for part in collected:
            _insert(connection, [part])


def run_all_or_none(
    connection: sa.Connection, first: Change, others: Sequence[Change], rows: Sequence[Rows]
) -> list[Any] | None:
    """If `first` changes its row, make the other changes and add the rows, on PostgreSQL in one round trip.

    The bind parameters of the changes must have different names. Returns the column that each change returned. Returns
    None if `first` found no row, so that nothing was changed.
    """
    if _is_postgresql(connection):
        found = driver.execute(connection, all_or_none(connection, first, others, rows), has_result=True)
        return None if found is None or found[0] is None else list(found)
    done = run(connection, first.statement, first.values)
    if done is None:
        return None
    changed = [run(connection, other.statement, other.values) for other in others]
    found = [row and row[0] for row in (done, *changed)]
    for part in rows:
        _insert(connection, [part])
    return found


def all_or_none(
    connection: sa.Connection, first: Change, others: Sequence[Change], rows: Sequence[Rows]
) -> driver.Statement:
    """Return a PostgreSQL statement that does the same as `run_all_or_none`. Its first column shows success."""
    statement = _dependent_statement(first.statement, tuple(o.statement for o in others), _shapes_of(rows))
    parameters = dict(first.values)
    for other in others:
        parameters |= other.values
    return bind(connection, statement, parameters | _given_rows(rows))


def fetch_with(
    connection: sa.Connection,
    first: sa.Insert | sa.Update,
    values: Mapping[str, Any],
    rows: Sequence[Rows],
    changes: Sequence[Change],
) -> dict[str, Any] | None:
    """Execute `first`. If it returns a row, add rows and make changes, on PostgreSQL in one round trip.

    The arguments are those of `with_rows`. Returns the row of `first` by column name, or None.
    """
    if _is_postgresql(connection):
        bound = with_rows(connection, first, values, rows, changes)
        row = driver.execute(connection, bound, has_result=True)
        return None if row is None else bound.read(row)
    found = fetch(connection, first, values)
    if found is not None:
        for part in rows:
            _insert(connection, [part])
        for change in changes:
            run(connection, change.statement, change.values)
    return found


def with_rows(
    connection: sa.Connection,
    first: sa.Insert | sa.Update,
    values: Mapping[str, Any],
    rows: Sequence[Rows],
    changes: Sequence[Change] = (),
) -> driver.Statement:
    """Return a PostgreSQL statement that executes `first`, and adds rows and makes changes if `first` returned its row.

    The statement returns the columns that `first` returns. `values` are the values of its bind parameters. The bind
    parameters of the changes must have different names.
    """
    statement = _statement_with_rows(first, tuple(change.statement for change in changes), _shapes_of(rows))
    parameters = {**values, **_given_rows(rows)}
    for change in changes:
        parameters |= change.values
    return bind(connection, statement, parameters)


@lru_cache(maxsize=512)
def _statement_with_rows(
    first: sa.Insert | sa.Update, others: tuple[sa.Update, ...], shapes: tuple[_Shape, ...]
) -> Executable:
    done = first.cte("first")
    is_done = sa.exists(sa.select(sa.literal(1)).select_from(done))
    changes = (other.where(is_done).cte(f"other{number}") for number, other in enumerate(others))
    return sa.select(done).add_cte(*_dependent_inserts(shapes, done), *changes)


@lru_cache(maxsize=512)
def _dependent_statement(first: sa.Update, others: tuple[sa.Update, ...], shapes: tuple[_Shape, ...]) -> Executable:
    """Return one statement for PostgreSQL, with the changes and the inserts as common table expressions."""
    # All parts see the tables as they were before the statement, so the other parts test the row that `first` returns
    done = first.cte("first")
    is_done = sa.exists(sa.select(sa.literal(1)).select_from(done))
    changes = [done, *(other.where(is_done).cte(f"other{number}") for number, other in enumerate(others))]
    returned = (sa.select(change.c[0]).scalar_subquery().label(f"c{number}") for number, change in enumerate(changes))
    return sa.select(*returned).add_cte(*_dependent_inserts(shapes, done))


def _dependent_inserts(shapes: tuple[_Shape, ...], done: sa.CTE) -> list[sa.CTE]:
    return [_dependent_insert(part, *shape, done).cte(f"part{part}") for part, shape in enumerate(shapes)]


def _dependent_insert(part: int, table: sa.Table, names: tuple[str, ...], count: int, done: sa.CTE) -> sa.Insert:
    rows = [
        sa.select(*(_typed(value, table.c[name].type) for name, value in row.items())).select_from(done)
        for row in _rows_of(part, table, names, count)
    ]
    return sa.insert(table).from_select(list(_rows_of(part, table, names, 1)[0]), sa.union_all(*rows))


def _typed(value: Any, kind: TypeEngine[Any]) -> sa.ColumnElement[Any]:
    # Without a cast, an untyped NULL in a SELECT is a text on PostgreSQL. A cast to VARCHAR(n) would cut the text
    return sa.cast(value, sa.Text() if isinstance(kind, sa.String | CleanText | Json) else kind)


def _insert(connection: sa.Connection, parts: Sequence[Rows]) -> None:
    run(connection, _insert_statement(_shapes_of(parts)), _given_rows(parts))


def _shapes_of(parts: Sequence[Rows]) -> tuple[_Shape, ...]:
    return tuple((table, tuple(rows[0]), len(rows)) for table, rows in parts)


def _given_rows(parts: Sequence[Rows]) -> dict[str, Any]:
    return {
        f"r{part}_{number}_{name}": row[name]
        for part, (_, rows) in enumerate(parts)
        for number, row in enumerate(rows)
        for name in row
    }


@lru_cache(maxsize=512)
def _insert_statement(shapes: tuple[_Shape, ...]) -> Executable:
    *before, last = (_insert_part(part, *shape) for part, shape in enumerate(shapes))
    return last.add_cte(*(each.cte(f"part{part}") for part, each in enumerate(before)))


def _insert_part(part: int, table: sa.Table, names: tuple[str, ...], count: int) -> sa.Insert:
    rows = _rows_of(part, table, names, count)
    return sa.insert(table).values(rows if count > 1 else rows[0]).inline()


def _rows_of(part: int, table: sa.Table, names: tuple[str, ...], count: int) -> list[dict[str, Any]]:
    """Return the columns of each new row: a parameter for each name, and the defaults of the other columns."""
    defaults = defaults_of(table, names)
    return [
        defaults | {name: sa.bindparam(f"r{part}_{number}_{name}", type_=table.c[name].type) for name in names}
        for number in range(count)
    ]


def defaults_of(table: sa.Table, names: Collection[str]) -> dict[str, Any]:
    """Return the defaults of the columns that are not in `names`."""
    others = [column for column in table.c if column.name not in names and column.default is not None]
    values = {column.name: (cast("Any", column.default).arg, column.type) for column in others}
    return {
        name: value if isinstance(value, sa.ClauseElement) else sa.literal(value, kind)
        for name, (value, kind) in values.items()
    }


def bind(connection: sa.Connection, statement: Executable, values: Mapping[str, Any]) -> driver.Statement:
    """Return a statement with the values of its bind parameters, as the driver of the connection takes it."""
    return _prepare(statement, _kind_of(connection)).bind(values)


def _is_postgresql(connection: sa.Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _kind_of(connection: sa.Connection) -> _Kind:
    return _Kind(connection.dialect.name, connection.dialect)


@lru_cache(maxsize=512)
def _prepare(statement: Executable, kind: _Kind) -> _Prepared:
    dialect = kind.dialect
    compiled = cast("SQLCompiler", cast("Any", statement).compile(dialect=dialect))
    parameters: list[tuple[str, _Process | None]] = []
    fixed: dict[str, Any] = {}
    for name, bind in compiled.binds.items():
        process = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if bind.required:
            parameters.append((name, process))
        else:
            fixed[name] = process(bind.value) if process else bind.value
    exported = statement.exported_columns if isinstance(statement, ReturnsRows) else ()
    columns = tuple((each.name, _reader(each.type, dialect)) for each in exported)
    order = None if compiled.positiontup is None else tuple(compiled.positiontup)
    return _Prepared(str(compiled), order, tuple(parameters), fixed, columns)


def _reader(kind: TypeEngine[Any], dialect: sa.Dialect) -> _Process | None:
    """Return the converter of a result column, or None. Only types of `columns.py` and SQLite's booleans have one."""
    is_read = isinstance(kind, sa.TypeDecorator | sa.Boolean)
    return kind.dialect_impl(dialect).result_processor(dialect, None) if is_read else None
