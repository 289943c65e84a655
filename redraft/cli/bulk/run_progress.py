"""Shows the progress of a run: a bar on a terminal, or else a line every few seconds."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TimeElapsedColumn
from rich.text import Text

from redraft.cli import output
from redraft.domain.bulk.phrases import count, percent
from redraft.domain.statistics.estimates import share

if TYPE_CHECKING:
    from redraft.operations.bulk.run_resources import Run, RunRound

_LINE_EVERY_S = 5.0


@contextmanager
def run_view() -> "Generator[Callable[[Run], None]]":
    """Yield a function that shows the state of a run on stderr."""
    console = output.stderr()
    if not console.is_interactive:
        yield _line_view()
        return
    pace = Pace()
    bar = Progress(BarColumn(bar_width=None), TimeElapsedColumn(), expand=True)
    task = bar.add_task("", total=None)
    figures = Text("starting …", style="dim")
    with Live(Group(bar, figures), console=console, refresh_per_second=4, transient=True) as live:

        def show(run: "Run") -> None:
            bar.update(task, total=max(1, run.counts.total), completed=done(run))
            figures.plain = words_of(run, pace.left(run, time.monotonic()))
            live.refresh()

        yield show


def _line_view() -> "Callable[[Run], None]":
    """Return a function that prints a line at the start, every few seconds after a change, and at the end."""
    pace = Pace()
    said, said_at = "", float("-inf")

    def show(run: "Run") -> None:
        nonlocal said, said_at
        now = time.monotonic()
        left = pace.left(run, now)
        # The remaining time is not compared, because it differs at every query
        words = words_of(run, None)
        if words != said and (run.status != "running" or now - said_at >= _LINE_EVERY_S):
            output.say(words_of(run, left))
            said, said_at = words, now

    return show


class Pace:
    """Estimates the remaining time from the rate at which items have ended since the first query."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def left(self, run: "Run", now: float) -> float | None:
        """Return the remaining seconds, or None if they cannot be estimated."""
        self._first = self._first or (now, done(run))
        since, before = self._first
        ended = done(run) - before
        if run.status != "running" or not ended:
            return None
        return (now - since) / ended * (run.counts.queued + run.counts.running)


def done(run: "Run") -> int:
    """Return the number of items that have ended. Canceled items do not count, because they can be resumed."""
    return run.counts.succeeded + run.counts.failed + run.counts.invalid


def words_of(run: "Run", left: float | None) -> str:
    """Return the state of a run on one line."""
    counts = run.counts
    parts = [f"{done(run):,} of {counts.total:,} done"]
    if counts.running:
        parts.append(f"{counts.running:,} in flight")
    if run.rounds and run.status == "running":
        parts.append(round_words(run.rounds[-1]))
    ended = {"failed": counts.failed, "invalid": counts.invalid, "canceled": counts.canceled}
    parts += [f"{number:,} {name}" for name, number in ended.items() if number]
    most = f" of ${run.max_cost_usd}" if run.max_cost_usd else ""
    parts += [_accepted(run), "cost unknown" if run.usage.cost_usd is None else f"${run.usage.cost_usd}{most}"]
    if left is not None:
        parts.append(f"{output.span(left)} left")
    return " · ".join(part for part in parts if part)


def round_words(current: "RunRound") -> str:
    """Return the state of a round of batches: how much is done, its age, and its latest end."""
    ids = [batch.provider_batch_id for batch in current.batches if batch.provider_batch_id]
    age = output.span((datetime.now(UTC) - current.started_at).total_seconds())
    parts = [f"round {current.number}: {current.done:,} of {count(current.total, 'call')}, {current.failed:,} failed"]
    parts.append(f"sent as {', '.join(ids)}" if ids else "to be sent")
    if current.ended_at is None:
        parts.append(f"{age} old")
        if current.expires_at:
            parts.append(f"ends at {current.expires_at:%Y-%m-%d %H:%M} UTC at the latest")
    return " · ".join(parts)


def _accepted(run: "Run") -> str:
    """Return the share of accepted answers with its confidence interval.

    In a live run the share is too high, because hard rows need more iterations and end later.
    """
    rate = share(run.counts.accepted, run.counts.succeeded)
    if rate is None:
        return ""
    words = f"accepted {percent(rate.value)} ({rate.low * 100:.0f} to {rate.high * 100:.0f} %)"
    return f"{words} so far; easy rows finish first" if run.status == "running" else words
