"""Prepares the trace of a job: a tree of its iterations, calls and waits, on a time axis that is true to scale."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from http import HTTPStatus
from itertools import groupby, pairwise

from markupsafe import Markup, escape

from api.pages.parts.filters import duration
from redraft.domain.jobs.states import Step
from redraft.domain.numbers.time_intervals import Interval, covered, merged
from redraft.operations.calls.model_calls import SPECULATIVE_SEQ, may_have_cost
from redraft.operations.jobs.iterations import Evaluation, Iteration
from redraft.operations.jobs.resources import Job, PlacedCall
from redraft.operations.jobs.views import TraceView
from redraft.reports.svg import tag, ticks_to

# A shorter time in the queue is not shown, because every job waits a little for a worker
_QUEUED_MIN_S = 0.1
_GAP_MIN_S = 1.0
_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (0.001, "ms"))
# The last label of the axis is left out if its tick is closer to the end, because the label would be cut off
_LABELED_MAX = 96.0
# The hatches of bars by class, because bars must also differ on paper without colours
_HATCHES = {
    "evaluate": "M-1 1l2-2M0 6l6-6M5 7l2-2",
    "audit": "M-1 5l2 2M0 0l6 6M5-1l2 2",
    "repair": "M3 0v6",
    "verify_claims": "M0 3h6",
    "bad": "M3 0v6M0 3h6",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the trace.

    Attributes:
        kind: `iteration`, `iterations`, `wait`, `pause`, `audit`, or the type of a call.
        words: the name of the activity.
        interval: its start and end, in seconds since the epoch. The end of an activity in progress is now.
        is_open: whether the activity is in progress.
        call: the call of the row. For a wait, the failed call before it.
        iteration: the best candidate, for the row of an iteration.
        note: a short addition to the words.
    """

    id: str
    kind: str
    words: str
    interval: Interval
    is_open: bool = False
    call: PlacedCall | None = None
    iteration: Iteration | None = None
    score: float | None = None
    note: str = ""
    children: tuple["Row", ...] = ()
    bar: Markup | str = ""

    @property
    def started_at(self) -> datetime:
        return datetime.fromtimestamp(self.interval[0], UTC)

    @property
    def duration_ms(self) -> float:
        return (self.interval[1] - self.interval[0]) * 1000

    @property
    def is_idle(self) -> bool:
        """Whether the row is a wait or a pause, without a model call."""
        return self.kind in {"wait", "pause"}

    @property
    def cost_usd(self) -> str | None:
        """The cost of its calls. None if a cost is unknown."""
        called = [row.call for row in (self, *self.children) if row.call and not row.is_idle]
        costs = [call.cost_usd for call in called if call.status != "failed" or may_have_cost(call.http_status)]
        return None if None in costs else str(sum(map(Decimal, filter(None, costs)), Decimal(0)))

    @property
    def color(self) -> str:
        """The CSS class of its bar."""
        return "bad" if self.call and not self.is_idle and self.call.status == "failed" else self.kind


@dataclass(frozen=True, slots=True)
class Trace:
    """The tree, its axis and grid as SVG, and for each kind of row its class, its words and its total time."""

    rows: tuple[Row, ...]
    axis: Markup
    grid: Markup
    legend: tuple[tuple[str, str, str], ...]
    called: str

    def find(self, row_id: str) -> Row | None:
        return next((row for row in _all_of(self.rows) if row.id == row_id), None)


class Axis:
    """Maps moments to places between 0 and 100. Pauses have no length."""

    def __init__(self, start: float, end: float, pauses: Sequence[Interval]) -> None:
        self._start, self._pauses = start, pauses
        self.length_s = max(0.001, end - start - covered(pauses))

    def place(self, moment: float) -> float:
        paused = sum(max(0.0, min(moment, end) - start) for start, end in self._pauses)
        return min(100.0, max(0.0, (moment - self._start - paused) / self.length_s * 100))

    def bar(self, row: Row) -> Markup:
        # Written without `tag`, which would take a quarter of the time of a page with 500 calls
        left, right = (self.place(moment) for moment in row.interval)
        place = f'x="{_percent(left)}" width="{_percent(right - left)}" y="25%" height="50%"'
        color = escape(row.color)
        shapes = f'<rect {place} class="bar {color}"/>'
        if row.color in _HATCHES:
            shapes += f'<rect {place} class="hatch" fill="url(#hatch-{color})"/>'
        return Markup(f'<svg class="span" aria-hidden="true"><use href="#trace-grid"/>{shapes}</svg>')  # noqa: S704

    def ticks(self) -> list[tuple[float, str]]:
        """Return the place and the label of each tick."""
        size, name = next((unit for unit in _UNITS if self.length_s >= 2 * unit[0]), _UNITS[-1])
        moments = [tick for tick in ticks_to(self.length_s / size) if tick * size <= self.length_s]
        return [(tick * size / self.length_s * 100, f"{tick:g} {name}") for tick in moments]

    def draw(self) -> Markup:
        labels = [
            tag("text", words, x=_percent(at), y="75%", text_anchor="middle" if at else "start", class_="label")
            for at, words in self.ticks()
            if at <= _LABELED_MAX
        ]
        return tag("svg", *labels, class_="span", aria_hidden="true")

    def grid(self) -> Markup:
        """Return the parts that the bars of all rows share: the lines of the axis, and the hatches."""
        ticks = [_line(at, "grid") for at, _ in self.ticks()]
        pauses = [_line(self.place(start), "break") for start, _ in self._pauses]
        shared = tag("defs", tag("g", *ticks, *pauses, id="trace-grid"), *map(_hatch, _HATCHES))
        return tag("svg", shared, class_="unseen", aria_hidden="true")


