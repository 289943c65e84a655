"""Runs and comparisons as sheets for `redraft.reports`, and files of them in the form that a name says."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from redraft.operations import datasets, run_results
from redraft.operations.runs import Run
from redraft.operations.services import Services
from redraft.reports.formats import COMPARISON_FORMATS, FORMATS, Format
from redraft.reports.sheets import ComparisonSheet, RunFacts, RunSheet

Sheet = TypeVar("Sheet")

_LOOKED_AT = 200
_OTHER_SUFFIXES = {".htm": ".html", ".markdown": ".md", ".junit": ".xml"}


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


def render_run(sheet: RunSheet, file: Path) -> str:
    return _format(FORMATS, file).render(sheet)


def render_comparison(sheet: ComparisonSheet, file: Path) -> str:
    return _format(COMPARISON_FORMATS, file).render(sheet)


def suffixes() -> list[str]:
    """The ends of files' names that say a form of a report."""
    return [each.suffix for each in FORMATS.values()]


def comparison_suffixes() -> list[str]:
    return [each.suffix for each in COMPARISON_FORMATS.values()]


def _format(formats: Mapping[str, Format[Sheet]], file: Path) -> Format[Sheet]:
    return next(each for each in formats.values() if each.suffix == suffix_of(file))


def suffix_of(file: Path) -> str:
    """The end of a file's name, in its usual spelling."""
    suffix = file.suffix.lower()
    return _OTHER_SUFFIXES.get(suffix, suffix)
