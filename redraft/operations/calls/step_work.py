"""The form of a step: a generator that yields its model calls.

A step makes no model call itself. It is a generator that yields calls. The engine resumes it with the reply of a call,
or raises the provider's error at the `yield`. Between two calls a step may use the database and the CPU. So a step
holds no thread during a call, and a test can resume it with any reply.
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
S = TypeVar("S")


@dataclass(slots=True)
class ModelCall:
    """A call to a model. The step is resumed with the `ChatReply`.

    Attributes:
        files: the base64 of the files that the body refers to, by digest.
        seconds: the duration of the call. It is set before the step is resumed.
    """

    provider: Provider
    body: Mapping[str, Any]
    timeout_s: float
    on_delta: Callable[[str], None] | None = None
    limit_origin: LimitOrigin | None = None
    files: Mapping[str, str] | None = None
    seconds: float = 0.0

    async def send(self) -> ChatReply:
        """Make the call. Raises ProviderError if the provider gave no usable reply."""
        started_at = time.monotonic()
        try:
            return await self.provider.send(
                self.body,
                timeout_s=self.timeout_s,
                files=self.files,
                on_delta=self.on_delta,
                limit_origin=self.limit_origin,
            )
        finally:
            self.seconds = time.monotonic() - started_at


@dataclass(frozen=True, slots=True)
class Together:
    """Parts of a step, of which `width` run at the same time. The step is resumed with the list of their results."""

    parts: Sequence["Work[Any]"]
    width: int


@dataclass(frozen=True, slots=True)
class WithSpeculation:
    """A part of a step, and a speculative part that runs at the same time.

    The step is resumed with the results of both. If `is_needed` is false for the result of the first part, the calls
    of the speculative part are aborted.
    """

    main: "Work[Any]"
    speculative: "Work[Any]"
    is_needed: Callable[[Any], bool]


class Pace(Enum):
    """The speed of a step between its calls, which decides in which thread pool it runs."""

    SLOW = "slow"
    """The step may hold a thread for long: child processes check its answers, or its texts are long."""


Work = Generator[ModelCall | Together | WithSpeculation | Pace, Any, T]
"""A step or a part of a step that returns a `T`."""


class CallsParked(Exception):  # noqa: N818 - a state of a step, and never seen outside of the steps
    """Calls of the step go into a batch. The step starts anew when their results are in the ledger."""


def together(parts: Sequence[Work[T]], width: int | None = None) -> Work[list[T]]:
    """Run parts of a step at the same time. A single part runs directly."""
    if len(parts) == 1:
        return [(yield from parts[0])]
    if not parts:
        return []
    return (yield Together(parts, min(len(parts), width or len(parts))))


def with_speculation(main: Work[T], speculative: Work[S], is_needed: Callable[[T], bool]) -> Work[tuple[T, S]]:
    """Run a speculative part at the same time as the main part, and abort its calls as soon as it is not needed."""
    return (yield WithSpeculation(main, speculative, is_needed))


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
