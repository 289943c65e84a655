"""Renders reports and comparisons as JSON, with the names of the domain. A figure that is unknown is null.

An amount of money is a decimal string. Only quotients of money are rounded, to the nano-dollar.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

from redraft.domain.statistics.estimates import Crossing
from redraft.domain.text.control_characters import reveal_in_json
from redraft.reports.tables import AnyTables, RunTables

_NANO = Decimal("1e-9")
_OF_CROSSINGS = ("n", "agreement", "kappa", "sensitivity", "specificity")


def figures_of(tables: AnyTables) -> dict[str, Any]:
    """Return a report or a comparison as plain values for JSON, under the names of `RunReport` and `Comparison`."""
    if isinstance(tables, RunTables):
        head, body = (
            {"object": "run_report", "run": tables.facts},
            {**_plain(tables.report), "examples": _plain(tables.examples)},
        )
        if tables.comparison:
            body["comparison"] = figures_of(tables.comparison)
    else:
        head, body = {"object": "comparison", "baseline": tables.baseline, "new": tables.new}, _plain(tables.comparison)
    return {**_plain(head), "gates": _plain(tables.gates), **body}


def render_json(tables: AnyTables) -> str:
    # A NaN must raise here, because it is no JSON
    return reveal_in_json(json.dumps(figures_of(tables), ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        # `+ 0` turns -0 into 0; the format has no exponent and no trailing zeros
        return f"{value.quantize(_NANO).normalize() + 0:f}"
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
