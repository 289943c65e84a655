"""Shows a job's events as they come: on a terminal in colour under a spinner, elsewhere as plain lines."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from redraft.cli import output
from redraft.cli.views import grounding_output
from redraft.cli.views.verdicts import Line, brief_lines
from redraft.cli.views.writing import Writing
from redraft.domain.bulk.phrases import say_score
from redraft.domain.jobs.job_errors import OUTPUT_LIMIT

if TYPE_CHECKING:
    from redraft.jobs import Delta
    from redraft.operations.jobs.iterations import Iteration
    from redraft.operations.jobs.resources import Event

# Events that are shown by their message alone: indent and style.
_MESSAGES = {"iteration.started": ("", "bold"), "step.retrying": ("  ", "yellow"), "thinking": ("  ", "dim")}
_UNGROUNDED = "  not accepted: it does not rest on its sources"
_ACTIVITIES = {
    "job.queued": "waiting for a worker",
    "job.continued": "waiting for a worker",
    "iteration.started": "iteration {number}: generating",
    "iteration.generated": "iteration {number}: evaluating",
    "iteration.evaluated": "{audit} audits",
    "thinking": "waiting for the next iteration",
    "step.retrying": "waiting before the next attempt",
}


class View(Protocol):
    @property
    def on_delta(self) -> "Callable[[Delta], None] | None":
        """Shows a piece of what is being written; None where only whole lines are shown."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, event: "Event", iteration: "Iteration | None" = None) -> None:
        """Show an event; `iteration`: the evaluated answer with its citations."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was; harmless when repeated."""
        ...


def make_view(threshold: float, audit: str | None = None) -> View:
    """The view that fits what stderr is; `audit`: the independent evaluator, if the job has one."""
    console = output.stderr()
    if console.is_terminal and not console.is_dumb_terminal:
        return TerminalView(console, threshold, audit)
    return PlainView(threshold)


class PlainView:
    """One line after the other."""

    on_delta = None

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, event: "Event", iteration: "Iteration | None" = None) -> None:
        for text, _ in lines_of(event, self._threshold, iteration):
            output.say(text)

    def close(self) -> None: ...


class TerminalView:
    """Permanent lines, and below them a live region: the text being generated, the activity and its duration."""

    def __init__(self, console: Console, threshold: float, audit: str | None = None) -> None:
        self._console = console
        self._threshold = threshold
        self._audit = audit
        self._activity = _Activity()
        self._writing = Writing()
        region = Group(self._writing, self._activity)
        self._live = Live(region, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def on_delta(self, delta: "Delta") -> None:
        self._writing.add(delta)

    def show(self, event: "Event", iteration: "Iteration | None" = None) -> None:
        self._writing.heed(event)
        for text, style in lines_of(event, self._threshold, iteration):
            self._console.print(output.styled(text, style))
        if words := activity_after(event, self._audit):
            self._activity.change(words)

    def close(self) -> None:
        self._live.stop()


class _Activity:
    """The last line: spinner, what is being done, seconds of this and of all."""

    def __init__(self) -> None:
        self._started_at = self._since = time.monotonic()
        self._words = "starting"
        self._spinner = Spinner("dots")

    def change(self, words: str) -> None:
        self._words, self._since = words, time.monotonic()

    def __rich__(self) -> RenderableType:
        now = time.monotonic()
        words = f"{self._words} … {output.span(now - self._since)}"
        self._spinner.update(text=Text(f"{words} (in all {output.span(now - self._started_at)})", style="dim"))
        return self._spinner


def activity_after(event: "Event", audit: str | None = None) -> str | None:
    """What goes on after an event, until the next one. After a verdict without a further iteration comes the audit."""
    words = _ACTIVITIES.get(event.type)
    if event.type == "iteration.evaluated" and not audit:
        return None
    return words and words.format(number=event.data.get("iteration"), audit=audit)


def lines_of(event: "Event", threshold: float, iteration: "Iteration | None" = None) -> list[Line]:
    """An event in words; `iteration`: the answer that was evaluated."""
    data = event.data
    match event.type:
        case "iteration.generated":
            return [(_generated(data), "")]
        case "iteration.evaluated":
            return _evaluated(data, threshold, iteration)
        case "done":
            return [(output.one_line(data["message"]), _done_style(data))]
        case "job.continued" if data.get("guidance"):
            guidance = output.one_line(data["guidance"])
            return [(output.one_line(data["message"]), "dim"), (f"  guidance: {guidance}", "")]
        case _:
            indent, style = _MESSAGES.get(event.type, ("", "dim"))
            return [(indent + output.one_line(data.get("message", event.type)), style)]


def _candidate(data: dict[str, Any]) -> str:
    return f"candidate {data['candidate']}: " if data.get("candidate", 1) > 1 else ""


def _generated(data: dict[str, Any]) -> str:
    size = f"{len(data.get('answer') or ''):,} characters"
    return f"  {_candidate(data)}{size} by {data.get('model')} in {output.span(data.get('seconds') or 0)}"


def _evaluated(data: dict[str, Any], threshold: float, iteration: "Iteration | None") -> list[Line]:
    if data["score"] is None:
        return [_unscored(data)]
    seconds = "as before" if data.get("reused") else f"in {output.span(data.get('seconds') or 0)}"
    verdict = (
        f"  {_candidate(data)}score {say_score(data['score'])} (accepted from {say_score(threshold)} on) {seconds}"
    )
    style = "bold green" if data.get("passed") else "bold yellow"
    if iteration is None:
        return [(verdict, style), *brief_lines(data)]
    refusal = [(_UNGROUNDED, "yellow")] if grounding_output.is_refused(iteration) else []
    return [(verdict + grounding_output.score_text(iteration.grounding), style), *refusal, *brief_lines(data)]


def _unscored(data: dict[str, Any]) -> Line:
    error: dict[str, str] | None = data.get("error")
    if error is None:
        words = output.one_line(data.get("evaluation_reasoning") or "")
        return f"  {_candidate(data)}not evaluated: {words}", "dim"
    words = output.one_line(error.get("detail", ""))
    what = "not evaluated" if OUTPUT_LIMIT in error else "could not be evaluated"
    return f"  {_candidate(data)}{what}: {words}", "red"


def _done_style(data: dict[str, Any]) -> str:
    result: dict[str, Any] | None = data.get("result")
    if result is None:
        return "bold red"
    return "bold green" if result["success"] else "bold yellow"