def trace_of(view: TraceView, now: datetime) -> Trace:
    """Return the trace of a job that has calls."""
    job, moment = view.job, now.timestamp()
    pauses = list(_pauses(view))
    # A continuation repeats the call that ended the job, without a wait
    waits = [wait for wait in _waits(view.calls) if not any(_holds(wait, pause) for pause in pauses)]
    waits += _open_wait(view, moment)
    waits += _gaps([*(call.interval for call in view.calls), *(row.interval for row in (*waits, *pauses))])
    rows = list(_groups(view, waits))
    taken = {child.id for row in rows for child in row.children}
    rows += [*pauses, *(wait for wait in waits if wait.id not in taken)]
    start = job.created_at.timestamp()
    end = max(job.finished_at.timestamp() if job.finished_at else moment, *(row.interval[1] for row in rows))
    queued = _queued(job, moment)
    idle = [row.interval for row in pauses]
    # A job that waited for hours, and then ran for seconds, would have bars too small to see
    if queued and queued.duration_ms / 500 > end - start - covered(idle):
        queued = replace(queued, kind="pause", note="not to scale")
        idle.append(queued.interval)
    axis = Axis(start, end, sorted(idle))
    if queued:
        rows.append(queued)
    drawn = tuple(_drawn(row, axis) for row in sorted(rows, key=lambda row: row.interval))
    called = duration(covered(call.interval for call in view.calls) * 1000)
    return Trace(drawn, axis.draw(), axis.grid(), tuple(_legend(drawn)), called)


def _holds(row: Row, other: Row) -> bool:
    return row.interval[0] <= other.interval[0] and other.interval[1] <= row.interval[1]


