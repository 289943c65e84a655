"""Column types and expressions that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json
from sqlalchemy import (
    JSON,
    BindParameter,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    FunctionElement,
    String,
    Text,
    TypeDecorator,
    cast,
    func,
    select,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.compiler import compiles

from redraft.domain.text.cleaning import clean, clean_json

_SQLITE_FORMAT = "%Y-%m-%dT%H:%M:%S.%f"


class UtcTime(TypeDecorator[datetime]):
    """timestamptz on PostgreSQL; ISO text with milliseconds on SQLite, where text order is time order."""

    impl = DateTime(timezone=True).with_variant(String(32), "sqlite")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).strftime(_SQLITE_FORMAT)[:-3] + "Z"

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None or isinstance(value, datetime):
            return value
        return datetime.fromisoformat(value)


class DbNow(FunctionElement[datetime]):
    """The database's clock plus some seconds: leases must not depend on the clocks of workers."""

    type = UtcTime()
    inherit_cache = True
    name = "db_now"

    @property
    def seconds(self) -> float:
        """The number of seconds that was given."""
        return next((float(clause.value or 0) for clause in self.clauses if isinstance(clause, BindParameter)), 0.0)


def moment(connection: Connection, *, ago_s: float) -> datetime:
    """The time so long ago by the database's clock, as a value: for clock_timestamp() PostgreSQL would use no index."""
    return connection.execute(select(DbNow(-ago_s))).scalar_one()


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


class CleanText(TypeDecorator[str]):
    """Text without what PostgreSQL or UTF-8 refuse: NUL characters and lone surrogates."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


class Json(TypeDecorator[Any]):
    """JSON values, cleaned like `CleanText`, as text that keeps their order."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else to_json(clean_json(value)).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else from_json(value)


class SearchableJson(TypeDecorator[Any]):
    """A small JSON object that lists filter by: JSONB with an index on PostgreSQL."""

    impl = Text().with_variant(JSONB(), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        cleaned = clean_json(value)
        return cleaned if dialect.name == "postgresql" else to_json(cleaned).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return from_json(value) if isinstance(value, str) else value


def text_in(connection: Connection, column: ColumnElement[Any], *path: str | int) -> ColumnElement[Any]:
    """The value at a path of a JSON text."""
    if connection.dialect.name == "postgresql":
        return func.json_extract_path_text(cast(column, JSON), *map(str, path))
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return func.json_extract(type_coerce(column, Text), f"${steps}")
