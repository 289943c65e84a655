"""The views of runs on the pages: the list of runs, one run, the items of a run, and one row in two runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection

from redraft.domain.bulk.outcomes import item_outcome
from redraft.errors import NotFound
from redraft.operations.bulk import datasets, runs
from redraft.operations.bulk.datasets import Dataset, DatasetItem
from redraft.operations.bulk.run_resources import Run, RunCounts, counts_of
from redraft.operations.cursors import next_cursor, read_cursor
from redraft.operations.jobs import queries, webhooks
from redraft.operations.jobs.iterations import Evaluation
from redraft.operations.jobs.resources import WebhookDelivery
from redraft.operations.resource_base import Moment, Resource, cost_usd
from redraft.operations.services import Services
from redraft.storage.bulk import datasets as stored_datasets
from redraft.storage.bulk import run_items as stored_items
from redraft.storage.bulk import run_listing as stored
from redraft.storage.bulk import runs as stored_runs
from redraft.storage.bulk.run_listing import ItemFilter, JobModels, Totals
from redraft.storage.bulk.runs import RunRecord

__all__ = ["ItemFilter"]

# Enough items for a steady estimate of the speed, in a window that is short enough to show changes of the speed
_ENDS = 50
_WINDOW_S = 600.0
_NONE = Totals(0, 0, 0)


class RunLine(Resource):
    """A run in a list. `models` and `evaluator` are those that the run names, or else those of its first job.

    Other rows can name other models. Both are empty if the run names no model and has no job.
    """

    id: str
    models: tuple[str, ...]
    evaluator: str
    name: str
    dataset_id: str
    dataset_name: str
    status: Literal["running", "succeeded", "canceled"]
    stop_reason: str | None
    created_at: Moment
    finished_at: Moment | None
    counts: RunCounts
    cost_usd: str | None
    max_cost_usd: str | None


@dataclass(frozen=True, slots=True)
class RunView:
    """The current state of a run.

    Attributes:
        seconds_left: an estimate from the speed of the latest items; None if no item has ended in the last 10 minutes.
        spent: the message that the budget is used up; None if the budget is not used up.
        deleted: the number of items per status whose jobs were deleted.
    """

    run: Run
    dataset: Dataset
    seconds_left: float | None
    spent: str | None
    deleted: Mapping[str, int]
    deliveries: Sequence[WebhookDelivery]

    @property
    def has_ended(self) -> bool:
        """Whether the run and all its jobs have ended. The jobs of a canceled run end after the run."""
        return self.run.status != "running" and self.run.counts.running == 0


class ItemLine(Resource):
    """An item in a list. Only an item with an invalid row has `errors`, and only such an item may lack a `custom_id`.

    `scores` holds the best score of each iteration. `is_accepted` is None before the end, or without an answer.
    """

    number: int
    custom_id: str | None
    repeat: int
    line: int
    status: str
    stop_reason: str | None
    question: str
    scores: tuple[float | None, ...]
    best_score: float | None
    score_threshold: float | None
    model: str | None
    cost_usd: str | None
    ms: float | None
    error_code: str | None
    error: str | None
    errors: Sequence[Mapping[str, Any]]
    job_id: str | None
    is_accepted: bool | None

    @property
    def outcome(self) -> str:
        return item_outcome(self.status, is_accepted=bool(self.is_accepted), is_evaluated=self.best_score is not None)


@dataclass(frozen=True, slots=True)
class Side:
    """The result of a row in one of the compared runs. `evaluation` is the evaluation of the best iteration."""

    job_id: str | None
    status: str
    is_accepted: bool
    score: float | None
    score_threshold: float | None
    answer: str | None
    question: str | None
    evaluation: Evaluation | None

    @property
    def outcome(self) -> str:
        return item_outcome(self.status, is_accepted=self.is_accepted, is_evaluated=self.score is not None)


def list_runs(services: Services, *, cursor: str | None, limit: int) -> tuple[list[RunLine], str | None]:
    """A page of runs, newest first, and the cursor of the next page. Raises Invalid for a bad cursor."""
    after = read_cursor(cursor)
    with services.database.read() as connection:
        records = stored_runs.list_page(connection, after=after, limit=limit)
        return lines_of(connection, records[:limit]), next_cursor(records, limit)


def lines_of(connection: Connection, records: Sequence[RunRecord]) -> list[RunLine]:
    """Return the lines of runs in a list, in the same order."""
    ids = [record.id for record in records]
    names = stored.dataset_names(connection, [record.dataset_id for record in records])
    counts = stored_items.count(connection, ids)
    totals = {**dict.fromkeys(ids, _NONE), **stored.totals(connection, ids)}
    firsts = stored.models_of_first_jobs(connection, ids)
    return [
        RunLine.from_row(
            record,
            **_models_of(record, firsts.get(record.id)),
            dataset_name=names.get(record.dataset_id, ""),
            counts=counts_of(counts[record.id], totals[record.id].accepted),
            cost_usd=cost_usd(totals[record.id].cost_nano_usd, totals[record.id].unpriced_calls),
            max_cost_usd=cost_usd(record.max_cost_nano_usd),
        )
        for record in records
    ]


def _models_of(record: RunRecord, first: JobModels | None) -> Mapping[str, Any]:
    models = _named(record, "model") or ((first.model,) if first and first.model else ())
    named = next(iter(_named(record, "evaluator_model")), first.evaluator_model if first else "")
    return {"models": models, "evaluator": "checks only" if first and first.has_only_checks else named}


def _named(record: RunRecord, field: str) -> tuple[str, ...]:
    """Return the models that the overrides or else the defaults of a run name."""
    given: str | list[str] = record.overrides.get(field) or record.defaults.get(field) or []
    return (given,) if isinstance(given, str) else tuple(given)


def list_runs_of_dataset(services: Services, dataset_id: str, *, limit: int) -> list[RunLine]:
    """Return the newest runs of a dataset, newest first."""
    with services.database.read() as connection:
        return lines_of(connection, stored_runs.list_of_dataset(connection, dataset_id, limit=limit))


def view_run(services: Services, run_id: str) -> RunView:
    """One run with its dataset, its progress and its deliveries. Raises NotFound if there is no such run."""
    run = runs.get_run(services, run_id)
    left_s = _seconds_left(services, run)
    spent = runs.say_spent(services, run_id) if run.stop_reason == "budget_exhausted" else None
    with services.database.read() as connection:
        deleted = stored_items.count_deleted(connection, run_id) if run.status != "running" else {}
    sent = webhooks.list_deliveries(services, run_id) if run.webhook else []
    return RunView(run, datasets.get_dataset(services, run.dataset_id), left_s, spent, deleted, sent)


def _seconds_left(services: Services, run: Run) -> float | None:
    if run.status != "running":
        return None
    with services.database.read() as connection:
        begun_at = runs.find(connection, run.id).resumed_at or run.created_at
        ends = stored.latest_ends(connection, run.id, within_s=_WINDOW_S, limit=_ENDS)
    # Items that ended before a resume do not show the present speed
    ends = [at for at in ends if at >= begun_at]
    if not ends:
        return None
    now = datetime.now(UTC)
    # With fewer items, the estimate would be too fast, because it lacks the time before the first item ended
    since = ends[-1] if len(ends) == _ENDS else max(begun_at, now - timedelta(seconds=_WINDOW_S))
    return max(0.0, (now - since).total_seconds() / len(ends) * (run.counts.queued + run.counts.running))


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Some items of a run, and whether others precede and follow them.

    `total` is the number of all matching items. It is None if the counts of the run contain this number.
    """

    items: list[ItemLine]
    has_earlier: bool
    has_later: bool
    total: int | None


