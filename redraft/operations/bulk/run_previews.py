"""Shows what the start or resume of a run would start, and its maximum cost, before a person confirms it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from redraft.datasets.items import Item, ItemRequest, Merger
from redraft.datasets.reports import Cost
from redraft.datasets.rows import Row
from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.jobs.job_errors import TITLES
from redraft.errors import RETRYABLE_CODES
from redraft.operations.bulk import datasets, runs
from redraft.operations.bulk.deliveries import choose_delivery
from redraft.operations.bulk.run_resources import Run
from redraft.operations.calls.budgets import spent_of_run
from redraft.operations.jobs.cost_estimates import cost_max
from redraft.operations.resource_base import NANO
from redraft.operations.services import Services
from redraft.storage.bulk import datasets as stored_datasets
from redraft.storage.bulk import run_items

Retry = Literal["open", "failed", "errors"]
Remedy = Literal["retry", "configure", "none"]

# Only this many rows are priced, because validation is slow; the cost of further rows is extrapolated
_PRICED_MAX = 500
# These failures end only after a change outside of the run, such as another key
_CONFIGURED = frozenset({"provider_auth", "provider_quota", "unknown_model", "check_failed"})
# A retry can succeed, because the model may generate another text
_BY_CHANCE = frozenset({"empty_output", "evaluator_invalid", "schema_mismatch", "output_truncated"})
_AT_ANOTHER_TIME = RETRYABLE_CODES | _BY_CHANCE | {"deadline_exceeded", "worker_lost", "canceled"}


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed items with the same error code, and whether a retry can help them.

    `remedy` is `retry` if another attempt may succeed, `configure` if something outside of the run must change first,
    and `none` if a retry sends the same request and most likely fails again.
    """

    code: str
    title: str
    items: int
    remedy: Remedy


@dataclass(frozen=True, slots=True)
class ResumePreview:
    """What a resume would start. Nothing is stored.

    Attributes:
        items: the number of items that the resume starts: the sum of `canceled` and `failed`.
        cost: the maximum further cost. The past cost of the items is not included.
        is_estimated: whether the cost is computed from the first items only.
        budget_left: the part of the budget that is not spent, in USD; None without a budget.
    """

    run: Run
    retry: Retry
    canceled: int
    failed: int
    cost: Cost
    is_estimated: bool
    budget_left: Decimal | None
    failures: Sequence[FailureGroup]

    @property
    def items(self) -> int:
        return self.canceled + self.failed


def preview_resume(services: Services, run_id: str, retry: Retry) -> ResumePreview:
    """Count the items that a resume starts, and compute their maximum cost. Raises NotFound for an unknown run."""
    run = runs.get_run(services, run_id)
    statuses = runs.statuses_of(run.status, retry)
    with services.database.read() as connection:
        record = runs.find(connection, run_id)
        rows = run_items.rows_of(connection, record, statuses, _PRICED_MAX)
        codes = run_items.errors_of_failed(connection, run_id) if "failed" in statuses else {}
        limit = record.max_cost_nano_usd
        left = None if limit is None else max(0, limit - spent_of_run(connection, services, run_id))
    made = Merger(run.defaults, run.overrides).items(Row(**row) for row in rows)
    counted = {status: getattr(run.counts, status) if status in statuses else 0 for status in ("canceled", "failed")}
    number = sum(counted.values())
    return ResumePreview(
        run,
        retry,
        **counted,
        cost=cost_of(
            services,
            (item.request for item in made if isinstance(item, Item)),
            number,
            is_batch=run.delivery == "batch",
        ),
        is_estimated=number > len(rows),
        budget_left=None if left is None else Decimal(left) / NANO,
        failures=[FailureGroup(code, _title(code), items, remedy_of(code)) for code, items in codes.items()],
    )


@dataclass(frozen=True, slots=True)
class StartPreview:
    """The number of jobs of a run that is not yet started, their maximum cost, and the delivery of their calls.

    Attributes:
        delivery_reason: the reason for the delivery if the user left the choice to Redraft.
    """

    jobs: int
    cost: Cost
    is_estimated: bool
    delivery: str
    delivery_reason: str | None


def preview_start(services: Services, body: CreateRun) -> StartPreview:
    """Compute the maximum cost of a run. Nothing is stored.

    Raises NotFound if there is no such dataset, and Invalid if the run could not start.
    """
    merger = Merger(body.defaults, body.overrides)
    dataset = datasets.get_dataset(services, body.dataset_id)
    first = runs.ensure_startable(services, dataset.id, merger, body)
    delivery, reason = choose_delivery(services, body.delivery, dataset.rows * body.repeat, first)
    with services.database.read() as connection:
        stored = stored_datasets.list_items(connection, dataset.id, after=-1, limit=_PRICED_MAX)
    made = merger.items(Row(**each["row"]) for each in stored if each["row"])
    number = (dataset.rows - dataset.bad_rows) * body.repeat
    requests = (item.request for item in made if isinstance(item, Item))
    cost = cost_of(services, requests, number, is_batch=delivery == "batch")
    return StartPreview(number, cost, dataset.rows > len(stored), delivery, reason)


def cost_of(services: Services, requests: Iterable[ItemRequest], number: int, *, is_batch: bool) -> Cost:
    """Return the maximum cost of `number` jobs: `number` times the mean cost of the first `requests`."""
    costs = [cost_max(services, request, is_batch=is_batch) for request in requests]
    unpriced = tuple(dict.fromkeys(model for cost in costs for model in cost.unpriced_models))
    known = [cost.usd for cost in costs if cost.usd is not None]
    if len(known) < len(costs):
        return Cost(None, unpriced)
    total = sum(known, Decimal(0))
    return Cost(total * number / len(costs) if costs else total)


def remedy_of(code: str) -> Remedy:
    """Return the remedy for an item that failed with this code. The remedy for an unknown code is a retry."""
    if code in _CONFIGURED:
        return "configure"
    return "retry" if code in _AT_ANOTHER_TIME or code not in TITLES else "none"


def _title(code: str) -> str:
    return TITLES.get(code, "The cause is unknown")
