"""Runs and comparisons as the sheets that `redraft.reports` writes in each of its formats."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from redraft.datasets.items import Item, ItemRequest, Merger
from redraft.datasets.rows import Row
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.operations.bulk import datasets, run_results, runs
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from redraft.reports.tables import ComparisonTables, RunFacts, RunTables
from redraft.storage.bulk import datasets as stored_datasets
from redraft.storage.bulk import run_items as stored_items

Number = TypeVar("Number", int, float)

_LOOKED_AT = 200


def run_tables(services: Services, run_id: str) -> RunTables:
    """A run's report with all that names it.

    Raises:
        NotFound: there is no such run.
    """
    run = runs.get_run(services, run_id)
    items = run_results.outcomes(services, run_id)
    return RunTables(facts_of(services, run), run_results.report_of(run.defaults, run.overrides, items), items=items)


def comparison_tables(services: Services, baseline_id: str, run_id: str) -> ComparisonTables:
    """A run beside a baseline, with all that names both; raises what `compare_runs` raises."""
    found = run_results.compare_runs(services, baseline_id, run_id)
    baseline, new = (facts_of(services, runs.get_run(services, each)) for each in (baseline_id, run_id))
    return ComparisonTables(baseline, new, found)


def facts_of(services: Services, run: Run) -> RunFacts:
    """What names a run; models and limits by its first items, where they agree."""
    dataset = datasets.get_dataset(services, run.dataset_id)
    items = _first_items(services, run)
    requests = _first_requests(services, run)
    cost = run.usage.cost_usd
    return RunFacts(
        id=run.id,
        name=run.name,
        status=run.status,
        dataset_name=dataset.name,
        dataset_version=dataset.version,
        created_at=run.created_at,
        finished_at=run.finished_at,
        models=_named(items, "model"),
        evaluator_models=_named(items, "evaluator_model"),
        score_threshold=_shared({request.score_threshold for request in requests}),
        iter_max=_shared({request.iter_max for request in requests if isinstance(request, GenerateAnswer)}),
        cost_usd=None if cost is None else Decimal(cost),
        unpriced_models=run_results.unpriced_models(services, run.id) if cost is None else (),
        deleted_jobs=_count_deleted(services, run),
    )


def _count_deleted(services: Services, run: Run) -> int:
    with services.database.read() as connection:
        return sum(stored_items.count_deleted(connection, run.id).values())


def _first_items(services: Services, run: Run) -> list[dict[str, Any]]:
    """Without their texts."""
    with services.database.read() as connection:
        return stored_items.list_items(connection, runs.find(connection, run.id), limit=_LOOKED_AT)


def _first_requests(services: Services, run: Run) -> list[ItemRequest]:
    """As the rows ask for them: what a continuation changed is left aside."""
    with services.database.read() as connection:
        stored = stored_datasets.list_items(connection, run.dataset_id, after=-1, limit=_LOOKED_AT)
    made = Merger(run.defaults, run.overrides).items(Row(**each["row"]) for each in stored if each["row"])
    return [item.request for item in made if isinstance(item, Item)]


def _shared(values: set[Number]) -> Number | None:
    return values.pop() if len(values) == 1 else None


def _named(items: Sequence[Mapping[str, Any]], column: str) -> tuple[str, ...]:
    return tuple(sorted({str(item[column]) for item in items if item[column]}))
