"""A cache for what is dear to make and needed by many threads at once."""

from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def made_once(maxsize: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Like `functools.lru_cache`, but threads that need a value at the same moment do not each make it.

    A worker's first hundred steps begin together: each of them would compile the same patterns and templates.

    Args:
        maxsize: how many values are kept.
    """

    def decorate(make: Callable[P, T]) -> Callable[P, T]:
        made, turn = lru_cache(maxsize)(make), Lock()

        @wraps(make)
        def get(*args: P.args, **kwargs: P.kwargs) -> T:
            with turn:
                return made(*args, **kwargs)

        return get

    return decorate
