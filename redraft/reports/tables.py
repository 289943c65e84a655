"""The data of a report: the figures from the domain, and the facts that identify the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from redraft.domain.bulk.comparison import Comparison
from redraft.domain.bulk.examples import Examples
from redraft.domain.bulk.gates import GateResult
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_statistics import RunReport


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that identify a run."""

    id: str
    name: str
    status: str
    dataset_name: str
    created_at: datetime
    dataset_version: str | None = None
    finished_at: datetime | None = None
    models: tuple[str, ...] = ()  # The generators
    evaluator_models: tuple[str, ...] = ()  # Empty if the rubrics of all rows have only checks
    has_only_checks: bool = False
    score_threshold: float | None = None  # The threshold of all items; None if they have different thresholds
    iter_max: int | None = None  # The limit of all items; None if they have different limits or generate no answers
    cost_usd: Decimal | None = None  # The cost of all calls, without those of deleted jobs; None if a price is unknown
    unpriced_models: tuple[str, ...] = ()
    deleted_jobs: int = 0  # The number of deleted jobs
    saved_usd: Decimal | None = None  # What batches have saved; None for a live run
    rounds_s: tuple[float | None, ...] = ()  # The wall time of each round of batches; None for a round without an end
    ratings: Mapping[str, int] = field(default_factory=dict[str, int])  # Counts of people's ratings, by verdict
    evaluator_warnings: tuple[str, ...] = ()  # Sentences about evaluators that failed probes
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])  # By name: `defaults.rubric`


@dataclass(frozen=True, slots=True)
class RunTables:
    """The data of a run for a report. `items` are all items of the run; `comparison` is that with its baseline."""

    facts: RunFacts
    report: RunReport
    gates: Sequence[GateResult] = ()
    items: Sequence[ItemOutcome] = ()
    examples: Examples = field(default_factory=Examples)
    comparison: "ComparisonTables | None" = None


@dataclass(frozen=True, slots=True)
class ComparisonTables:
    """The data of a comparison for a report."""

    baseline: RunFacts
    new: RunFacts
    comparison: Comparison
    gates: Sequence[GateResult] = ()


AnyTables = RunTables | ComparisonTables
