"""Figures as JSON: dataclasses by their fields, money as decimal strings, null for what cannot be told."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, cast

from fastapi import Response
from pydantic_core import to_json


def render_figures(figures: Any) -> Response:
    return Response(to_json(_plain(figures), inf_nan_mode="null"), media_type="application/json")


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value