def list_items(
    services: Services, run_id: str, chosen: ItemFilter, *, after: int = 0, before: int | None = None, limit: int
) -> ItemPage:
    """The items after the number `after`, or the last items before the number `before`.

    Raises NotFound if there is no such run.
    """
    with services.database.read() as connection:
        run = runs.find(connection, run_id)
        found = stored.list_items(connection, run, chosen, after=after, before=before, limit=limit + 1)
        shown = found[:limit] if before is None else found[-limit:]
        scores = stored.scores(connection, [item["job_id"] for item in shown if item["job_id"]])
        # Only these filters need a query, because the counts of the run contain all other numbers
        is_counted = any(each is not None for each in (chosen.error_code, chosen.custom_id, chosen.not_met))
        total = stored.count_items(connection, run, chosen) if is_counted else None
    has_more = len(found) > limit
    return ItemPage(
        items=[_item(item, scores.get(item["job_id"], ())) for item in shown],
        has_earlier=after > 0 if before is None else has_more,
        has_later=has_more if before is None else True,
        total=total,
    )


def _item(item: Mapping[str, Any], scores: Sequence[float | None]) -> ItemLine:
    errors: Sequence[Mapping[str, Any]] = item["errors"] or ()
    error: Mapping[str, Any] = errors[0] if errors else item["error"] or {}
    threshold, started, ended = item["score_threshold"], item["started_at"], item["finished_at"]
    computed: Mapping[str, Any] = {
        "question": item["question"] or "",
        "scores": tuple(scores),
        "score_threshold": None if threshold is None else float(threshold),
        "cost_usd": cost_usd(item["cost_nano_usd"], item["unpriced_calls"] or 0) if item["job_id"] else None,
        "ms": None if started is None or ended is None else (ended - started).total_seconds() * 1000,
        "error_code": error.get("code"),
        "error": error.get("detail"),
        "errors": errors,
        "is_accepted": bool(item["is_accepted"]) if item["status"] == "succeeded" else None,
    }
    return ItemLine.model_validate({**item, **computed})


