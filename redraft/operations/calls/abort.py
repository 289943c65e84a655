"""The model calls in flight of one step, which are aborted when the job of the step is canceled."""

import asyncio

from redraft.errors import ProviderError
from redraft.operations.calls.step_work import ModelCall
from redraft.providers.shared.protocol import ChatReply


class CallsInFlight:
    """Makes the calls of a step, and aborts them. It is used on the event loop only."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[ChatReply]] = set()
        self._is_aborted = False

    async def make(self, call: ModelCall) -> ChatReply:
        """Make a call. Raises ProviderError if the call failed, or if the job was canceled (code `canceled`)."""
        if self._is_aborted:
            raise _canceled()
        task = asyncio.ensure_future(call.send())
        self._calls.add(task)
        try:
            return await task
        except asyncio.CancelledError as error:
            raise _canceled() from error
        finally:
            self._calls.discard(task)

    def abort(self) -> None:
        """Abort the calls in flight, and make no further call."""
        self._is_aborted = True
        for call in self._calls:
            call.cancel()


def _canceled() -> ProviderError:
    return ProviderError("canceled", "The call was aborted, because its job was canceled.")
