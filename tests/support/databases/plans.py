"""The plans of statements, from EXPLAIN on both databases."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event

from redraft.storage.engine.tables import metadata


@contextmanager
def explained(connection: Connection, *, is_generic: bool = False) -> Iterator[list[str]]:
    """Collect the plans of the statements executed in the block; if `is_generic`, plans for any parameters."""
    plans: list[str] = []
    prefix = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "

    def explain(_conn: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith(("EXPLAIN", "BEGIN", "SET")):
            return
        if is_generic:
            cursor.execute(f"EXPLAIN (GENERIC_PLAN) {statement}", prepare=False)
        else:
            cursor.execute(prefix + statement, parameters)
        plans.append("\n".join(str(row[-1]) for row in cursor.fetchall()))

    event.listen(connection.engine, "before_cursor_execute", explain)
    try:
        yield plans
    finally:
        event.remove(connection.engine, "before_cursor_execute", explain)


_SCAN = rf"SCAN ({'|'.join(metadata.tables)})\b"


def whole_table_reads(plan: str) -> list[str]:
    """Return the lines of a plan that read a table from end to end without an index."""
    lines = [line.strip(" ->") for line in plan.splitlines()]
    return [line for line in lines if line.startswith("Seq Scan") or (re.match(_SCAN, line) and "INDEX" not in line)]
