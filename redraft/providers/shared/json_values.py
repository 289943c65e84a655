"""JSON as both databases take it."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """JSON values, without NaN and Infinity, which neither database takes.

    Raises:
        ValueError: it is no JSON, or nested beyond reason.
    """
    try:
        return json.loads(text, parse_constant=lambda _name: None)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
