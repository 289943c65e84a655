"""Runs and comparisons as the sheets that `redraft.reports` writes in each of its formats."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from redraft.operations import datasets, run_results, runs
from redraft.operations.runs import Run
from redraft.operations.services import Services
from redraft.reports.sheets import ComparisonSheet, RunFacts, RunSheet

_LOOKED_AT = 200


def run_sheet(services: Services, run_id: str) -> RunSheet:
    """A run's report with all that names it.

    Raises:
        NotFound: there is no such run.
    """
    facts = facts_of(services, runs.get_run(services, run_id))
    return RunSheet(facts, run_results.report(services, run_id), items=run_results.outcomes(services, run_id))


def comparison_sheet(services: Services, baseline_id: str, run_id: str) -> ComparisonSheet:
    """A run beside a baseline, with all that names both; raises what `compare_runs` raises."""
    found = run_results.compare_runs(services, baseline_id, run_id)
    baseline, new = (facts_of(services, runs.get_run(services, each)) for each in (baseline_id, run_id))
    return ComparisonSheet(baseline, new, found)


def facts_of(services: Services, run: Run) -> RunFacts:
    """What names a run; models and limits by its first items, where they agree."""
    dataset = datasets.get_dataset(services, run.dataset_id)
    items = run_results.list_items(services, run.id, after=0, limit=_LOOKED_AT)
    thresholds = {item["score_threshold"] for item in items if item["score_threshold"] is not None}
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
        score_threshold=thresholds.pop() if len(thresholds) == 1 else None,
        iter_max=run.overrides.get("iter_max", run.defaults.get("iter_max")),
        cost_usd=None if cost is None else Decimal(cost),
    )


def _named(items: Sequence[Mapping[str, Any]], column: str) -> tuple[str, ...]:
    return tuple(sorted({str(item[column]) for item in items if item[column]}))
