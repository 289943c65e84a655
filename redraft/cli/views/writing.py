"""The end of the text that is being generated, for the live region of a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from redraft.cli import output

if TYPE_CHECKING:
    from redraft.jobs import Delta
    from redraft.operations.jobs.resources import Event

# Lines of the screen that are not for the text, and how much of a text can fill a screen.
_OTHER_LINES = 3
_TAIL_CHARS = 8000
# Events that replace or void the text shown so far.
_CLEARING = frozenset({"iteration.started", "iteration.generated", "done"})


@dataclass(frozen=True, slots=True)
class _Draft:
    """One candidate's text: its attempt, its length so far, and its end."""

    attempt: int
    length: int = 0
    tail: str = ""

    def plus(self, delta: "Delta") -> "_Draft":
        gap = "" if delta.offset == self.length else "…"
        tail = (self.tail + gap + delta.text)[-_TAIL_CHARS:]
        return _Draft(self.attempt, delta.offset + len(delta.text), tail)


class Writing:
    """The drafts of the iteration that is being written, as far as they were heard."""

    def __init__(self) -> None:
        self._iteration = 0
        self._drafts: dict[int, _Draft] = {}

    def add(self, delta: "Delta") -> None:
        """A piece of a draft. A higher attempt, and a text that begins anew, withdraw what came before."""
        if delta.iteration < self._iteration:
            return
        if delta.iteration > self._iteration:
            self._iteration = delta.iteration
            self._drafts = {}
        draft = self._drafts.get(delta.candidate)
        if draft and delta.attempt < draft.attempt:
            return
        if draft is None or delta.attempt > draft.attempt or delta.offset == 0:
            draft = _Draft(delta.attempt)
        self._drafts = {**self._drafts, delta.candidate: draft.plus(delta)}

    def heed(self, event: "Event") -> None:
        """Remove the drafts that this event replaces."""
        if event.type in _CLEARING:
            self._drafts = {}
        if event.type == "step.retrying":
            # The event may come late: keep the text of a later attempt
            over = event.data["attempt"]
            self._drafts = {number: draft for number, draft in self._drafts.items() if draft.attempt > over}
        if event.type == "iteration.generated":
            self._iteration = event.data["iteration"] + 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Another thread draws: `add` replaces the dictionary and never changes it.
        drafts = sorted(self._drafts.items())
        room = max(1, (console.height - _OTHER_LINES) // max(1, len(drafts)))
        for candidate, draft in drafts:
            label = f"candidate {candidate}: " if len(drafts) > 1 else ""
            yield from _last_lines(console, label, draft, options.max_width, room)


def _last_lines(console: Console, label: str, draft: _Draft, width: int, room: int) -> Iterator[Text]:
    lines = output.styled(label + draft.tail, "dim").wrap(console, width)
    yield from lines[-room:]
