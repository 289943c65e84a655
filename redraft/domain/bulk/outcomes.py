"""Outcomes of the items of a run: the plain rows behind reports and comparisons."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

ItemStatus = Literal["queued", "running", "succeeded", "failed", "canceled", "invalid"]

SAME = 1e-9
"""Scores that differ by no more than this are the same: what binary fractions leave over."""


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """One item of a run: a row of its dataset, or one repeat of it. Scores are 0 to 1.

    Attributes:
        custom_id: names the row; its repeats share it, and it pairs the rows of two runs.
        repeat: from 1.
        success: the returned answer was accepted; None without an answer or an evaluation.
        first_score: the score of the best answer of iteration 1.
        final_score: the score of the returned answer, by the same evaluator; None without one.
        best_iteration: which iteration wrote the returned answer.
        scores_by_iteration: the best score of each iteration, from the first on; None where there is none.
        passed_by_iteration: whether an answer of that iteration was accepted.
        iterations: how many were generated.
        cost_usd: of all calls, failed ones included; None where a price is unknown.
        cost_by_iteration: the same by iteration; empty where it cannot be told.
        seconds: from the start to the end.
        error_code: why the item failed, is invalid, or ended early though it has an answer.
        error_words: the same in words.
        human_score: what a person gives the returned answer; on a scale of its own if it must.
        human_pass: whether a person accepts the returned answer.
        audit_score: the score of the independent evaluator for the returned answer.
        audit_passed: whether the independent evaluator accepts it.
        only_evaluates: its row has the answer: nothing is generated, so there is no iteration limit.
        is_deleted: it has ended, and its job was deleted with all results.
    """

    custom_id: str
    repeat: int = 1
    status: ItemStatus = "queued"
    stop_reason: str | None = None
    success: bool | None = None
    first_score: float | None = None
    final_score: float | None = None
    best_iteration: int | None = None
    scores_by_iteration: tuple[float | None, ...] = ()
    passed_by_iteration: tuple[bool, ...] = ()
    iterations: int = 0
    cost_usd: Decimal | None = None
    cost_by_iteration: tuple[Decimal | None, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float | None = None
    error_code: str | None = None
    error_words: str | None = None
    human_score: float | None = None
    human_pass: bool | None = None
    audit_score: float | None = None
    audit_passed: bool | None = None
    only_evaluates: bool = False
    is_deleted: bool = False

    @property
    def has_verdict(self) -> bool:
        """An answer was returned and judged. An evaluator's error is no verdict: it is neither a pass nor a fail."""
        if self.status != "succeeded" or self.success is None:
            return False
        return self.success or self.final_score is not None

    @property
    def is_accepted(self) -> bool:
        return self.has_verdict and self.success is True

    @property
    def accepted_at(self) -> int | None:
        """The iteration whose answer was the first to be accepted; None if none was."""
        if not self.is_accepted:
            return None
        if True in self.passed_by_iteration:
            return self.passed_by_iteration.index(True) + 1
        return self.best_iteration or max(1, self.iterations)

    @property
    def has_called(self) -> bool:
        """It may have called a model, and so have cost something."""
        return self.status not in ("queued", "invalid")


def by_row(items: Iterable[ItemOutcome]) -> dict[str, list[ItemOutcome]]:
    """The items of each row, in the order of their repeats."""
    rows: defaultdict[str, list[ItemOutcome]] = defaultdict(list)
    for item in items:
        rows[item.custom_id].append(item)
    return {name: sorted(row, key=lambda item: item.repeat) for name, row in rows.items()}


def sum_costs(costs: Iterable[Decimal | None]) -> Decimal | None:
    """None as soon as one of them is unknown."""
    total = Decimal(0)
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return total
