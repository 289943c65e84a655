"""A value that many threads need at the same time is computed once, and a pattern when it is needed."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from redraft.caching import cached_once, lazy_pattern

THREADS = 16


def test_threads_that_come_together_make_a_value_once() -> None:
    made: list[int] = []
    start = Barrier(THREADS)

    @cached_once(maxsize=8)
    def square(number: int) -> int:
        made.append(number)
        return sum(number for _ in range(number))

    def ask(_thread: int) -> int:
        start.wait()
        return square(1000)

    with ThreadPoolExecutor(THREADS) as pool:
        assert set(pool.map(ask, range(THREADS))) == {1_000_000}
    assert made == [1000]


def test_only_so_many_values_are_kept() -> None:
    made: list[int] = []

    @cached_once(maxsize=1)
    def same(number: int) -> int:
        made.append(number)
        return number

    assert [same(1), same(1), same(2), same(1)] == [1, 1, 2, 1]
    assert made == [1, 2, 1]


def test_a_computation_that_failed_is_repeated() -> None:
    tries: list[int] = []

    @cached_once(maxsize=1)
    def fail_first(number: int) -> int:
        tries.append(number)
        if len(tries) == 1:
            raise ValueError("not yet")
        return number

    with pytest.raises(ValueError, match="not yet"):
        fail_first(5)
    assert fail_first(5) == 5


def test_a_lazy_pattern_is_compiled_when_it_is_used():
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("(")
    words = lazy_pattern("a+", re.IGNORECASE)
    assert [words.findall("xAay") for _ in range(2)] == [["Aa"], ["Aa"]]
    assert (words.pattern, words.flags) == ("a+", re.compile("a+", re.IGNORECASE).flags)
