"""Reports and comparisons as JSON: the domain's own names, null where a figure cannot be told.

Money is a decimal string. Nothing is rounded but quotients of money, to the nano-dollar.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from redraft.domain.statistics.estimates import Crossing
from redraft.domain.text.screens import reveal_in_json
from redraft.reports.tables import AnyTables, ComparisonTables, RunTables

_NANO = Decimal("1e-9")
_OF_CROSSINGS = ("n", "agreement", "kappa", "sensitivity", "specificity")


def report_figures(tables: RunTables) -> dict[str, Any]:
    """The report as plain values for JSON, under the names of `RunReport`."""
    return {
        "object": "run_report",
        "run": _plain(tables.facts),
        "gates": _plain(tables.gates),
        **_plain(tables.report),
    }


def comparison_figures(tables: ComparisonTables) -> dict[str, Any]:
    """The comparison as plain values for JSON, under the names of `Comparison`; all ids, however many."""
    return {
        "object": "comparison",
        "baseline": _plain(tables.baseline),
        "new": _plain(tables.new),
        "gates": _plain(tables.gates),
        **_plain(tables.comparison),
    }


def render_json(tables: AnyTables) -> str:
    figures = report_figures(tables) if isinstance(tables, RunTables) else comparison_figures(tables)
    return reveal_in_json(json.dumps(figures, ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return _money(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
        if isinstance(value, Crossing):
            names += _OF_CROSSINGS
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in cast("Sequence[Any]", value)]
    return value


def _money(value: Decimal) -> str:
    """Without exponent or idle zeros."""
    rounded = value.quantize(_NANO).normalize()
    return f"{rounded + 0:f}"