def get_sides(services: Services, run_ids: Sequence[str], custom_id: str, repeat: int) -> list[tuple[Run, Side | None]]:
    """A row in several runs. A side is None if its run does not have the row.

    Raises NotFound if a run does not exist, or no run has the row.
    """
    found: list[tuple[Run, Side | None]] = []
    for run_id in run_ids:
        run = runs.get_run(services, run_id)
        with services.database.read() as connection:
            item = stored.find_item(connection, runs.find(connection, run_id), custom_id, repeat)
        found.append((run, _side(services, item)))
    if not any(side for _, side in found):
        raise NotFound("row", custom_id)
    return found


def _side(services: Services, item: Mapping[str, Any] | None) -> Side | None:
    if item is None:
        return None
    request: Mapping[str, Any] = item["request"] or {}
    result: Mapping[str, Any] = item["result"] or {}
    return Side(
        job_id=item["job_id"],
        status=item["status"],
        is_accepted=bool(item["is_accepted"]),
        score=item["best_score"],
        score_threshold=request.get("score_threshold"),
        answer=result.get("final_answer"),
        question=request.get("instruct"),
        evaluation=_best_evaluation(services, item["job_id"], item["best_iteration"]),
    )


def _best_evaluation(services: Services, job_id: str | None, number: int | None) -> Evaluation | None:
    """The evaluation of the returned answer; None without a job or a verdict."""
    if job_id is None or number is None:
        return None
    try:
        candidates = queries.list_iterations(services, job_id, number)
    except NotFound:  # The job was deleted meanwhile
        return None
    evaluated = [each.evaluation for each in candidates if each.evaluation and each.evaluation.score is not None]
    return max(evaluated, key=lambda each: (each.passed, each.score or 0.0), default=None)


def list_bad_rows(services: Services, dataset_id: str, *, after: int, limit: int) -> list[DatasetItem]:
    """The invalid rows of a dataset after this position (from 0). Raises NotFound if there is no such dataset."""
    with services.database.read() as connection:
        datasets.find(connection, dataset_id)
        rows = stored_datasets.list_items(connection, dataset_id, after=after, limit=limit, only_bad=True)
    return [datasets.item_resource(row) for row in rows]
