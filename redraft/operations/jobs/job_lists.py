"""Builds the job list of the pages, and cancels, deletes or exports many jobs."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic_core import from_json

from redraft.domain.evaluation.scores import meets
from redraft.domain.jobs.states import LIVE, TERMINAL, Outcome, outcome_of
from redraft.errors import Conflict, Invalid, NotFound
from redraft.operations.cursors import next_cursor, read_cursor, write_cursor
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.jobs.resources import iteration_now
from redraft.operations.resource_base import Resource, cost_usd, json_line, latency_ms
from redraft.operations.services import Services
from redraft.storage.jobs import job_lists
from redraft.storage.jobs.criterion_verdicts import CriterionCount, count_judged, count_verdicts
from redraft.storage.jobs.job_filters import JobFilter, positions
from redraft.storage.jobs.job_lists import JobRow

COUNT_MAX = 100_000
RATED_MAX = 1000
"""The maximum number of jobs whose verdicts are counted by criterion. Counting is slow: it parses stored JSON."""
BATCH = 500
# A proxy aborts a request that takes too long, so a request handles one batch, and the page requests the next one
BATCH_S = 5.0
_SHOWN_S = 60.0

_LINE_CHARS = 300
# A job may hold megabytes of texts
_EXPORTED_AT_ONCE = 50
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

Action = Literal["cancel", "delete"]


class JobLine(Resource):
    """One job of the list. `scores` holds the number and the best score of each iteration, in order."""

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
    scores: tuple[tuple[int, float | None], ...]
    error_code: str | None
    cost_usd: str | None
    duration_ms: int | None
    is_accepted: bool
    has_only_checks: bool

    @property
    def outcome(self) -> Outcome:
        return outcome_of(self.status, is_accepted=self.is_accepted, is_evaluated=self.best_score is not None)

    @property
    def evaluator(self) -> str:
        return "checks only" if self.has_only_checks else self.evaluator_model

    @property
    def lacks_requirement(self) -> bool:
        """Whether the answer was not accepted although its score reaches the threshold."""
        if self.outcome != Outcome.NOT_ACCEPTED or self.best_score is None or self.threshold is None:
            return False
        return meets(self.best_score, self.threshold)


@dataclass(frozen=True, slots=True)
class JobLines:
    """A page of the list.

    Attributes:
        more: the number of newer matching jobs that are not shown, up to the size of a page.
        searched: the number of jobs that were searched, if the next page searches further jobs; otherwise None.
    """

    lines: list[JobLine]
    next_cursor: str | None
    more: int = 0
    searched: int | None = None


@dataclass(frozen=True, slots=True)
class CriteriaRates:
    """The counts of each criterion. The criterion with the largest share of answers that do not meet it comes first.

    Attributes:
        searched: the number of jobs that were read, the newest ones of the list.
        judged: the number of these jobs whose answer has a verdict on a criterion.
        is_whole: whether these are all jobs of the list.
    """

    counts: Sequence[CriterionCount]
    searched: int
    judged: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action on a batch: counts of changed and unchanged jobs, and the cursor of the next batch."""

    done: int
    kept: int
    cursor: str | None


def list_lines(services: Services, criteria: JobFilter, cursor: str | None = None) -> JobLines:
    """One page of the list. Raises Invalid for a bad cursor."""
    criteria = replace(criteria, after=read_cursor(cursor))
    if criteria.sort != "time" and not criteria.is_narrowed:
        return _all_by(services, criteria)
    if criteria.is_searched or criteria.sort != "time":
        return _search(services, criteria)
    with services.database.read() as connection:
        rows = job_lists.page(connection, criteria)
        page = rows[: criteria.limit]
        scores = job_lists.scores(connection, [row.id for row in page])
    return JobLines(_lines(page, scores), next_cursor(rows, criteria.limit))


def _search(services: Services, criteria: JobFilter) -> JobLines:
    with services.database.read() as connection:
        rows, searched, last = job_lists.search(connection, replace(criteria, limit=criteria.limit + 1))
        page = rows[: criteria.limit]
        scores = job_lists.scores(connection, [row.id for row in page])
    following = write_cursor(*last) if last else None
    if criteria.sort == "time" and len(rows) > criteria.limit:
        following = next_cursor(rows, criteria.limit)
    return JobLines(_lines(page, scores), following, searched=searched if last else None)


