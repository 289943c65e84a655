"""The simulated model server: decides at once what it replies, and when."""

from redraft.errors import ProviderError
from redraft.operations.calls.step_work import ModelCall
from redraft.providers.shared.protocol import ChatReply, Usage
from tests.chaos.storms.load import Provider
from tests.model_server.bodies import text_of
from tests.model_server.logbook import Entry
from tests.model_server.requests import Asked
from tests.simulation.world import NOTHING, Task, World

# A call may last longer than a lease: then only heartbeats keep it
_LONG_S = (5.0, 59.0)


class ModelServer:
    """Replies to calls in virtual time, and logs each request."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._script = Provider(seed, slowness=1.0)
        self.log: list[Entry] = []

    def call(self, process_name: str, call: ModelCall, calls: set[Task]) -> ChatReply:
        """Make the call from the current task, which is in `calls` meanwhile.

        Raises ProviderError if there is no usable reply in time, or the call was aborted.
        """
        world, task = self._world, self._world.current
        asked = Asked("openai", call.body, {})
        entry = Entry(
            *(len(self.log) + 1, "openai", asked.role, asked.model, asked.case, "", call.body, {}),
            started_at=world.database_time,
        )
        self.log.append(entry)
        world.note(process_name, f"calls {asked.model} to {asked.role}, request {entry.number}")
        after, reply = self._reply_to(asked)
        began = world.now
        calls.add(task)
        try:
            world.resume(task, NOTHING, after=min(after, call.timeout_s))
            if world.wait() is not NOTHING:
                raise ProviderError("canceled", "The call was aborted, because its job was canceled.")
        finally:
            calls.discard(task)
            call.seconds = world.now - began
        if after > call.timeout_s:
            raise ProviderError("provider_timeout", "The call took too long.")
        if isinstance(reply, ProviderError):
            raise reply
        entry.status, entry.answered = 200, True
        return reply

    def _reply_to(self, asked: Asked) -> tuple[float, ChatReply | ProviderError]:
        found = self._script(asked)
        after = found.latency_s or 0.05
        if self._world.random.random() < 0.1:
            after = self._world.random.uniform(*_LONG_S)
        if found.fault:
            return after, ProviderError("provider_unavailable", "The connection broke.")
        if found.status == 429:
            return after, ProviderError("provider_rate_limited", "Slow down.", http_status=429)
        if found.status != 200:
            return after, ProviderError("provider_unavailable", "Overloaded.", http_status=found.status)
        text = text_of(asked, found)
        usage = Usage(len(asked.prompt) // 4, 0, len(text) // 4, 0)
        return after, ChatReply(text, "stop", usage, 200, {"text": text})
