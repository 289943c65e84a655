"""Engines for PostgreSQL, directly or behind a pooler that gives each transaction another server process.

No transaction leaves anything behind in its session, since the next one may find another session: timeouts are set
with `SET LOCAL`, and statements are prepared only where server process and connection are known to belong together.
"""

import time
from typing import Any

import structlog
from sqlalchemy import URL, Connection, Engine, ExceptionContext, NullPool, create_engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

log = structlog.get_logger()

_RESTED_S = 5.0
_TIMEOUTS_MS = {"statement_timeout": 30_000, "idle_in_transaction_session_timeout": 30_000, "lock_timeout": 10_000}
# Errors of the statement or its data: the same on every connection
_OF_STATEMENT = frozenset({"21", "22", "23", "42", "44", "P0"})
# Errors of this moment, after which the connection is as good as before
_OF_MOMENT = frozenset({"40", "53", "55"})
_CANCELED = "57014"
# A prepared statement that is there already, or is not there: another client's session was behind the connection
_FOREIGN_SESSION = frozenset({"42P05", "26000"})


def make_engine(url: URL, pool_size: int) -> Engine:
    """A pool of connections; each transaction begins with its timeouts, in one round trip."""
    engine = create_engine(
        url,
        hide_parameters=True,
        # The driver begins no transaction by itself: `_begin` does, with more in the same message
        isolation_level="AUTOCOMMIT",
        # The driver's own: with names it would look for them in a statement's text at each execution
        paramstyle="numeric_dollar",
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        pool_use_lifo=True,
        connect_args=_connect_args(),
    )
    preparing = _Preparing()
    event.listen(engine, "connect", preparing.on_connect)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", preparing.on_error)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", _ping_if_idle)
    return engine


def make_plain_engine(url: URL) -> Engine:
    """For upgrades of the schema: without timeouts, and with a connection that nobody uses afterwards."""
    args = {**_connect_args(), "prepare_threshold": None}
    return create_engine(url, hide_parameters=True, poolclass=NullPool, connect_args=args)


def _connect_args() -> dict[str, Any]:
    # No `options`: PgBouncer refuses the connection for it
    return {"connect_timeout": 3, "application_name": "redraft"}


def is_of_statement(sqlstate: str | None) -> bool:
    """Whether an error would come again on a fresh connection; all others, unknown ones too, may pass."""
    return sqlstate is not None and sqlstate[:2] in _OF_STATEMENT and sqlstate not in _FOREIGN_SESSION


def _ends_connection(sqlstate: str) -> bool:
    """Such a connection is not used again: its server is going, or read-only, or its session is not what it was."""
    return not is_of_statement(sqlstate) and sqlstate[:2] not in _OF_MOMENT and sqlstate != _CANCELED


class _Preparing:
    """Whether the connections of one engine prepare statements on the server."""

    def __init__(self) -> None:
        self._is_off = False

    def on_connect(self, connection: Any, _record: Any) -> None:
        import psycopg

        connection.cursor_factory, connection.server_cursor_factory = psycopg.RawCursor, psycopg.RawServerCursor
        if self._is_off or is_pooled(connection):
            connection.prepare_threshold = None

    def on_error(self, context: ExceptionContext) -> None:
        sqlstate = getattr(context.original_exception, "sqlstate", None)
        if sqlstate is None:
            return
        if sqlstate in _FOREIGN_SESSION and not self._is_off:
            self._is_off = True
            log.warning("statements_not_prepared_any_more", sqlstate=sqlstate)
        if _ends_connection(sqlstate):
            context.is_disconnect = True


def is_pooled(connection: Any) -> bool:
    """Whether a driver's connection may change its server process: a pooler makes up the number that it tells."""
    return connection.execute("SELECT pg_backend_pid()").fetchone() != (connection.info.backend_pid,)


def is_autocommit(connection: Connection) -> bool:
    """Whether each statement of it is to be a transaction of its own."""
    return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"


def _begin(connection: Connection) -> None:
    if not is_autocommit(connection):
        # Said outright: the connection's own options may be those of a stream of rows
        connection.exec_driver_sql(_BEGIN, execution_options={"yield_per": None, "stream_results": False})


_BEGIN = ";".join(["BEGIN", *(f"SET LOCAL {name}={value}" for name, value in _TIMEOUTS_MS.items())])


def _note_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info["used_at"] = time.monotonic()


def _ping_if_idle(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
    """A connection in steady use needs no round trip to prove that it lives; one that rested does."""
    import psycopg

    if time.monotonic() - record.info.get("used_at", 0.0) < _RESTED_S:
        return
    try:
        connection.execute("")
        connection.rollback()
    except psycopg.Error as error:
        raise DisconnectionError from error
