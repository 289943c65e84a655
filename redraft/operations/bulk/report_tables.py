"""Builds the tables of runs and comparisons that `redraft.reports` renders."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from redraft.datasets.items import Item, ItemRequest, Merger
from redraft.datasets.rows import Row
from redraft.domain.bulk.comparison import compare
from redraft.domain.calls.model_names import parse_model
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.errors import Invalid
from redraft.operations.bulk import datasets, evaluator_tests, run_results, runs
from redraft.operations.bulk.report_examples import read_examples
from redraft.operations.bulk.run_resources import Run
from redraft.operations.request_views import needs_evaluator
from redraft.operations.services import Services
from redraft.reports.tables import ComparisonTables, RunFacts, RunTables
from redraft.storage.admin import ratings
from redraft.storage.bulk import datasets as stored_datasets
from redraft.storage.bulk import run_items as stored_items
from redraft.storage.bulk import runs as stored_runs

Number = TypeVar("Number", int, float)

# All items of a run usually have the same models and limits, so the first ones are enough
_FIRST_ITEMS = 200

# Reports are passed on: the address of a webhook can hold a secret, and attachments are long
_NOT_REPORTED = frozenset({"attachments", "webhook"})


def run_tables(services: Services, run_id: str) -> RunTables:
    """The report of a run. Raises NotFound if there is no such run."""
    run = runs.get_run(services, run_id)
    items = run_results.outcomes(services, run_id)
    facts = facts_of(services, run)
    report = run_results.report_of(run.defaults, run.overrides, items, has_only_checks=facts.has_only_checks)
    return RunTables(facts, report, items=items, examples=read_examples(services, run_id, items))


def comparison_tables(services: Services, baseline_id: str, run_id: str) -> ComparisonTables:
    """Compare a run with a baseline.

    Raises NotFound if a run does not exist, and Invalid if both ids are the same (code `same_run`).
    """
    ensure_different((baseline_id, run_id))
    baseline, new = (facts_of(services, runs.get_run(services, each)) for each in (baseline_id, run_id))
    before, after = (run_results.outcomes(services, each) for each in (baseline_id, run_id))
    return ComparisonTables(baseline, new, compare(before, after, name=baseline.name))


def ensure_different(run_ids: Sequence[str]) -> None:
    """Raise Invalid (code `same_run`) if a run would be compared with itself."""
    if len(set(run_ids)) < len(run_ids):
        raise Invalid.at("/baseline", "A run cannot be compared with itself: name another baseline.", "same_run")


def facts_of(services: Services, run: Run) -> RunFacts:
    """The name, dataset, models and limits of a run; a limit is None if it differs between the first items."""
    dataset = datasets.get_dataset(services, run.dataset_id)
    with services.database.read() as connection:
        items = stored_items.list_items(connection, runs.find(connection, run.id), limit=_FIRST_ITEMS)
        deleted = stored_items.count_deleted(connection, run.id)
        people = ratings.count_of_run(connection, run.id)
        unpriced = stored_runs.unpriced_models(connection, run.id) if run.usage.cost_usd is None else ()
    requests = _first_requests(services, run)
    has_only_checks = bool(requests) and not any(map(needs_evaluator, requests))
    evaluators = () if has_only_checks else _named(items, "evaluator_model")
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
        evaluator_models=evaluators,
        has_only_checks=has_only_checks,
        score_threshold=_shared({request.score_threshold for request in requests}),
        iter_max=_shared({request.iter_max for request in requests if isinstance(request, GenerateAnswer)}),
        cost_usd=None if cost is None else Decimal(cost),
        unpriced_models=tuple(unpriced),
        deleted_jobs=sum(deleted.values()),
        saved_usd=None if run.saved_usd is None else Decimal(run.saved_usd),
        rounds_s=tuple(each.wall_s for each in run.rounds),
        settings={
            f"{layer}.{name}": value
            for layer, fields in (("defaults", run.defaults), ("overrides", run.overrides))
            for name, value in fields.items()
            if name not in _NOT_REPORTED
        },
        ratings=people,
        evaluator_warnings=tuple(evaluator_tests.warnings_about(services, _evaluators(requests, evaluators))),
    )


def _evaluators(requests: Sequence[ItemRequest], evaluators: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs: an evaluator (or the joined names of a panel), and its profile."""
    panels = {(" + ".join(str(parse_model(name)) for name in each.evaluation.panel), each.profile) for each in requests}
    return [(name, profile) for panel, profile in panels for name in ([panel] if panel else evaluators)]


def _first_requests(services: Services, run: Run) -> list[ItemRequest]:
    """The requests of the first rows, without the changes of a continuation."""
    with services.database.read() as connection:
        stored = stored_datasets.list_items(connection, run.dataset_id, after=-1, limit=_FIRST_ITEMS)
    made = Merger(run.defaults, run.overrides).items(Row(**each["row"]) for each in stored if each["row"])
    return [item.request for item in made if isinstance(item, Item)]


def _shared(values: set[Number]) -> Number | None:
    return values.pop() if len(values) == 1 else None


def _named(items: Sequence[Mapping[str, Any]], column: str) -> tuple[str, ...]:
    return tuple(sorted({str(item[column]) for item in items if item[column]}))
