"""A reader of server-sent events that shows what a browser would hide: comments, ids, the end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True, slots=True)
class Frame:
    """One block of a stream; a comment has neither id nor type."""

    id: str | None
    type: str | None
    data: Any
    comment: str | None

    @property
    def seq(self) -> int:
        assert self.id is not None
        return int(self.id)


class EventStream:
    """Frames as they come. Keep it for as long as the stream shall stay open: its end closes the connection."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def frames(self) -> Iterator[Frame]:
        block: dict[str, str] = {}
        for line in self._lines:
            if line:
                name, _, value = line.partition(":")
                block[name or "comment"] = value.removeprefix(" ")
            elif block:
                yield _frame(block)
                block = {}

    def events(self) -> Iterator[Frame]:
        return (frame for frame in self.frames() if frame.type)


def _frame(block: dict[str, str]) -> Frame:
    data = json.loads(block["data"]) if "data" in block else None
    return Frame(block.get("id"), block.get("event"), data, block.get("comment"))


@contextmanager
def follow(client: httpx2.Client, job_id: str, **headers: str) -> Iterator[EventStream]:
    """Open a job's stream; header names are written with underscores."""
    asked = {name.replace("_", "-"): value for name, value in headers.items()}
    with client.stream(
        "GET", f"/v1/jobs/{job_id}/events", headers={"Accept": "text/event-stream", **asked}
    ) as response:
        yield EventStream(response)
