"""The list of jobs as people look at it, and what they do to many jobs at once."""

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
from redraft.operations.paging import read_cursor, write_cursor
from redraft.operations.resource_base import cost_usd, latency_ms
from redraft.operations.services import Services
from redraft.storage.engine import references
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
_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}

Deed = Literal["cancel", "delete"]


@dataclass(frozen=True, slots=True)
class JobLine:
    """One job of the list; `scores` are the best ones of its iterations, in order."""

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
        more: how many jobs match that are not shown, at the beginning of the list; a page's length for more.
        next_cursor: of the next page, None on the last.
    """

    lines: list[JobLine]
    next_cursor: str | None
    more: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to a batch: to how many jobs, to how many it was not possible, and where the next one begins."""

    done: int
    kept: int
    cursor: str | None


def list_lines(services: Services, criteria: JobFilter, cursor: str | None = None) -> JobLines:
    """One page: two queries, whatever is on it.

    Raises:
        Invalid: the cursor is not one of ours.
    """
    criteria = replace(criteria, after=read_cursor(cursor))
    with services.database.read() as connection:
        rows = job_lists.page(connection, criteria)
        page = rows[: criteria.limit]
        scores = job_lists.scores(connection, [row.id for row in page])
    return JobLines(_lines(page, scores), write_cursor(page, more=len(rows) > len(page)))


def refresh(services: Services, criteria: JobFilter, shown: Sequence[str], cursor: str | None = None) -> JobLines:
    """The same jobs as they are now, and how many others the first page would show: three queries.

    Raises:
        Invalid: the cursor is not one of ours.
    """
    criteria = replace(criteria, after=read_cursor(cursor))
    with services.database.read() as connection:
        page = job_lists.by_ids(connection, shown, newest_first=criteria.newest_first)
        scores = job_lists.scores(connection, [row.id for row in page])
        found = job_lists.places(connection, criteria, more=1)
    more = 0 if cursor else len({job_id for _, job_id in found[: criteria.limit]} - set(shown))
    return JobLines(_lines(page, scores), write_cursor(page, more=len(found) > criteria.limit), more)


def has_any(services: Services) -> bool:
    """Whether there is any job at all."""
    with services.database.read() as connection:
        return references.latest_id(connection, jobs_table) is not None


def _lines(rows: Sequence[JobRow], scores: Sequence[tuple[str, int, float | None]]) -> list[JobLine]:
    of_job: dict[str, list[tuple[int, float | None]]] = {row.id: [] for row in rows}
    for job_id, number, score in scores:
        of_job[job_id].append((number, score))
    return [_line(row, of_job[row.id]) for row in rows]


def _line(row: JobRow, scores: list[tuple[int, float | None]]) -> JobLine:
    is_generating = row.status == "running" and row.step == "generate"
    threshold = _NUMBER.match(row.threshold)
    return JobLine(
        id=row.id,
        kind=row.kind,
        status=row.status,
        stop_reason=row.stop_reason,
        created_at=row.created_at,
        task=_task(row.beginning),
        model=row.model,
        evaluator_model=row.evaluator_model,
        run_id=row.run_id,
        metadata=row.metadata,
        iteration=row.iteration + 1 if is_generating else row.iteration,
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
    """The first line of `instruct` that says anything, from the beginning of a stored request."""
    request: Any = from_json(beginning, allow_partial="trailing-strings")
    lines = str(request.get("instruct", "")).strip().splitlines()
    return lines[0][:_LINE_CHARS] if lines else ""


def freeze(services: Services, criteria: JobFilter) -> JobFilter:
    """The filter for the jobs that are there now: those that come later are not meant."""
    with services.database.read() as connection:
        newest = job_lists.places(connection, replace(criteria, newest_first=True, after=None, limit=1))
    return replace(criteria, created_before=newest[0][0] + timedelta(milliseconds=1)) if newest else criteria


def count(services: Services, criteria: JobFilter, *, most: int = COUNT_MAX) -> int:
    """How many jobs match; `most` for any number above."""
    with services.database.read() as connection:
        return job_lists.count(connection, criteria, most=most)


def open_to(deed: Deed, criteria: JobFilter) -> JobFilter | None:
    """The filter for those to whom it can be done at all; None when that is nobody."""
    possible = {status.value for status in (LIVE if deed == "cancel" else TERMINAL)}
    statuses = possible & set(criteria.statuses) if criteria.statuses else possible
    return replace(criteria, statuses=tuple(sorted(statuses))) if statuses else None


def do_to_matching(
    services: Services, deed: Deed, criteria: JobFilter, cursor: str | None = None, *, batch: int = BATCH
) -> Done:
    """Cancel or delete a batch of the jobs that match, newest first: few enough that nobody waits long.

    Raises:
        Invalid: the cursor is not one of ours.
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
    """Cancel or delete some jobs."""
    done, seen = _do_to(services, deed, job_ids, for_s=60)
    return Done(done, seen - done, None)


@dataclass(frozen=True, slots=True)
class _Place:
    created_at: datetime
    id: str


def _do_to(services: Services, deed: Deed, job_ids: Sequence[str], for_s: float = BATCH_S) -> tuple[int, int]:
    """Returns to how many it was done, and how many were looked at before the time was over."""
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
    """All jobs that match, as the API shows them: one line of JSON each."""
    cursor: str | None = None
    criteria = replace(criteria, limit=_EXPORTED_AT_ONCE)
    while True:
        page, cursor = queries.list_jobs(services, criteria, cursor)
        yield from (_json_line(job) for job in page)
        if cursor is None:
            return


def export(services: Services, job_ids: Sequence[str]) -> Iterator[str]:
    """Some jobs, one line of JSON each; those that are gone are left out."""
    for job_id in job_ids:
        try:
            yield _json_line(queries.get_job(services, job_id))
        except NotFound:
            continue


def _json_line(job: queries.Job) -> str:
    return job.model_dump_json(exclude={"iterations"}).translate(_LINE_ENDS) + "\n"
