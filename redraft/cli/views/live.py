"""Shows the events of a job as they arrive: as plain lines, or on a terminal with colours and a live region."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from redraft.cli import output
from redraft.cli.option_names import in_options
from redraft.cli.views import grounding_output
from redraft.cli.views.verdicts import Line, brief_lines
from redraft.domain.bulk.phrases import format_score, format_threshold
from redraft.domain.jobs.job_errors import OUTPUT_LIMIT

if TYPE_CHECKING:
    from redraft.messages import Delta
    from redraft.operations.jobs.iterations import Iteration
    from redraft.operations.jobs.resources import Event

# The number of lines on the screen that the text leaves free for other content
_OTHER_LINES = 3
# No screen shows more characters of a text, so older characters are dropped to bound the memory
_TAIL_CHARS = 8000
# Events after which the text shown so far is obsolete
_CLEARING = frozenset({"iteration.started", "iteration.generated", "done", "evaluated"})


@dataclass(frozen=True, slots=True)
class _Draft:
    """The text of one candidate so far: the attempt, the number of characters, and the last characters."""

    attempt: int
    length: int = 0
    tail: str = ""

    def plus(self, delta: "Delta") -> "_Draft":
        # Deltas can be lost, and a reader must see that text is missing
        gap = "" if delta.offset == self.length else "…"
        tail = (self.tail + gap + delta.text)[-_TAIL_CHARS:]
        return _Draft(self.attempt, delta.offset + len(delta.text), tail)


class Writing:
    """The texts of the current iteration's candidates, so far as they have been received."""

    def __init__(self) -> None:
        self._iteration = 0
        self._drafts: dict[int, _Draft] = {}

    def add(self, delta: "Delta") -> None:
        """Append a delta to its text. A delta of a later attempt, or with offset 0, replaces the text."""
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

    def update(self, event: "Event") -> None:
        """Remove the texts that are obsolete after an event."""
        if event.type in _CLEARING:
            self._drafts = {}
        if event.type == "step.retrying":
            # The event can arrive after deltas of the next attempt, whose text must be kept
            failed = event.data["attempt"]
            self._drafts = {number: draft for number, draft in self._drafts.items() if draft.attempt > failed}
        if event.type == "iteration.generated":
            # A late delta must not show an answer again that has already been printed
            self._iteration = event.data["iteration"] + 1

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Another thread draws, so `add` replaces the dictionary and never modifies it
        drafts = sorted(self._drafts.items())
        room = max(1, (console.height - _OTHER_LINES) // max(1, len(drafts)))
        for candidate, draft in drafts:
            label = f"candidate {candidate}: " if len(drafts) > 1 else ""
            yield from output.styled(label + draft.tail, "dim").wrap(console, options.max_width)[-room:]


# Indent and style of events that appear as their message alone
_MESSAGES = {"iteration.started": ("", "bold"), "step.retrying": ("  ", "yellow"), "thinking": ("  ", "dim")}
_UNGROUNDED = "  not accepted: its sources do not support it"
# The current activity after each event
_ACTIVITIES = {
    "job.queued": "waiting for a worker",
    "job.continued": "waiting for a worker",
    "iteration.started": "iteration {number}: generating",
    "iteration.generated": "iteration {number}: evaluating",
    "iteration.evaluated": "{audit} audits",
    "thinking": "waiting for the next iteration",
    "step.retrying": "waiting before the next attempt",
}


class View(AbstractContextManager["View"]):
    """Prints events as lines."""

    on_delta: "Callable[[Delta], None] | None" = None
    """Receives the text deltas of the answer. None if the view shows only events."""

    def __init__(self, console: Console, threshold: float) -> None:
        self._console = console
        self._threshold = threshold

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(self, event: "Event", iteration: "Iteration | None" = None) -> None:
        """Show an event. For an evaluation, `iteration` is the evaluated answer."""
        for text, style in lines_of(event, self._threshold, iteration):
            self._console.print(output.styled(text, style), soft_wrap=not self._console.is_terminal)

    def close(self) -> None:
        """Restore the terminal. Further calls have no effect."""


class TerminalView(View):
    """Adds a live region below the lines, with the text being generated, the current activity and its duration."""

    def __init__(self, console: Console, threshold: float, audit: str | None) -> None:
        super().__init__(console, threshold)
        self._audit = audit
        self._activity = _Activity()
        self._writing = Writing()
        self.on_delta = self._writing.add
        region = Group(self._writing, self._activity)
        # `transient` removes the region at the end, so that only the printed lines remain
        self._live = Live(region, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def show(self, event: "Event", iteration: "Iteration | None" = None) -> None:
        self._writing.update(event)
        super().show(event, iteration)
        if words := activity_after(event, self._audit):
            self._activity.change(words)

    def close(self) -> None:
        self._live.stop()


def make_view(threshold: float, audit: str | None = None, console: Console | None = None) -> View:
    """Return a view for a console, by default stderr. `audit` is the independent evaluator of the job, if any."""
    console = console or output.stderr()
    return TerminalView(console, threshold, audit) if console.is_interactive else View(console, threshold)


class _Activity:
    """The last line of the live region: a spinner, the activity, its duration, and the total duration."""

    def __init__(self) -> None:
        self._started_at = self._since = time.monotonic()
        self._words = "starting"
        self._spinner = Spinner("dots")

    def change(self, words: str) -> None:
        self._words, self._since = words, time.monotonic()

    def __rich__(self) -> RenderableType:
        now = time.monotonic()
        words = f"{self._words} … {output.span(now - self._since)}"
        self._spinner.update(text=Text(f"{words} (total {output.span(now - self._started_at)})", style="dim"))
        return self._spinner


def activity_after(event: "Event", audit: str | None = None) -> str | None:
    """Return the activity that follows an event, or None if the event does not change the activity.

    After an evaluation the activity is the audit, until a further iteration starts.
    """
    words = _ACTIVITIES.get(event.type)
    if event.type == "iteration.evaluated" and not audit:
        return None
    return words and words.format(number=event.data.get("iteration"), audit=audit)


def lines_of(event: "Event", threshold: float, iteration: "Iteration | None" = None) -> list[Line]:
    """Format an event as lines. For an evaluation, `iteration` is the evaluated answer."""
    data = event.data
    message = in_options(output.one_line(data.get("message", event.type)))
    match event.type:
        case "iteration.generated":
            size = f"{len(data.get('answer') or ''):,} characters by {data.get('model')}"
            return [(f"  {_candidate(data)}{size} in {output.span(data.get('seconds') or 0)}", "")]
        case "iteration.evaluated":
            return _evaluated(data, threshold, iteration)
        case "done" | "evaluated":
            result: dict[str, Any] | None = data.get("result")
            # The error follows when the job has ended
            message = "There is no answer." if data.get("error") and result is None else message
            style = "bold red" if result is None else "bold green" if result["success"] else "bold yellow"
            return [(message, style)]
        case "job.continued" if data.get("guidance"):
            return [(message, "dim"), (f"  guidance: {output.one_line(data['guidance'])}", "")]
        case _:
            indent, style = _MESSAGES.get(event.type, ("", "dim"))
            return [(indent + message, style)]


def _candidate(data: dict[str, Any]) -> str:
    return f"candidate {data['candidate']}: " if data.get("candidate", 1) > 1 else ""


def _evaluated(data: dict[str, Any], threshold: float, iteration: "Iteration | None") -> list[Line]:
    if data["score"] is None:
        is_cut = OUTPUT_LIMIT in (data.get("error") or {})
        words, style = ("not evaluated: cut off at the output limit", "red") if is_cut else unscored(data)
        return [(f"  {_candidate(data)}{words}", style)]
    seconds = "reused" if data.get("reused") else f"in {output.span(data.get('seconds') or 0)}"
    verdict = (
        f"  {_candidate(data)}score {format_score(data['score'])} (threshold {format_threshold(threshold)}) {seconds}"
    )
    style = "bold green" if data.get("passed") else "bold yellow"
    if iteration is None:
        return [(verdict, style), *brief_lines(data)]
    refusal = [(_UNGROUNDED, "yellow")] if grounding_output.is_refused(iteration) else []
    return [(verdict + grounding_output.score_text(iteration.grounding), style), *refusal, *brief_lines(data)]


def unscored(verdict: dict[str, Any]) -> Line:
    """Return the reason why an evaluation has no score: skipped, a truncated answer, or a failed evaluator."""
    error: dict[str, str] | None = verdict.get("error")
    if error is None:
        return f"not evaluated: {output.one_line(verdict.get('evaluation_reasoning') or '')}", "dim"
    what = "not evaluated" if OUTPUT_LIMIT in error else "could not be evaluated"
    return f"{what}: {in_options(output.one_line(error.get('detail', '')))}", "red"