def _all_by(services: Services, criteria: JobFilter) -> JobLines:
    with services.database.read() as connection:
        after_id = criteria.after[1] if criteria.after else None
        rows = job_lists.page_by(connection, criteria.sort, after_id, criteria.limit)
        if rows is None:
            words = "The job with which the previous page ended does not exist any more. Begin with the first page."
            raise Invalid.at("/after", words, "invalid_cursor")
        page = rows[: criteria.limit]
        scores = job_lists.scores(connection, [row.id for row in page])
    return JobLines(_lines(page, scores), next_cursor(rows, criteria.limit))


def rate_criteria(services: Services, criteria: JobFilter) -> CriteriaRates:
    """Count the verdicts on the criteria of the returned answers of the newest jobs of the list."""
    criteria = replace(criteria, sort="time", newest_first=True, after=None, limit=RATED_MAX)
    with services.database.read() as connection:
        if criteria.is_searched:
            ids, searched, last = job_lists.search_ids(connection, criteria)
        else:
            ids = [job_id for _, job_id in positions(connection, criteria, extra=1)]
            searched, last = min(len(ids), RATED_MAX), len(ids) > RATED_MAX
        counts = count_verdicts(connection, ids[:RATED_MAX])
        judged = count_judged(connection, ids[:RATED_MAX])
    return CriteriaRates(counts, searched, judged, is_whole=not last)


def neighbour(services: Services, criteria: JobFilter, cursor: str | None, job_id: str, *, is_next: bool) -> str | None:
    """Return the id of the job after or before a job in a list, or None.

    `cursor` is the cursor of the page with the job. If the list is not ordered by time, only this page is searched.
    Raises NotFound if there is no such job, and Invalid for a bad cursor.
    """
    if criteria.sort == "time":
        job = queries.get_job(services, job_id)
        # The previous job is the next one in the reverse order
        one = replace(criteria, newest_first=criteria.newest_first is is_next, limit=1)
        found = list_lines(services, one, write_cursor(job.created_at, job.id)).lines
        return found[0].id if found else None
    ids = [line.id for line in list_lines(services, criteria, cursor).lines]
    at = ids.index(job_id) + (1 if is_next else -1) if job_id in ids else -1
    return ids[at] if 0 <= at < len(ids) else None


def refresh(services: Services, criteria: JobFilter, shown: Sequence[str], cursor: str | None = None) -> JobLines:
    """The current state of the shown jobs, and the number of newer jobs. Raises Invalid for a bad cursor."""
    criteria = replace(criteria, after=read_cursor(cursor))
    with services.database.read() as connection:
        page = job_lists.by_ids(connection, shown, newest_first=criteria.newest_first)
        scores = job_lists.scores(connection, [row.id for row in page])
        found = positions(connection, criteria, extra=1)
    more = 0 if cursor else len({job_id for _, job_id in found[: criteria.limit]} - set(shown))
    following = write_cursor(page[-1].created_at, page[-1].id) if page and len(found) > criteria.limit else None
    return JobLines(_lines(page, scores), following, more)


def _lines(rows: Sequence[JobRow], scores: Sequence[tuple[str, int, float | None]]) -> list[JobLine]:
    of_job: dict[str, list[tuple[int, float | None]]] = {row.id: [] for row in rows}
    for job_id, number, score in scores:
        of_job[job_id].append((number, score))
    return [_line(row, of_job[row.id]) for row in rows]


def _line(row: JobRow, scores: Sequence[tuple[int, float | None]]) -> JobLine:
    # The query returns a fixed number of characters after the field name, so the text is not valid JSON
    threshold = _NUMBER.match(row.threshold)
    return JobLine.from_row(
        row,
        task=_task(row.beginning),
        iteration=iteration_now(row),
        iter_max=row.iteration_limit,
        threshold=float(threshold[0]) if threshold else None,
        scores=tuple(scores),
        error_code=(row.error or {}).get("code"),
        cost_usd=cost_usd(row.cost_nano_usd, row.unpriced_calls),
        duration_ms=latency_ms(row.created_at, row.finished_at),
        is_accepted=bool(row.is_accepted),
        has_only_checks=bool(row.has_only_checks),
    )


