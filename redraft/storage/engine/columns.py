"""Column types and expressions that mean the same on SQLite and PostgreSQL."""

import re
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa
from pydantic_core import from_json, to_json
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.compiler import compiles

from redraft.domain.text.cleaning import NESTING_MAX, clean, clean_json

# `clean_json` replaces only integers with at least this number of digits
_LONG_INTEGER = re.compile(rb"[0-9]{4000}")
_SQLITE_FORMAT = "%Y-%m-%dT%H:%M:%S.%f"
_PERIODS = {"hour": (13, 'YYYY-MM-DD"T"HH24'), "day": (10, "YYYY-MM-DD")}

Period = Literal["hour", "day"]


class UtcTime(sa.TypeDecorator[datetime]):
    """A UTC time: `timestamptz` on PostgreSQL, ISO text with milliseconds on SQLite."""

    impl = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        # All values have the same length and zone, because SQLite compares them as texts
        return value.astimezone(UTC).strftime(_SQLITE_FORMAT)[:-3] + "Z"

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        if value is None or isinstance(value, datetime):
            return value
        return datetime.fromisoformat(value)


class DbNow(sa.FunctionElement[datetime]):
    """The time of the database's clock plus some seconds.

    Leases and due times use this clock, because the clocks of workers may differ.
    """

    type = UtcTime()
    inherit_cache = True
    name = "db_now"

    @property
    def seconds(self) -> float:
        return next((float(clause.value or 0) for clause in self.clauses if isinstance(clause, sa.BindParameter)), 0.0)


def database_time(connection: sa.Connection, *, ago_s: float) -> datetime:
    """Return the time `ago_s` seconds ago by the database's clock."""
    # The time is read as a value, because PostgreSQL uses no index for a condition with the volatile clock_timestamp()
    return connection.execute(sa.select(DbNow(-ago_s))).scalar_one()


@compiles(DbNow, "postgresql")
def _now_on_postgresql(element: DbNow, compiler: Any, **kw: Any) -> str:
    if not len(element.clauses):
        return "clock_timestamp()"
    return f"(clock_timestamp() + {compiler.process(element.clauses, **kw)} * interval '1 second')"


@compiles(DbNow, "sqlite")
def _now_on_sqlite(element: DbNow, compiler: Any, **kw: Any) -> str:
    if not len(element.clauses):
        return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {compiler.process(element.clauses, **kw)} || ' seconds')"


def utc_period(connection: sa.Connection, column: sa.ColumnElement[datetime], period: Period) -> sa.ColumnElement[str]:
    """Return an expression for the hour or day (UTC) of a time, such as `2026-01-31T09` or `2026-01-31`."""
    length, form = _PERIODS[period]
    if connection.dialect.name == "sqlite":
        return sa.func.substr(sa.cast(column, sa.String), 1, length)
    return sa.func.to_char(sa.func.timezone("UTC", column), form)


class CleanText(sa.TypeDecorator[str]):
    """Text without NUL characters, which PostgreSQL refuses, and without lone surrogates, which UTF-8 refuses."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else clean(value)


def _read_json(text: str) -> Any:
    # By default the parser keeps 16,384 short strings in memory, and texts of jobs would fill this cache. Only keys are
    # cached, because only they repeat
    return from_json(text, cache_strings="keys")


def _clean_json_text(value: Any) -> str:
    """Return `clean_json` of a value as text. Most values are clean, so `clean_json` is not called for them."""
    try:
        text = to_json(value, inf_nan_mode="null")
    except ValueError:
        return to_json(clean_json(value)).decode()
    # JSON writes control characters as escapes
    has_escapes = b"\\u" in text or b"\\f" in text or b"\\b" in text
    if has_escapes or text.count(b"{") + text.count(b"[") > NESTING_MAX or _LONG_INTEGER.search(text):
        return to_json(clean_json(value)).decode()
    return text.decode()


class Json(sa.TypeDecorator[Any]):
    """JSON values as text, cleaned like `CleanText`. JSONB would change the order of names."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else _clean_json_text(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return None if value is None else _read_json(value)


class SearchableJson(sa.TypeDecorator[Any]):
    """A small JSON object that job lists filter by. On PostgreSQL it is JSONB, which has an index."""

    impl = sa.Text().with_variant(JSONB(), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        return clean_json(value) if dialect.name == "postgresql" else _clean_json_text(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        return _read_json(value) if isinstance(value, str) else value


def text_in(connection: sa.Connection, column: sa.ColumnElement[Any], *path: str | int) -> sa.ColumnElement[Any]:
    """Return an expression for the value at a path in a JSON text column."""
    if connection.dialect.name == "postgresql":
        return sa.func.json_extract_path_text(sa.cast(column, sa.JSON), *map(str, path))
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return sa.func.json_extract(sa.type_coerce(column, sa.Text), f"${steps}")
