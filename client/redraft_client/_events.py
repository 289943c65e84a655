"""Reads streams of server-sent events, and resumes them after an interruption."""

from pydantic import ValidationError

from redraft_client._protocol import Failure, Request, Response, Retries, error_of
from redraft_client.errors import UnexpectedResponse
from redraft_client.models import EventData
from redraft_client.results import StreamedEvent

# The server sends a comment every ten seconds
SILENCE_MAX_S = 45.0
_RECONNECT_S = 1.0


class Follower:
    """The position in a stream of events. A driver opens the stream again until `is_over`."""

    def __init__(self, path: str, after: int, retries: Retries) -> None:
        self._path = path
        self._after = after
        self._retries = retries.for_waiting()
        self._failures = 0
        self._fields: dict[str, list[str]] = {}
        self.pause_s = 0.0
        self.is_over = False

    def request(self) -> Request:
        position = {"Last-Event-ID": str(self._after)} if self._after else {}
        headers = {"Accept": "text/event-stream", **position}
        return Request("GET", self._path, headers=headers, is_repeatable=True, wait_s=SILENCE_MAX_S)

    def opened(self) -> None:
        self._fields = {}
        # The server closes each stream after some minutes, which is no failure, so this short pause suffices
        self.pause_s = _RECONNECT_S

    def answered(self, response: Response) -> None:
        """Process a response that is no stream. Raises ApiError, except if the stream is over or a retry may help."""
        self.is_over = response.status == 204
        if not self.is_over:
            self.interrupted(response)

    def interrupted(self, reply: Response | Failure) -> None:
        """Set the pause before the next attempt. Raises ApiError or ServerNotReached if another attempt is useless."""
        self._failures += 1
        pause_s = self._retries.pause_s(self.request(), reply, self._failures)
        if pause_s is None:
            raise error_of(self.request(), reply)
        self.pause_s = pause_s

    def feed(self, line: str) -> StreamedEvent | None:
        """Add a line. Return the event that this line completes, or None."""
        if line:
            name, _, value = line.partition(":")
            if name:
                self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        return self._event(fields) if "data" in fields else None

    def _event(self, fields: dict[str, list[str]]) -> StreamedEvent:
        kind, number = fields.get("event", ["message"])[-1], fields.get("id", [""])[-1]
        try:
            data = EventData.model_validate_json("\n".join(fields["data"]))
        except ValidationError as error:
            raise UnexpectedResponse(f"The event {kind} cannot be read. Update redraft-client.") from error
        self._failures = 0
        position = int(number) if number.isascii() and number.isdigit() else None
        self._after = self._after if position is None else position
        # After this event, the answer to the next request says whether more events will follow, so it is sent at once
        self.pause_s = 0.0 if kind == "done" else self.pause_s
        return StreamedEvent(kind, data, position)
