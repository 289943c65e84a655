"""Outcomes of the items of a run: the plain rows behind reports and comparisons."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from redraft.domain.jobs.states import outcome_of

ItemStatus = Literal["queued", "running", "succeeded", "failed", "canceled", "invalid"]

# Scores that differ by at most this count as equal, because binary fractions are not exact.
SAME = 1e-9


@dataclass(frozen=True, slots=True)
class ItemCriterion:
    """Whether the first and the returned answer of an item met one criterion. Without a verdict, this is None."""

    id: str
    text: str  # What must hold; the id if the criterion has no text
    first: bool | None = None  # The best answer of iteration 1
    returned: bool | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class CallTotals:
    """The model calls of one or more iterations, failed calls included."""

    calls: int
    tokens: int  # Input and output
    seconds: float  # The sum of the times of the calls, which may overlap


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """One item of a run: one repeat of a row of the dataset. Scores are from 0 to 1."""

    custom_id: str  # The id of the row, which all its repeats share. It pairs the rows of two runs
    repeat: int = 1  # The number of the repeat, from 1
    status: ItemStatus = "queued"
    stop_reason: str | None = None
    success: bool | None = None  # Whether the returned answer was accepted; None without an answer or an evaluation
    first_score: float | None = None  # The best score of iteration 1
    final_score: float | None = None  # The score of the returned answer, by the same evaluator
    best_iteration: int | None = None  # The iteration of the returned answer
    scores_by_iteration: tuple[float | None, ...] = ()  # The best score of each iteration, or None
    passed_by_iteration: tuple[bool, ...] = ()  # Whether an answer of the iteration was accepted
    iterations: int = 0
    cost_usd: Decimal | None = None  # The cost of all calls, failed ones included; None if a price is unknown
    cost_by_iteration: tuple[Decimal | None, ...] = ()  # The cost of each iteration; empty if costs are unknown
    calls_by_iteration: tuple[CallTotals, ...] = ()  # The calls of each iteration; empty if they are unknown
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float | None = None
    error_code: str | None = None  # Why the item failed, is invalid, or ended early although it has an answer
    error_words: str | None = None
    human_score: float | None = None  # A person's score for the returned answer, possibly on another scale
    human_pass: bool | None = None  # Whether a person accepts the returned answer
    audit_score: float | None = None  # The score of the independent evaluator for the returned answer
    audit_passed: bool | None = None  # Whether the independent evaluator accepts the returned answer
    criteria: tuple[ItemCriterion, ...] = ()  # Empty without a rubric
    only_evaluates: bool = False  # The row contains the answer, so nothing is generated and no iteration limit applies
    is_deleted: bool = False  # The item has ended, and its job was deleted with all results
    number: int = 0  # The position of the item in its run, from 1

    @property
    def has_verdict(self) -> bool:
        """Whether an answer was returned and evaluated. An error of the evaluator is no verdict."""
        if self.status != "succeeded" or self.success is None:
            return False
        return self.success or self.final_score is not None

    @property
    def is_accepted(self) -> bool:
        return self.has_verdict and self.success is True

    @property
    def accepted_at(self) -> int | None:
        """The first iteration with an accepted answer, or None."""
        if not self.is_accepted:
            return None
        if True in self.passed_by_iteration:
            return self.passed_by_iteration.index(True) + 1
        return self.best_iteration or max(1, self.iterations)


def item_outcome(status: str, *, is_accepted: bool, is_evaluated: bool) -> str:
    """Return the outcome of an item: the outcome of its job, or `invalid` for a row that became no job."""
    if status == "invalid":
        return status
    return outcome_of(status, is_accepted=is_accepted, is_evaluated=is_evaluated)


def by_row(items: Iterable[ItemOutcome]) -> dict[str, list[ItemOutcome]]:
    """Group the items by row, in the order of their repeats."""
    rows: defaultdict[str, list[ItemOutcome]] = defaultdict(list)
    for item in items:
        rows[item.custom_id].append(item)
    return {name: sorted(row, key=lambda item: item.repeat) for name, row in rows.items()}


def sum_costs(costs: Iterable[Decimal | None]) -> Decimal | None:
    """Return the sum, or None if one of the costs is unknown."""
    known = list(costs)
    return None if None in known else sum((cost for cost in known if cost is not None), Decimal(0))


def sum_calls(totals: Iterable[CallTotals]) -> CallTotals:
    known = list(totals)
    return CallTotals(*(sum(getattr(each, name) for each in known) for name in ("calls", "tokens", "seconds")))
