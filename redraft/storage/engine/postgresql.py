"""Creates engines for PostgreSQL. A pooler may give each transaction of a connection another session.

Behind a pooler, transactions do not share the state of a session. So `SET LOCAL` sets the timeouts, and no statement is
prepared. A direct connection sets its timeouts once, and prepares its statements.
"""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import structlog
from sqlalchemy import URL, Connection, Engine, ExceptionContext, NullPool, create_engine, event
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from redraft.storage.engine import driver

log = structlog.get_logger()

PING_AFTER_S = 5.0
# `options` is not used, because PgBouncer refuses connections with it
_CONNECT_ARGS = {"connect_timeout": 3, "application_name": "redraft"}
_TIMEOUTS_MS = {"statement_timeout": 30_000, "idle_in_transaction_session_timeout": 30_000, "lock_timeout": 10_000}
# SQLSTATE classes of errors in the statement or its data: the statement fails on every connection
_STATEMENT_CLASSES = frozenset({"21", "22", "23", "42", "44", "P0"})
# SQLSTATE classes of transient errors after which the connection remains usable
_TRANSIENT_CLASSES = frozenset({"40", "53", "55"})
_CANCELED = "57014"
_DIRECT = "redraft_is_direct"
_USED_AT = "redraft_used_at"
# An option of connections. A transaction would add two round trips to a read, and each statement would still see the
# latest commits. Behind a pooler, only a transaction sets the timeouts
WITHOUT_TRANSACTION = "redraft_without_transaction"
# A prepared statement exists already, or does not exist: the pooler has connected us to another client's session
_FOREIGN_SESSION = frozenset({"42P05", "26000"})


def make_engine(url: URL, pool_size: int, *, plans_once: bool = False, lock_timeout_ms: int = 10_000) -> Engine:
    """Create an engine with a pool of connections.

    With `plans_once`, a direct connection plans a prepared statement only once, without regard to its parameters.
    `lock_timeout_ms` applies to direct connections only.
    """
    engine = create_engine(
        url,
        hide_parameters=True,
        # With this level, the driver begins no transactions. `_begin` begins them, and can set the timeouts in the
        # same round trip
        isolation_level="AUTOCOMMIT",
        # PostgreSQL's own style. For named parameters, psycopg parses the text of a statement at each execution
        paramstyle="numeric_dollar",
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        # The most recently used connection is the least likely to have been closed
        pool_use_lifo=True,
        connect_args=_CONNECT_ARGS,
    )
    preparation = _StatementPreparation(plans_once=plans_once, lock_timeout_ms=lock_timeout_ms)
    event.listen(engine, "connect", preparation.on_connect)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", preparation.on_error)
    event.listen(engine, "checkin", _record_use)
    event.listen(engine, "checkout", _ping_if_idle)
    return engine


def make_plain_engine(url: URL) -> Engine:
    """Create an engine for schema upgrades, without timeouts. Each of its connections is used once."""
    args = {**_CONNECT_ARGS, "prepare_threshold": None}
    return create_engine(url, hide_parameters=True, poolclass=NullPool, connect_args=args)


def is_statement_error(sqlstate: str | None) -> bool:
    """Whether an error would occur again on a new connection. All other errors count as transient."""
    return sqlstate is not None and sqlstate[:2] in _STATEMENT_CLASSES and sqlstate not in _FOREIGN_SESSION


def _ends_connection(sqlstate: str) -> bool:
    """Whether a connection must be closed after an error."""
    # For example, the server stops or has become read-only, or the pooler has changed the session
    return not is_statement_error(sqlstate) and sqlstate[:2] not in _TRANSIENT_CLASSES and sqlstate != _CANCELED


class _StatementPreparation:
    """Decides whether the connections of one engine prepare statements on the server."""

    def __init__(self, *, plans_once: bool, lock_timeout_ms: int) -> None:
        self._is_off = False
        self._settings = [*_TIMEOUTS, f"lock_timeout={lock_timeout_ms}"]
        if plans_once:
            self._settings.append("plan_cache_mode=force_generic_plan")

    def on_connect(self, connection: Any, record: ConnectionPoolEntry) -> None:
        import psycopg

        connection.cursor_factory, connection.server_cursor_factory = psycopg.RawCursor, psycopg.RawServerCursor
        is_direct = not self._is_off and not is_pooled(connection)
        record.info[_DIRECT] = is_direct
        # A statement is prepared at its second execution, because steps repeat a few large statements, and planning
        # them takes longer than executing them
        connection.prepare_threshold = 1 if is_direct else None
        if is_direct:
            connection.execute(";".join(f"SET {setting}" for setting in self._settings))

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
    """Whether a driver's connection goes through a pooler, so that its server process may change."""
    # A pooler reports an invented process id when a client connects
    return connection.execute("SELECT pg_backend_pid()").fetchone() != (connection.info.backend_pid,)


def is_direct(connection: Connection) -> bool:
    """Whether a connection goes to the server itself, so that the session keeps its settings."""
    return connection.info[_DIRECT]


def is_autocommit(connection: Connection) -> bool:
    return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"


@contextmanager
def unprepared(connection: Connection) -> Generator[None]:
    """Execute the statements of the block unprepared, so that PostgreSQL plans each of them for its parameters."""
    psycopg_connection = cast("Any", connection.connection.driver_connection)
    threshold, psycopg_connection.prepare_threshold = psycopg_connection.prepare_threshold, None
    try:
        yield
    finally:
        psycopg_connection.prepare_threshold = threshold


def _begin(connection: Connection) -> None:
    if is_autocommit(connection):
        return
    if not is_direct(connection):
        driver.execute(connection, driver.Statement(_BEGIN_POOLED))
    elif not connection.get_execution_options().get(WITHOUT_TRANSACTION):
        driver.execute(connection, driver.Statement("BEGIN"))


_TIMEOUTS = tuple(f"{name}={value}" for name, value in _TIMEOUTS_MS.items())
_BEGIN_POOLED = ";".join(["BEGIN", *(f"SET LOCAL {timeout}" for timeout in _TIMEOUTS)])


def _record_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info[_USED_AT] = time.monotonic()


def give_back_idle(connection: Connection) -> None:
    """Return a connection to its pool, which tests the connection before its next use."""
    info = connection.info
    connection.close()
    # The pool has recorded the return as a use
    del info[_USED_AT]


def _ping_if_idle(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
    """Test a connection that was idle. Raises DisconnectionError if it was closed, so that the pool replaces it."""
    # Test only after a pause, because a further round trip for each transaction would cost too much
    import psycopg

    if time.monotonic() - record.info.get(_USED_AT, 0.0) < PING_AFTER_S:
        return
    try:
        connection.execute("")
        connection.rollback()
    except psycopg.Error as error:
        raise DisconnectionError from error
