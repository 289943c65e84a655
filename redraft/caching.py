"""A cache for values that are expensive to compute and needed by many threads at once."""

from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def cached_once(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache like `functools.lru_cache`, but compute each value once even if several threads need it at once."""
    # The first steps of a worker begin at the same time. Each would compile the same patterns and templates.

    def decorate(make: Callable[P, T]) -> Callable[P, T]:
        made, turn = lru_cache(maxsize)(make), Lock()

        @wraps(make)
        def get(*args: P.args, **kwargs: P.kwargs) -> T:
            with turn:
                return made(*args, **kwargs)

        return get

    return decorate
