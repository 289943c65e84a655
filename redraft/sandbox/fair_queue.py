"""Who may use one of a few places next: a bounded queue that is fair between the kinds of requests in it."""

import threading
from collections import OrderedDict, deque
from collections.abc import Generator
from contextlib import contextmanager

from redraft.errors import Unavailable


class Busy(Unavailable):
    """A request cannot be served now, most often since too many wait. It can be made again a moment later."""

    def __init__(self, words: str = "Too many validations wait for their turn; try again in some seconds.") -> None:
        super().__init__(words, code="busy")


class FairQueue:
    """Places for a few requests at a time. Those that wait get in one of each kind by turns, in the order they came.

    Args:
        slots: how many requests are served at once.
        waiting_max: how many may wait.
        wait_s: how long each may wait.
    """

    def __init__(self, slots: int, *, waiting_max: int, wait_s: float) -> None:
        self._free = slots
        self._waiting_max = waiting_max
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._waiting: OrderedDict[bytes, deque[threading.Event]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait now."""
        with self._lock:
            return sum(map(len, self._waiting.values()))

    @contextmanager
    def slot(self, kind: bytes) -> Generator[None]:
        """Have a place within the block.

        Raises:
            Busy: there is none, and no room to wait for one.
        """
        turn = self._enter(kind)
        if turn is not None and not turn.wait(self._wait_s) and self._leave_queue(kind, turn):
            raise Busy
        try:
            yield
        finally:
            self._release()

    def _enter(self, kind: bytes) -> threading.Event | None:
        """None: there is a free place; it is taken now."""
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
        """False: the turn has come meanwhile."""
        with self._lock:
            if turn.is_set():
                return False
            self._waiting[kind].remove(turn)
            if not self._waiting[kind]:
                del self._waiting[kind]
            return True

    def _release(self) -> None:
        """The first kind in the queue is next; what else of it waits goes behind all others."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            kind, turns = self._waiting.popitem(last=False)
            turns.popleft().set()
            if turns:
                self._waiting[kind] = turns
