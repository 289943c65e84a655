"""Caches values that are expensive to compute. Each value is computed on its first use, once for all threads."""

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def cached_once(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache like `functools.lru_cache`, but compute each value once even if several threads need it at once."""
    # The first steps of a worker begin at the same time. Without the lock, each would compile the same patterns

    def decorate(make: Callable[P, T]) -> Callable[P, T]:
        made, turn = lru_cache(maxsize)(make), Lock()

        @wraps(make)
        def get(*args: P.args, **kwargs: P.kwargs) -> T:
            with turn:
                return made(*args, **kwargs)

        return get

    return decorate


class _LazyPattern:
    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._source), name)
        # The next use finds the attribute on this object, and does not call `__getattr__`
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used.

    Use this for large patterns in constants of modules. Compiling all of them took a fifth of each process's start.
    """
    return cast(re.Pattern[str], _LazyPattern(pattern, flags))
