"""Prepares the progress of a job for its pages: its past, current and coming iterations, and its continuations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from redraft.domain.jobs.states import JobStatus, Step
from redraft.domain.text.cleaning import fold
from redraft.operations.jobs.diffs import score_of
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Event, Job

_DONE_MAX, _COMING_MAX = 8, 3
_STEPS = {Step.GENERATE: "generating", Step.EVALUATE: "evaluating", Step.AUDIT: "auditing"}


@dataclass(frozen=True, slots=True)
class Stage:
    """One iteration of an unfinished job. `iteration` is its best candidate; `words` is its current step, if any."""

    number: int
    iteration: Iteration | None
    words: str | None


@dataclass(frozen=True, slots=True)
class Strip:
    """The stages that the strip shows, and how many it leaves out before and after them."""

    stages: list[Stage]
    earlier: int
    later: int


def by_number(iterations: Sequence[Iteration]) -> list[tuple[int, list[Iteration]]]:
    return [(number, list(group)) for number, group in groupby(iterations, key=lambda each: each.number)]


def same_answers(candidates: Sequence[Iteration]) -> list[list[Iteration]]:
    """Group the candidates of an iteration by equal answers. White space is ignored, as when the loop stops."""
    found: dict[str, list[Iteration]] = {}
    for each in candidates:
        found.setdefault(fold(each.answer), []).append(each)
    return list(found.values())


def best_attempts(iterations: Sequence[Iteration]) -> list[Iteration]:
    """Return the candidate with the highest score of each iteration."""
    return [max(group, key=score_of) for _, group in by_number(iterations)]


def strip_of(job: Job, best: Sequence[Iteration]) -> Strip | None:
    """Return the strip of an unfinished job from the best candidate of each iteration. None if the job has ended."""
    progress = job.progress
    if progress.step is None:
        return None
    is_queued = job.status == JobStatus.QUEUED
    current = progress.iteration + int(is_queued and progress.step == Step.GENERATE)
    words = "waiting for a worker" if is_queued else _STEPS[Step(progress.step)]
    done = [Stage(each.number, each, None) for each in best if each.number != current]
    now = Stage(current, next((each for each in best if each.number == current), None), words)
    last = max(stage.number for stage in (*done, now))
    coming = [Stage(number, None, None) for number in range(last + 1, progress.iter_max + 1)]
    stages = sorted([*done[-_DONE_MAX:], now], key=lambda stage: stage.number)
    return Strip([*stages, *coming[:_COMING_MAX]], len(done[:-_DONE_MAX]), len(coming[_COMING_MAX:]))


def continuations_after(iterations: Sequence[Iteration], continued: Sequence[Event]) -> dict[int, list[Event]]:
    """Return the continuations by the number of the last iteration before them, or 0."""
    found: dict[int, list[Event]] = {}
    for event in continued:
        at = datetime.fromisoformat(event.data["at"])
        before = [each.number for each in iterations if each.created_at <= at]
        found.setdefault(max(before, default=0), []).append(event)
    return found