def _task(beginning: str) -> str:
    """The first non-empty line of `instruct`, from the beginning of a stored request."""
    # The query cuts the stored request at a fixed length, even within an escape sequence
    request: Any = from_json(beginning, allow_partial="trailing-strings", cache_strings="keys")
    lines = str(request.get("instruct", "")).strip().splitlines()
    return lines[0][:_LINE_CHARS] if lines else ""


def freeze(services: Services, criteria: JobFilter) -> JobFilter:
    """Return the same filter without jobs that are created from now on, since the user has not seen them."""
    with services.database.read() as connection:
        newest = positions(connection, replace(criteria, newest_first=True, after=None, limit=1))
    # The filter excludes the time `created_before` itself, but must include the newest job
    return replace(criteria, created_before=newest[0][0] + timedelta(milliseconds=1)) if newest else criteria


def count(services: Services, criteria: JobFilter, *, most: int = COUNT_MAX) -> int:
    """Count the matching jobs, up to `most`."""
    with services.database.read() as connection:
        return job_lists.count(connection, criteria, most=most)


def count_each(services: Services, filters: Sequence[JobFilter], *, most: int) -> list[int]:
    """Count the jobs that match each filter, up to `most`."""
    with services.database.read() as connection:
        return [job_lists.count(connection, each, most=most) for each in filters]


def possible(action: Action, criteria: JobFilter) -> JobFilter | None:
    """Restrict the filter to the statuses that allow the action. None if no status is left."""
    allowed = {status.value for status in (LIVE if action == "cancel" else TERMINAL)}
    statuses = allowed & set(criteria.statuses) if criteria.statuses else allowed
    return replace(criteria, statuses=tuple(sorted(statuses))) if statuses else None


def act_on_matching(
    services: Services, action: Action, criteria: JobFilter, cursor: str | None = None, *, batch: int = BATCH
) -> ActionResult:
    """Cancel or delete one batch of the matching jobs, newest first. Raises Invalid for a bad cursor."""
    wanted = possible(action, replace(criteria, newest_first=True, after=read_cursor(cursor), limit=batch))
    if wanted is None:
        return ActionResult(0, 0, None)
    with services.database.read() as connection:
        found = positions(connection, wanted)
    done, seen = _act_on(services, action, [job_id for _, job_id in found])
    is_over = seen == len(found) < batch
    return ActionResult(done, seen - done, None if is_over or not seen else write_cursor(*found[seen - 1]))


def act_on(services: Services, action: Action, job_ids: Sequence[str]) -> ActionResult:
    """Cancel or delete these jobs. Stop after a minute."""
    done, seen = _act_on(services, action, job_ids, _SHOWN_S)
    return ActionResult(done, seen - done, None)


def _act_on(services: Services, action: Action, job_ids: Sequence[str], for_s: float = BATCH_S) -> tuple[int, int]:
    """Return the number of changed jobs, and the number of jobs that were tried before `for_s` had passed."""
    end = time.monotonic() + for_s
    done = seen = 0
    for job_id in job_ids:
        done += _has_changed(services, action, job_id)
        seen += 1
        if time.monotonic() > end:
            break
    return done, seen


def _has_changed(services: Services, action: Action, job_id: str) -> bool:
    try:
        if action == "cancel":
            return lifecycle.cancel(services, job_id)[1]
        lifecycle.delete(services, job_id)
    except (Conflict, NotFound):
        return False
    return True


def export_matching(services: Services, criteria: JobFilter) -> Iterator[str]:
    """Yield all matching jobs as the API shows them, each as one line of JSON."""
    cursor: str | None = None
    criteria = replace(criteria, limit=_EXPORTED_AT_ONCE)
    while True:
        page, cursor = queries.list_jobs(services, criteria, cursor)
        yield from (json_line(job, exclude={"iterations"}) for job in page)
        if cursor is None:
            return


def export(services: Services, job_ids: Sequence[str]) -> Iterator[str]:
    """Yield these jobs, each as one line of JSON. Deleted jobs are left out."""
    for job_id in job_ids:
        try:
            yield json_line(queries.get_job(services, job_id), exclude={"iterations"})
        except NotFound:
            continue
