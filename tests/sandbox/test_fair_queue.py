"""Places for a few: kinds take turns, the queue is bounded, and nobody waits for ever."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from redraft.sandbox.fair_queue import Busy, FairQueue
from tests.support.waiting import wait_until


def served(kinds: str) -> str:
    """The order in which requests of these kinds, which came in this order, are let in to one place."""
    turns, order = FairQueue(1, waiting_max=len(kinds), wait_s=60), list[str]()

    def ask(kind: str) -> None:
        with turns.slot(kind.encode()):
            order.append(kind)

    with ThreadPoolExecutor(max_workers=len(kinds)) as threads:
        asked: list[Future[None]] = []
        with turns.slot(b"first"):
            for count, kind in enumerate(kinds, 1):
                asked.append(threads.submit(ask, kind))
                wait_until(lambda count=count: turns.waiting == count, what="a place in the queue")
        for each in asked:
            each.result()
    assert turns.waiting == 0
    return "".join(order)


@pytest.mark.parametrize(
    ("came", "order"), [("", ""), ("abc", "abc"), ("aaaab", "abaaa"), ("aaabbbc", "abcabab"), ("abba", "abab")]
)
def test_kinds_take_turns_each_first_come_first_served(came: str, order: str):
    assert served(came or "x") == (order or "x")


def test_as_many_have_a_place_as_there_are_and_one_more_is_told_at_once_when_nobody_may_wait():
    turns = FairQueue(2, waiting_max=0, wait_s=60)
    with turns.slot(b"a"), turns.slot(b"a"), pytest.raises(Busy), turns.slot(b"b"):
        pass
    with turns.slot(b"b"), turns.slot(b"b"):
        pass


def test_who_has_waited_for_too_long_is_told_and_takes_no_place():
    turns = FairQueue(1, waiting_max=1, wait_s=0.05)
    with turns.slot(b"a"), pytest.raises(Busy), turns.slot(b"b"):
        pass
    assert turns.waiting == 0
    with turns.slot(b"c"):
        pass


def test_a_place_comes_back_whatever_is_raised_in_it():
    turns = FairQueue(1, waiting_max=0, wait_s=0)
    with pytest.raises(KeyError), turns.slot(b"a"):
        raise KeyError
    with turns.slot(b"a"):
        pass


def test_a_crowd_never_has_more_places_than_there_are():
    turns, lock, inside = FairQueue(3, waiting_max=100, wait_s=60), threading.Lock(), [0, 0]

    def visit(number: int) -> None:
        with turns.slot(bytes([number % 5])):
            with lock:
                inside[0] += 1
                inside[1] = max(inside)
            with lock:
                inside[0] -= 1

    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(max_workers=20))
        list(threads.map(visit, range(200)))
    assert inside[0] == 0
    assert inside[1] <= 3
