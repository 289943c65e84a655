"""Lengths of time as one types them: 90d, 12h, 2w, 90min."""

import re

from redraft.errors import Invalid

_SPAN = re.compile(r"(\d{1,4})\s*(min|h|d|w)")
_UNIT_S = {"min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def read_span_s(text: str, option: str, *, may_be_zero: bool = False) -> float:
    """Seconds.

    Raises:
        Invalid: it is no length of time; the error names the option.
    """
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None or not (may_be_zero or int(found[1])):
        raise Invalid.at(
            option, f"{text!r} is not a length of time: write a number with min, h, d or w, such as 30d.", "span"
        )
    return int(found[1]) * _UNIT_S[found[2]]
