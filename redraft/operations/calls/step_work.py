"""The model calls that a step yields while it works.

A step makes no model call itself. It is a generator that yields calls. The engine resumes it with the reply of a call,
or raises the provider's error at the `yield`. Between two calls a step may use the database and the CPU. So a step
holds no thread during a call, and tests can send it any reply.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from redraft.domain.calls.conversation import LimitOrigin
from redraft.errors import ProviderError
from redraft.providers.shared.protocol import ChatReply, Provider
from redraft.providers.shared.transport import CALLS_LOOP

T = TypeVar("T")


@dataclass(slots=True)
class ModelCall:
    """A call to a model; the step is resumed with its `ChatReply`.

    Attributes:
        seconds: how long the call took; set before the step is resumed.
    """

    provider: Provider
    body: Mapping[str, Any]
    timeout_s: float
    on_delta: Callable[[str], None] | None = None
    limit_origin: LimitOrigin | None = None
    seconds: float = 0.0

    async def send(self) -> ChatReply:
        """Make the call. Raises ProviderError if the provider gave no usable reply."""
        started_at = time.monotonic()
        try:
            return await self.provider.send(
                self.body, timeout_s=self.timeout_s, on_delta=self.on_delta, limit_origin=self.limit_origin
            )
        finally:
            self.seconds = time.monotonic() - started_at


@dataclass(frozen=True, slots=True)
class Together:
    """Parts of a step that work at the same time, at most `width` of them; the step gets the list of their results."""

    parts: Sequence["Work[Any]"]
    width: int


class Pace(Enum):
    """How long a step uses a thread between its calls."""

    SLOW = "slow"
    """The step may hold a thread for long: child processes check its answers, or its texts are long."""


Work = Generator[ModelCall | Together | Pace, Any, T]
"""A step, or a part of one, that returns a `T`."""


def together(parts: Sequence[Work[T]], width: int | None = None) -> Work[list[T]]:
    """Work on parts at the same time; a single part needs no scheduling."""
    if len(parts) == 1:
        return [(yield from parts[0])]
    if not parts:
        return []
    return (yield Together(parts, min(len(parts), width or len(parts))))


def wait_for(work: Work[T]) -> T:
    """Run work that makes its calls one after another, and wait for each call in this thread."""
    reply: Any = None
    error: ProviderError | None = None
    while True:
        try:
            wanted = work.throw(error) if error else work.send(reply)
        except StopIteration as end:
            return end.value
        if not isinstance(wanted, ModelCall):
            raise TypeError(f"Only the engine can do {wanted!r}.")
        reply = error = None
        try:
            reply = CALLS_LOOP.run(wanted.send())
        except ProviderError as raised:
            error = raised
