"""Mischief with the broker's messages: each one thrice and late, or held back and out of order."""

import base64
import json
import random
import re
import threading
from collections.abc import Callable
from typing import Any, Self

import redis
from sqlalchemy import select

from redraft.errors import Unavailable
from redraft.messages import INTERACTIVE_QUEUE
from redraft.storage.engine.tables import jobs
from redraft.storage.engine.unit_of_work import Database
from tests.support.valkey import ValkeyServer
from tests.support.waiting import patient, wait_until

_HEARD = b"LPUSH"
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"\\": b"\\", b'"': b'"'}
_LOOK_EVERY_S = 0.02


class Listener:
    """Hears every message that is published for people's jobs, as long as the broker is there."""

    def __init__(self, valkey: ValkeyServer, name: str) -> None:
        self._valkey = valkey
        self._stopping = threading.Event()
        self._is_listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Self:
        self._thread.start()
        wait_until(lambda: self._is_listening.is_set() or not self._thread.is_alive(), what=self._thread.name)
        return self

    def hear(self, payload: bytes) -> None:
        """One message; called in the listener's own thread."""
        raise NotImplementedError

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(patient(5))

    def _run(self) -> None:
        try:
            with redis.Redis(unix_socket_path=str(self._valkey.socket)) as client:
                self._listen(client)
        except (redis.RedisError, OSError):
            # The broker went away: so has everything that could be heard
            self._is_listening.set()

    def _listen(self, client: redis.Redis) -> None:
        with client.monitor() as monitor:
            self._is_listening.set()
            while not self._stopping.is_set():
                if not monitor.connection.can_read(timeout=_LOOK_EVERY_S):
                    continue
                line: Any = monitor.connection.read_response()
                payload = _payload_of(bytes(line))
                if payload is not None:
                    self.hear(payload)


class Repeater(Listener):
    """Publishes every message again: `times` more, shuffled, up to `late_s` later.

    Its copies go to the other end of the queue: they overtake, and it does not hear itself.
    """

    def __init__(self, valkey: ValkeyServer, rng: random.Random, *, times: int = 3, late_s: float = 1.0) -> None:
        super().__init__(valkey, "repeater")
        self.heard = 0
        self._random = rng
        self._times, self._late_s = times, late_s
        self._timers: list[threading.Timer] = []

    def hear(self, payload: bytes) -> None:
        self.heard += 1
        for _ in range(self._times):
            timer = threading.Timer(self._random.uniform(0, self._late_s), self._publish, [payload])
            timer.daemon = True
            timer.start()
            self._timers.append(timer)

    def _publish(self, payload: bytes) -> None:
        try:
            with self._valkey.client() as client:
                client.rpush(INTERACTIVE_QUEUE, payload)
        except (redis.RedisError, OSError):
            return

    def stop(self) -> None:
        super().stop()
        for timer in self._timers:
            timer.join(self._late_s + 1)


class Eavesdropper(Listener):
    """Looks whether the step that a message is about is committed; it listens again when the broker is back."""

    def __init__(self, valkey: ValkeyServer, database: Database) -> None:
        super().__init__(valkey, "eavesdropper")
        self.problems: list[str] = []
        self._database = database

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            super()._run()

    def hear(self, payload: bytes) -> None:
        arguments = json.loads(base64.b64decode(json.loads(payload)["body"]))[1]
        if "job_id" not in arguments:
            return
        try:
            with self._database.read() as connection:
                step_no = connection.scalar(select(jobs.c.step_no).where(jobs.c.id == arguments["job_id"]))
        except Unavailable:
            return
        if step_no is None or step_no < arguments["step_no"]:
            self.problems.append(f"{arguments['job_id']}: was rung for before it was committed")


def _payload_of(line: bytes) -> bytes | None:
    """The message of `"LPUSH" "interactive" "{…}"`, as `MONITOR` tells it."""
    words = [_unescaped(word) for word in _WORD.findall(line)]
    is_message = len(words) == 3 and words[0].upper() == _HEARD and words[1] == INTERACTIVE_QUEUE.encode()
    return words[2] if is_message else None


def _unescaped(word: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1]) or bytes([int(found[1][1:], 16)]), word)


class Withholder:
    """Takes what it finds in the queue, and gives it back in another order when it stops."""

    def __init__(self, valkey: ValkeyServer, rng: random.Random) -> None:
        self.held: list[bytes] = []
        self._valkey = valkey
        self._random = rng
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="withholder", daemon=True)

    def start(self) -> "Withholder":
        self._thread.start()
        return self

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            _try(self._take)

    def _take(self) -> None:
        with self._valkey.client() as client:
            while (payload := client.rpop(INTERACTIVE_QUEUE)) is not None:
                self.held.append(bytes(payload))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(patient(5))
        self._random.shuffle(self.held)
        _try(self._give_back)

    def _give_back(self) -> None:
        with self._valkey.client() as client:
            for payload in self.held:
                client.lpush(INTERACTIVE_QUEUE, payload)


def _try(work: Callable[[], None]) -> None:
    try:
        work()
    except (redis.RedisError, OSError):
        return
