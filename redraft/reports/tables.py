"""The data of a report: figures from the domain and the facts that name the run. No database here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from redraft.domain.bulk.comparison import Comparison
from redraft.domain.bulk.gates import GateResult
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_facts import RunReport


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that identify a run.

    Attributes:
        models: the generators; `evaluator_models`: the evaluators.
        score_threshold: that in force, the default included; None unless all items share one; `iter_max` likewise,
            and None where no answer is written.
        cost_usd: of all its calls; None where a price is unknown.
        unpriced_models: the models with unknown prices.
        deleted_jobs: how many of its jobs were deleted: what they cost is not in `cost_usd`.
    """

    id: str
    name: str
    status: str
    dataset_name: str
    created_at: datetime
    dataset_version: str | None = None
    finished_at: datetime | None = None
    models: tuple[str, ...] = ()
    evaluator_models: tuple[str, ...] = ()
    score_threshold: float | None = None
    iter_max: int | None = None
    cost_usd: Decimal | None = None
    unpriced_models: tuple[str, ...] = ()
    deleted_jobs: int = 0


@dataclass(frozen=True, slots=True)
class RunTables:
    """The data of a run for a report.

    Attributes:
        gates: the results of the requested gates.
        items: all of the run, for JUnit's test cases and the picture of first against returned scores; other formats
            do without.
    """

    facts: RunFacts
    report: RunReport
    gates: Sequence[GateResult] = ()
    items: Sequence[ItemOutcome] = ()


@dataclass(frozen=True, slots=True)
class ComparisonTables:
    """A run beside its baseline."""

    baseline: RunFacts
    new: RunFacts
    comparison: Comparison
    gates: Sequence[GateResult] = ()


AnyTables = RunTables | ComparisonTables
