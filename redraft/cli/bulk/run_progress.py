"""Shows the progress of a run: a bar on a terminal, elsewhere a line every few seconds."""

import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from redraft.cli import output
from redraft.domain.statistics.estimates import share

if TYPE_CHECKING:
    from redraft.operations.bulk.run_resources import Run

_LINE_EVERY_S = 5.0


class RunView(Protocol):
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, run: "Run") -> None:
        """Show the current state of the run."""
        ...


def make_run_view() -> RunView:
    """The view that fits what stderr is."""
    console = output.stderr()
    if console.is_terminal and not console.is_dumb_terminal:
        return TerminalRunView(console)
    return PlainRunView()


class PlainRunView:
    """A line at the beginning, every few seconds if something has changed, and at the end."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._said = ""
        self._said_at = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, run: "Run") -> None:
        now = time.monotonic()
        left = self._pace.left(run, now)
        is_last = run.status != "running"
        words = words_of(run, None)
        if words != self._said and (is_last or now - self._said_at >= _LINE_EVERY_S):
            output.say(words_of(run, left))
            self._said, self._said_at = words, now


class TerminalRunView:
    """A bar, and beneath it the figures."""

    def __init__(self, console: Console) -> None:
        self._state = _State(Pace())
        self._live = Live(self._state, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, run: "Run") -> None:
        self._state.change(run)
        self._live.refresh()


class _State:
    """The renderable that rich draws several times a second."""

    def __init__(self, pace: "Pace") -> None:
        self._pace = pace
        self._started_at = time.monotonic()
        self._run: Run | None = None
        self._left: float | None = None

    def change(self, run: "Run") -> None:
        self._run, self._left = run, self._pace.left(run, time.monotonic())

    def __rich__(self) -> RenderableType:
        if self._run is None:
            return Text("starting …", style="dim")
        bar = Table.grid(expand=True, padding=(0, 1))
        bar.add_column(ratio=1)
        bar.add_row(
            ProgressBar(total=max(1, self._run.counts.total), completed=done(self._run)),
            Text(output.span(time.monotonic() - self._started_at), style="dim"),
        )
        return Group(bar, Text(words_of(self._run, self._left), style="dim"))


class Pace:
    """Estimates the time left from the rate of ended items since the first query."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def left(self, run: "Run", now: float) -> float | None:
        """Seconds left; None while they cannot be estimated."""
        self._first = self._first or (now, done(run))
        since, before = self._first
        ended = done(run) - before
        if run.status != "running" or not ended:
            return None
        return (now - since) / ended * (run.counts.queued + run.counts.running)


def done(run: "Run") -> int:
    """The number of ended items; canceled ones can still be resumed, so they do not count."""
    return run.counts.succeeded + run.counts.failed + run.counts.invalid


def words_of(run: "Run", left: float | None) -> str:
    """A run's state on one line."""
    counts = run.counts
    parts = [f"{done(run):,} of {counts.total:,} done"]
    if counts.running:
        parts.append(f"{counts.running:,} in flight")
    parts += [f"{number:,} {name}" for name, number in _errors(run) if number]
    parts += [_accepted(run), _cost(run)]
    if left is not None:
        parts.append(f"{output.span(left)} left")
    return " · ".join(part for part in parts if part)


def _errors(run: "Run") -> list[tuple[str, int]]:
    counts = run.counts
    return [("failed", counts.failed), ("invalid", counts.invalid), ("canceled", counts.canceled)]


def _accepted(run: "Run") -> str:
    """The share of accepted answers with its interval. Hard rows take longer, so it is too high in a live run."""
    rate = share(run.counts.accepted, run.counts.succeeded)
    if rate is None:
        return ""
    words = f"accepted {rate.value * 100:.0f} % ({rate.low * 100:.0f} to {rate.high * 100:.0f} %)"
    return f"{words} so far; easy rows finish first" if run.status == "running" else words


def _cost(run: "Run") -> str:
    if run.usage.cost_usd is None:
        return "cost unknown"
    most = f" of ${run.max_cost_usd}" if run.max_cost_usd else ""
    return f"${run.usage.cost_usd}{most}"
