"""The job list of the pages, and its actions on many jobs: cancel, delete, export."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic_core import from_json

from redraft.domain.jobs.states import LIVE, TERMINAL
from redraft.errors import Conflict, NotFound
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.jobs.resources import iteration_now
from redraft.operations.paging import read_cursor, write_cursor
from redraft.operations.resource_base import cost_usd, json_line, latency_ms
from redraft.operations.services import Services
from redraft.storage.engine import queries as stored
from redraft.storage.engine.tables import jobs as jobs_table
from redraft.storage.jobs import job_lists
from redraft.storage.jobs.job_lists import JobRow
from redraft.storage.jobs.jobs import JobFilter

COUNT_MAX = 100_000
BATCH = 500
BATCH_S = 5.0

_LINE_CHARS = 300
_EXPORTED_AT_ONCE = 50
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

Deed = Literal["cancel", "delete"]


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job of the list; `scores` holds the best score of each iteration, in order."""

    id: str
    kind: str
    status: str
    stop_reason: str | None
    created_at: datetime
    task: str
    model: str | None
    evaluator_model: str
    run_id: str | None
    metadata: dict[str, str]
    iteration: int
    iter_max: int
    best_score: float | None
    threshold: float | None
    scores: list[tuple[int, float | None]]
    error_code: str | None
    cost_usd: str | None
    duration_ms: int | None
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class JobLines:
    """A page of the list.

    Attributes:
        next_cursor: the cursor of the next page; None on the last page.
        more: the number of matching jobs at the beginning of the list that are not shown, at most a page.
    """

    lines: list[JobLine]
    next_cursor: str | None
    more: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action on a batch: how many jobs were changed and not, and the cursor of the next batch."""

    done: int
    kept: int
    cursor: str | None


def list_lines(services: Services, criteria: JobFilter, cursor: str | None = None) -> JobLines:
    """One page of the list, by two queries. Raises Invalid if the cursor is not one of ours."""
    criteria = replace(criteria, after=read_cursor(cursor))
    with services.database.read() as connection:
        rows = job_lists.page(connection, criteria)
        page = rows[: criteria.limit]
        scores = job_lists.scores(connection, [row.id for row in page])
    return JobLines(_lines(page, scores), write_cursor(page, more=len(rows) > len(page)))


def refresh(services: Services, criteria: JobFilter, shown: Sequence[str], cursor: str | None = None) -> JobLines:
    """The current state of the shown jobs, and the number of newer jobs on the first page, by three queries.

    Raises Invalid if the cursor is not one of ours.
    """
    criteria = replace(criteria, after=read_cursor(cursor))
    with services.database.read() as connection:
        page = job_lists.by_ids(connection, shown, newest_first=criteria.newest_first)
        scores = job_lists.scores(connection, [row.id for row in page])
        found = job_lists.places(connection, criteria, more=1)
    more = 0 if cursor else len({job_id for _, job_id in found[: criteria.limit]} - set(shown))
    return JobLines(_lines(page, scores), write_cursor(page, more=len(found) > criteria.limit), more)


def has_any(services: Services) -> bool:
    """Whether the database holds any job."""
    with services.database.read() as connection:
        return stored.latest_id(connection, jobs_table) is not None


def _lines(rows: Sequence[JobRow], scores: Sequence[tuple[str, int, float | None]]) -> list[JobLine]:
    of_job: dict[str, list[tuple[int, float | None]]] = {row.id: [] for row in rows}
    for job_id, number, score in scores:
        of_job[job_id].append((number, score))
    return [_line(row, of_job[row.id]) for row in rows]


def _line(row: JobRow, scores: list[tuple[int, float | None]]) -> JobLine:
    names = ("id", "kind", "status", "stop_reason", "created_at", "model", "evaluator_model", "run_id", "metadata")
    threshold = _NUMBER.match(row.threshold)
    return JobLine(
        **{name: getattr(row, name) for name in names},
        task=_task(row.beginning),
        iteration=iteration_now(row),
        iter_max=row.iteration_limit,
        best_score=row.best_score,
        threshold=float(threshold[0]) if threshold else None,
        scores=scores,
        error_code=(row.error or {}).get("code"),
        cost_usd=None if row.unpriced_calls else cost_usd(row.cost_nano_usd),
        duration_ms=latency_ms(row.created_at, row.finished_at),
        is_accepted=bool(row.is_accepted),
    )


def _task(beginning: str) -> str:
    """The first non-empty line of `instruct`, from the beginning of a stored request."""
    request: Any = from_json(beginning, allow_partial="trailing-strings")
    lines = str(request.get("instruct", "")).strip().splitlines()
    return lines[0][:_LINE_CHARS] if lines else ""


def freeze(services: Services, criteria: JobFilter) -> JobFilter:
    """The same filter without jobs that are created later, so that an action leaves those alone."""
    with services.database.read() as connection:
        newest = job_lists.places(connection, replace(criteria, newest_first=True, after=None, limit=1))
    return replace(criteria, created_before=newest[0][0] + timedelta(milliseconds=1)) if newest else criteria


def count(services: Services, criteria: JobFilter, *, most: int = COUNT_MAX) -> int:
    """The number of matching jobs, counted up to `most`."""
    with services.database.read() as connection:
        return job_lists.count(connection, criteria, most=most)


def open_to(deed: Deed, criteria: JobFilter) -> JobFilter | None:
    """The filter for the jobs in a status that allows the action; None if no status is left."""
    possible = {status.value for status in (LIVE if deed == "cancel" else TERMINAL)}
    statuses = possible & set(criteria.statuses) if criteria.statuses else possible
    return replace(criteria, statuses=tuple(sorted(statuses))) if statuses else None


def do_to_matching(
    services: Services, deed: Deed, criteria: JobFilter, cursor: str | None = None, *, batch: int = BATCH
) -> Done:
    """Cancel or delete one batch of the matching jobs, newest first. A batch ends after `BATCH_S` seconds.

    Raises Invalid if the cursor is not one of ours.
    """
    wanted = open_to(deed, replace(criteria, newest_first=True, after=read_cursor(cursor), limit=batch))
    if wanted is None:
        return Done(0, 0, None)
    with services.database.read() as connection:
        found = job_lists.places(connection, wanted)
    done, seen = _do_to(services, deed, [job_id for _, job_id in found])
    is_over = seen == len(found) < batch
    last = _Place(*found[seen - 1]) if seen else None
    return Done(done, seen - done, None if is_over or last is None else write_cursor([last], more=True))


def do_to(services: Services, deed: Deed, job_ids: Sequence[str]) -> Done:
    """Cancel or delete these jobs, as far as that takes at most a minute."""
    done, seen = _do_to(services, deed, job_ids, for_s=60)
    return Done(done, seen - done, None)


@dataclass(frozen=True, slots=True)
class _Place:
    created_at: datetime
    id: str


def _do_to(services: Services, deed: Deed, job_ids: Sequence[str], for_s: float = BATCH_S) -> tuple[int, int]:
    """Return the number of changed jobs, and the number of jobs that were tried before the time was over."""
    act: Callable[[Services, str], bool] = _cancel if deed == "cancel" else _delete
    end = time.monotonic() + for_s
    done = seen = 0
    for job_id in job_ids:
        done += act(services, job_id)
        seen += 1
        if time.monotonic() > end:
            break
    return done, seen


def _cancel(services: Services, job_id: str) -> bool:
    try:
        return lifecycle.cancel(services, job_id)[1]
    except NotFound:
        return False


def _delete(services: Services, job_id: str) -> bool:
    try:
        lifecycle.delete(services, job_id)
    except (Conflict, NotFound):
        return False
    return True


def export_matching(services: Services, criteria: JobFilter) -> Iterator[str]:
    """All matching jobs as the API shows them, one line of JSON each."""
    cursor: str | None = None
    criteria = replace(criteria, limit=_EXPORTED_AT_ONCE)
    while True:
        page, cursor = queries.list_jobs(services, criteria, cursor)
        yield from (_json_line(job) for job in page)
        if cursor is None:
            return


def export(services: Services, job_ids: Sequence[str]) -> Iterator[str]:
    """These jobs, one line of JSON each; deleted jobs are left out."""
    for job_id in job_ids:
        try:
            yield _json_line(queries.get_job(services, job_id))
        except NotFound:
            continue


def _json_line(job: queries.Job) -> str:
    return json_line(job, exclude={"iterations"})
