"""A bounded queue of requests that wait for a few slots. Kinds of requests take turns, so no kind blocks the others."""

import threading
from collections import OrderedDict, deque
from collections.abc import Generator
from contextlib import contextmanager

from redraft.errors import Unavailable


class Busy(Unavailable):
    """The request cannot be served now, usually because too many requests wait. A later retry may succeed."""

    def __init__(self, words: str = "Too many validations wait for their turn; try again in some seconds.") -> None:
        super().__init__(words, code="busy")


class FairQueue:
    """A few slots for requests. At most `waiting_max` requests may wait, each for at most `wait_s`.

    The kinds of waiting requests take turns. Requests of the same kind get slots in the order of their arrival.
    """

    def __init__(self, slots: int, *, waiting_max: int, wait_s: float) -> None:
        self._free = slots
        self._waiting_max = waiting_max
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._waiting: OrderedDict[bytes, deque[threading.Event]] = OrderedDict()

    @property
    def waiting(self) -> int:
        with self._lock:
            return sum(map(len, self._waiting.values()))

    @contextmanager
    def slot(self, kind: bytes) -> Generator[None]:
        """Hold a slot within the block. Raises Busy if too many requests wait, or if no slot becomes free in time."""
        turn = self._enter(kind)
        if turn is not None and not turn.wait(self._wait_s) and self._leave_queue(kind, turn):
            raise Busy
        try:
            yield
        finally:
            self._release()

    def _enter(self, kind: bytes) -> threading.Event | None:
        """Take a free slot and return None, or join the queue and return the event to wait for."""
        with self._lock:
            if self._free:
                self._free -= 1
                return None
            if sum(map(len, self._waiting.values())) >= self._waiting_max:
                raise Busy
            turn = threading.Event()
            self._waiting.setdefault(kind, deque()).append(turn)
            return turn

    def _leave_queue(self, kind: bytes, turn: threading.Event) -> bool:
        """Leave the queue. Return False if the request has got a slot just now."""
        with self._lock:
            if turn.is_set():
                return False
            self._waiting[kind].remove(turn)
            if not self._waiting[kind]:
                del self._waiting[kind]
            return True

    def _release(self) -> None:
        """Give the slot to the first kind in the queue. This kind then moves behind all other kinds."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            kind, turns = self._waiting.popitem(last=False)
            turns.popleft().set()
            if turns:
                self._waiting[kind] = turns