def _groups(view: TraceView, waits: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each iteration, and one for the audit."""
    calls = sorted(view.calls, key=lambda call: (_place(call), call.interval, call.id))
    scores = _scores(view.iterations, calls)
    gaps = [wait for wait in waits if wait.call is None]
    for (is_audit, number), group in groupby(calls, key=_place):
        found = list(group)
        rows = [_call_row(call, scores.get(call.id)) for call in found]
        ids = {call.id for call in found}
        rows += [wait for wait in waits if wait.call and wait.call.id in ids]
        start, end = min(row.interval[0] for row in rows), max(row.interval[1] for row in rows)
        # Iterations may overlap. A gap within several iterations is shown in the first of them only
        own = [gap for gap in gaps if start < gap.interval[0] and gap.interval[1] < end]
        gaps = [gap for gap in gaps if gap not in own]
        rows += own
        best = max((each for each in view.iterations if each.number == number), key=_score_of, default=None)
        yield Row(
            id="audit" if is_audit else f"iteration-{number}",
            kind="iterations" if is_audit else "iteration",
            words="Audit" if is_audit else f"Iteration {number}",
            interval=(start, end),
            is_open=any(row.is_open for row in rows),
            iteration=best,
            score=best.evaluation.score if best and best.evaluation else None,
            children=tuple(sorted(rows, key=lambda row: row.interval)),
        )


def _place(call: PlacedCall) -> tuple[bool, int]:
    """Return the group of a call: the audit, which covers several iterations, or its iteration."""
    is_audit = call.step == Step.AUDIT
    return is_audit, 0 if is_audit else call.iteration


def _score_of(iteration: Iteration) -> float:
    score = iteration.evaluation.score if iteration.evaluation else None
    return -1.0 if score is None else score


def _call_row(call: PlacedCall, score: float | None) -> Row:
    is_early = call.step == Step.GENERATE and call.seq >= SPECULATIVE_SEQ
    notes = [
        f"candidate {call.candidate}" if call.candidate > 1 else "",
        f"attempt {call.attempt}" if call.attempt > 1 else "",
        "cached" if call.cached else "",
        _cause(call) if call.status == "failed" else "",
        f"before verdict {call.iteration - 1}" if is_early else "",
    ]
    return Row(
        id=call.id,
        kind="audit" if call.step == Step.AUDIT and call.type != "repair" else call.type,
        words=call.type.replace("_", " "),
        interval=call.interval,
        is_open=call.status == "started",
        call=call,
        score=score,
        note=", ".join(filter(None, notes)),
    )


def _waits(calls: Iterable[PlacedCall]) -> Iterator[Row]:
    """Yield a row for each wait before a call was repeated."""
    by_slot: dict[tuple[str, int, int, int], list[PlacedCall]] = {}
    for call in calls:
        by_slot.setdefault(call.slot, []).append(call)
    for attempts in by_slot.values():
        for failed, repeated in pairwise(attempts):
            start = failed.interval[1]
            interval = start, max(start, repeated.interval[0])
            words = f"waited {duration((interval[1] - start) * 1000)} after {_cause(failed)}"
            yield Row(f"wait-{repeated.id}", "wait", words, interval, call=failed)


def _open_wait(view: TraceView, now: float) -> Iterator[Row]:
    """Yield the current wait, if the job waits before it repeats a call."""
    last = max(view.calls, key=lambda call: call.interval[1])
    is_waiting = view.job.progress.step is not None and last.status == "failed"
    if is_waiting and all(call.status != "started" for call in view.calls):
        yield Row("waiting", "wait", f"waiting after {_cause(last)}", (last.interval[1], now), is_open=True, call=last)


def _gaps(intervals: Iterable[Interval]) -> Iterator[Row]:
    """Yield a row for each time between these intervals that is long enough to be noticed."""
    for (_, start), (end, _) in pairwise(merged(intervals)):
        if end - start >= _GAP_MIN_S:
            words = f"waited {duration((end - start) * 1000)} for a worker or a limit"
            yield Row(f"gap-{start:.3f}", "wait", words, (start, end))


def _cause(failed: PlacedCall) -> str:
    code: str = (failed.error or {}).get("code") or failed.finish_reason or "a failed attempt"
    # A reply with the status 200 can fail, too, such as a reply that was cut off
    is_refused = failed.http_status is not None and failed.http_status >= HTTPStatus.BAD_REQUEST
    return str(failed.http_status) if is_refused else code.replace("_", " ")


def _pauses(view: TraceView) -> Iterator[Row]:
    for (start, end), event in zip(view.pauses, view.continued, strict=False):
        interval = start.timestamp(), end.timestamp()
        words = f"continued after {duration((interval[1] - interval[0]) * 1000)}"
        yield Row(f"pause-{event.seq}", "pause", words, interval, note="not to scale")


def _queued(job: Job, now: float) -> Row | None:
    start = job.created_at.timestamp()
    end = job.started_at.timestamp() if job.started_at else now
    if end - start < _QUEUED_MIN_S:
        return None
    words = f"waited {duration((end - start) * 1000)} for a worker" if job.started_at else "waiting for a worker"
    return Row("queue", "wait", words, (start, end), is_open=job.started_at is None)


def _scores(iterations: Iterable[Iteration], calls: Sequence[PlacedCall]) -> dict[str, float | None]:
    """Return the score that came from each call of an evaluator, by the id of the call."""
    found: dict[str, float | None] = {}
    for each in iterations:
        audits = [verdict for verdict in each.further_evaluations if verdict.role == "audit"]
        for step, verdict in [(Step.EVALUATE, each.evaluation), *((Step.AUDIT, audit) for audit in audits[-1:])]:
            place = step, each.number, each.candidate
            found |= _scores_of(verdict, [call for call in calls if call.slot[:3] == place])
    return found


def _scores_of(verdict: Evaluation | None, calls: Sequence[PlacedCall]) -> Iterator[tuple[str, float | None]]:
    if verdict is None:
        return
    scores = [each.score for each in verdict.judges] or [verdict.score]
    # The second call of a question repairs the reply to the first one
    questions = [list(group) for _, group in groupby(sorted(calls, key=_question), key=_question)]
    # A verdict from several questions has no score for each of them
    if len(questions) == len(scores):
        for question, score in zip(questions, scores, strict=True):
            answered = [call for call in question if call.status == "succeeded"]
            if answered:
                yield answered[-1].id, score


def _question(call: PlacedCall) -> int:
    return call.seq // 2


def _drawn(row: Row, axis: Axis) -> Row:
    return replace(row, bar=axis.bar(row), children=tuple(_drawn(child, axis) for child in row.children))


def _all_of(rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        yield row
        yield from row.children


def _legend(rows: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    spans: dict[str, list[Interval]] = {}
    for row in _all_of(rows):
        if not row.children and row.kind != "pause":
            spans.setdefault(row.color, []).append(row.interval)
    for class_, intervals in spans.items():
        words = {"bad": "failed", "wait": "waiting"}.get(class_, class_.replace("_", " "))
        yield class_, words, duration(covered(intervals) * 1000)


def _hatch(color: str) -> Markup:
    size = {"width": "6", "height": "6", "patternUnits": "userSpaceOnUse"}
    return tag("pattern", tag("path", d=_HATCHES[color]), id=f"hatch-{color}", **size)


def _line(place: float, class_: str) -> Markup:
    return tag("line", x1=_percent(place), x2=_percent(place), y1="0%", y2="100%", class_=class_)


def _percent(place: float) -> str:
    return f"{place:.2f}%"
