"""Passes statements directly to the driver, without SQLAlchemy's result objects. SQLAlchemy translates the errors."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import sqlalchemy as sa


class Statement(NamedTuple):
    """A statement as the driver takes it.

    Attributes:
        text: the text of the statement.
        parameters: the values of its parameters.
        columns: the names of the result columns, with the converters of their values.
    """

    text: str
    parameters: Any = None
    columns: Sequence[tuple[str, Callable[[Any], Any] | None]] = ()

    def read(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return a row of the result by column name."""
        found = zip(self.columns, row, strict=True)
        return {name: process(value) if process else value for (name, process), value in found}


def execute(connection: sa.Connection, statement: Statement, *, has_result: bool = False) -> Any:
    """Execute a statement in the current transaction, and return its first row, or None without `has_result`.

    Listeners of the engine for `before_cursor_execute` are called, but not those of the connection.
    """
    cursor = connection.connection.cursor()
    try:
        with _translated(connection, statement, cursor):
            _execute(connection, cursor, statement)
            return cursor.fetchone() if has_result else None
    finally:
        cursor.close()


def execute_together(connection: sa.Connection, statements: Sequence[Statement]) -> list[Any]:
    """Execute statements in one transaction of their own and one round trip. Return the first row of each result.

    Works only with psycopg, on a connection without a transaction. On any error, all statements are rolled back.
    """
    # psycopg returns all rows to the client at once, so that they can be read after the commit
    cursors = [connection.connection.cursor() for _ in statements]
    driver_connection = cast("Any", connection.connection.driver_connection)
    with _translated(connection, statements[0], cursors[0]):
        if len(statements) == 1:
            _execute(connection, cursors[0], statements[0])
        else:
            # Statements of a pipeline that begins no transaction are one transaction, which ends with the pipeline
            with driver_connection.pipeline():
                for cursor, statement in zip(cursors, statements, strict=True):
                    _execute(connection, cursor, statement)
        return [cursor.fetchone() for cursor in cursors]


def _execute(connection: sa.Connection, cursor: Any, statement: Statement) -> None:
    text, parameters, _ = statement
    for listener in cast("Any", connection.engine).dispatch.before_cursor_execute:
        text, parameters = listener(connection, cursor, text, parameters, None, False)
    cursor.execute(text, *(() if parameters is None else (parameters,)))


@contextmanager
def _translated(connection: sa.Connection, statement: Statement, cursor: Any) -> Generator[None]:
    """Raise SQLAlchemy's error for an error of the driver, and drop the connection if it is broken."""
    try:
        yield
    except Exception as error:
        cast("Any", connection)._handle_dbapi_exception(error, statement.text, statement.parameters, cursor, None)  # noqa: SLF001
        raise
