"""Counts what objects of the product hold, to find containers that keep something of each job."""

import gc
from collections import defaultdict, deque
from typing import Any


def members_held_by(*owners: object) -> int:
    """Return how many members the containers have that these objects hold, themselves or through others of Redraft."""
    seen = dict[int, Any]()
    waiting: list[Any] = list(owners)
    while waiting:
        each = waiting.pop()
        is_own = type(each).__module__.startswith("redraft.")
        if id(each) in seen or not (is_own or _is_container(each)):
            continue
        seen[id(each)] = each
        waiting += gc.get_referents(each)
    return sum(len(each) for each in seen.values() if _is_container(each))


def _is_container(value: Any) -> bool:
    # Not `isinstance`, which resolves lazy proxies, so that they import modules
    return type(value) in {dict, set, list, deque, defaultdict}
