"""The model calls in flight of one step, which are aborted when the job of the step is canceled."""

import asyncio

from redraft.errors import ProviderError
from redraft.operations.calls.step_work import ModelCall
from redraft.providers.shared.protocol import ChatReply

_JOB_CANCELED = "its job was canceled"


class CallsInFlight:
    """Makes the calls of a step, and aborts them. It is used on the event loop only."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[ChatReply]] = set()
        self._parts: list[CallsInFlight] = []
        self._aborted_because: str | None = None

    def part(self) -> "CallsInFlight":
        """Return an object for further calls. It can be aborted alone, and is aborted together with this object."""
        part = CallsInFlight()
        part._aborted_because = self._aborted_because
        self._parts.append(part)
        return part

    async def make(self, call: ModelCall) -> ChatReply:
        """Make a call. Raises ProviderError if the call failed, or if it was aborted (code `canceled`)."""
        if self._aborted_because:
            raise _canceled(self._aborted_because)
        task = asyncio.ensure_future(call.send())
        self._calls.add(task)
        try:
            return await task
        except asyncio.CancelledError as error:
            raise _canceled(self._aborted_because or _JOB_CANCELED) from error
        finally:
            self._calls.discard(task)

    def abort(self, because: str = _JOB_CANCELED) -> None:
        """Abort the calls in flight, and make no further call."""
        self._aborted_because = because
        for call in self._calls:
            call.cancel()
        for part in self._parts:
            part.abort(because)


def _canceled(because: str) -> ProviderError:
    return ProviderError("canceled", f"The call was aborted, because {because}.")
