"""Passes a statement to the driver, past SQLAlchemy's result objects. SQLAlchemy translates the errors."""

from typing import Any, cast

import sqlalchemy as sa


def execute(connection: sa.Connection, text: str, parameters: Any = None, *, has_result: bool = False) -> Any:
    """Execute a statement in the current transaction, and return its first row. None without `has_result`.

    Listeners of the engine for `before_cursor_execute` are called, but not those of the connection.
    """
    cursor = connection.connection.cursor()
    try:
        for listener in cast("Any", connection.engine).dispatch.before_cursor_execute:
            text, parameters = listener(connection, cursor, text, parameters, None, False)
        cursor.execute(text, *(() if parameters is None else (parameters,)))
        return cursor.fetchone() if has_result else None
    except Exception as error:
        # Raises the translated error, and drops the connection if it is broken
        cast("Any", connection)._handle_dbapi_exception(error, text, parameters, cursor, None)  # noqa: SLF001
        raise
    finally:
        cursor.close()
