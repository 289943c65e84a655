"""Compute the figures of a run's report from its outcomes. `redraft/reports` formats them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import get_args

from redraft.domain.bulk.outcomes import ItemCriterion, ItemOutcome, ItemStatus, by_row, sum_costs
from redraft.domain.bulk.recommendations import Recommendation, recommend_iter_max, recommend_threshold
from redraft.domain.bulk.repeats import Repeats, measure_repeats
from redraft.domain.bulk.uplift import Uplift, measure_uplift
from redraft.domain.statistics.bootstrap import mean_of
from redraft.domain.statistics.estimates import (
    Correlation,
    Crossing,
    Estimate,
    Mean,
    clustered_share,
    read_quantile,
    spearman,
)

BINS = 10
UNKNOWN_ERROR = "unknown"


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of items in each state: total = queued + running + succeeded + failed + canceled + invalid."""

    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int
    invalid: int
    judged: int  # The number of succeeded items with a verdict, from which all scores and pass rates are computed
    accepted: int  # The number of accepted items among `judged`
    rows: int  # The number of different `custom_id`s
    deleted: int = 0  # The number of ended items whose jobs were deleted. No figure except these counts includes them
    deleted_answers: int = 0  # The number of succeeded items among `deleted`


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a run, failed calls included, in total and per accepted answer."""

    total_usd: Decimal | None  # None if a price is unknown or a job was deleted
    known_usd: Decimal  # The sum of the known costs
    unpriced: int  # The number of items with an unknown price
    per_accepted_usd: Decimal | None  # None without an accepted answer or a total
    input_tokens: int
    output_tokens: int
    input_tokens_per_accepted: float | None
    output_tokens_per_accepted: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Quantiles of the seconds from the start to the end of the succeeded items."""

    n: int
    p50: float
    p90: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """The items with one error code, with the message of one item."""

    code: str
    count: int
    example_id: str
    example_words: str | None


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """The agreement of the evaluator with the dataset's human columns, over the items with both verdicts."""

    passes: Crossing  # The table of both verdicts; its `n` is 0 without `human_pass`
    scores: int  # The number of items with both scores
    error: Mean | None  # The mean absolute error of the scores; None if the scores of people are not from 0 to 1
    bias: Mean | None  # The mean of (evaluator's score - human score); None like `error`
    order: Correlation | None  # Spearman's rank correlation, which is valid on any scale


@dataclass(frozen=True, slots=True)
class Bin:
    """The number of scores from `low` to below `high`; the last bin includes 1."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class CriterionRate:
    """How many items met one criterion of their rubric, in the first and in the returned answer."""

    id: str
    text: str  # The text that most answers do not meet; each row can give the criterion its own text or check value
    judged: int  # The number of returned answers with a verdict on the criterion
    not_met: int  # The number of these answers that do not meet it
    first: Estimate | None  # The share of first answers that meet it
    returned: Estimate | None  # The share of returned answers that meet it
    texts: int = 1  # The number of different texts
    weight: float | None = 1.0  # None if rows give it different weights


@dataclass(frozen=True, slots=True)
class RunReport:
    """The figures of a run, finished or not. A figure that cannot be computed is None."""

    counts: Counts
    stop_reasons: Mapping[str, int]  # The number of items by stop reason, the most frequent first
    pass_rate: Estimate | None  # Accepted / judged, with a Wilson interval, which repeats of a row widen
    final_score: Mean | None  # The mean, with an interval that resamples rows with their repeats
    uplift: Uplift
    iter_max_advice: Recommendation
    threshold_advice: Recommendation
    costs: Costs
    latency: Latency | None
    errors: tuple[ErrorGroup, ...]
    agreement: HumanAgreement | None  # None if no item has both verdicts
    first_scores: tuple[Bin, ...]  # Histograms of the first and of the final scores
    final_scores: tuple[Bin, ...]
    criteria: tuple[CriterionRate, ...] = ()  # The criterion with the largest share not met comes first
    repeats: Repeats | None = None  # None if no row has two evaluated repeats


def report_on(
    items: Sequence[ItemOutcome], *, threshold: float | None = None, has_only_checks: bool = False
) -> RunReport:
    """Compute all figures of a run in any state.

    Args:
        items: the outcomes of all items of the run.
        threshold: the threshold of all items, if they have the same.
        has_only_checks: no model evaluates the answers.
    """
    evaluated = [item for item in items if item.has_verdict]
    scored = [(item.final_score, item.custom_id) for item in evaluated if item.final_score is not None]
    reasons = Counter(item.stop_reason for item in items if item.stop_reason is not None)
    return RunReport(
        counts=count_items(items),
        stop_reasons=dict(sorted(reasons.items(), key=lambda named: (-named[1], named[0]))),
        pass_rate=pass_rate_of(evaluated),
        final_score=mean_of([score for score, _ in scored], clusters=[row for _, row in scored]),
        uplift=measure_uplift(evaluated, has_only_checks=has_only_checks),
        iter_max_advice=recommend_iter_max(evaluated),
        threshold_advice=recommend_threshold(evaluated, threshold=threshold),
        costs=add_costs(items),
        latency=measure_latency(items),
        errors=group_errors(items),
        agreement=compare_with_people(evaluated),
        first_scores=histogram(item.first_score for item in evaluated),
        final_scores=histogram(item.final_score for item in evaluated),
        criteria=rate_criteria(evaluated),
        repeats=measure_repeats(evaluated),
    )


def count_items(items: Sequence[ItemOutcome]) -> Counts:
    by_status = Counter(item.status for item in items)
    return Counts(
        total=len(items),
        **{status: by_status[status] for status in get_args(ItemStatus)},
        judged=sum(item.has_verdict for item in items),
        accepted=sum(item.is_accepted for item in items),
        rows=len({item.custom_id for item in items}),
        deleted=sum(item.is_deleted for item in items),
        deleted_answers=sum(item.is_deleted and item.status == "succeeded" for item in items),
    )


def pass_rate_of(items: Iterable[ItemOutcome]) -> Estimate | None:
    """Return the share of accepted items among those with a verdict."""
    rows = by_row(item for item in items if item.has_verdict).values()
    return clustered_share([(sum(item.is_accepted for item in row), len(row)) for row in rows])


def add_costs(items: Sequence[ItemOutcome]) -> Costs:
    # Items in these states have called no model.
    spent = [item for item in items if item.status not in ("queued", "invalid") and not item.is_deleted]
    accepted = sum(item.is_accepted for item in items)
    is_whole = not any(item.is_deleted for item in items)
    total = sum_costs(item.cost_usd for item in spent) if is_whole else None
    inputs, outputs = sum(item.input_tokens for item in spent), sum(item.output_tokens for item in spent)
    return Costs(
        total_usd=total,
        known_usd=sum((item.cost_usd for item in spent if item.cost_usd is not None), Decimal(0)),
        unpriced=sum(item.cost_usd is None for item in spent),
        per_accepted_usd=total / accepted if total is not None and accepted else None,
        input_tokens=inputs,
        output_tokens=outputs,
        input_tokens_per_accepted=inputs / accepted if accepted else None,
        output_tokens_per_accepted=outputs / accepted if accepted else None,
    )


def measure_latency(items: Iterable[ItemOutcome]) -> Latency | None:
    """Measure the time of the succeeded items, or return None without any. Failed items may be much faster."""
    seconds = sorted(item.seconds for item in items if item.status == "succeeded" and item.seconds is not None)
    if not seconds:
        return None
    p50, p90, p95, p99 = (read_quantile(seconds, at) for at in (0.5, 0.9, 0.95, 0.99))
    return Latency(len(seconds), p50, p90, p95, p99, seconds[-1])


def group_errors(items: Iterable[ItemOutcome]) -> tuple[ErrorGroup, ...]:
    """Group the items that failed, are invalid or ended early by error code, the most frequent code first.

    The example is the first item by `custom_id` that has a message.
    """
    groups: defaultdict[str, list[ItemOutcome]] = defaultdict(list)
    for item in items:
        if not item.is_deleted and (item.error_code is not None or item.status in ("failed", "invalid")):
            groups[item.error_code or UNKNOWN_ERROR].append(item)
    found: list[ErrorGroup] = []
    for code, group in groups.items():
        example = min(group, key=lambda item: (item.error_words is None, item.custom_id, item.repeat))
        found.append(ErrorGroup(code, len(group), example.custom_id, example.error_words))
    return tuple(sorted(found, key=lambda group: (-group.count, group.code)))


def compare_with_people(items: Iterable[ItemOutcome]) -> HumanAgreement | None:
    """Compare the verdicts of the evaluator with those of people. Return None if no item has both."""
    evaluated = [item for item in items if item.has_verdict]
    verdicts = Counter((item.human_pass, item.is_accepted) for item in evaluated if item.human_pass is not None)
    scored = [
        (item.human_score, item.final_score, item.custom_id)
        for item in evaluated
        if item.human_score is not None and item.final_score is not None
    ]
    if not verdicts and not scored:
        return None
    on_scale = all(0 <= human <= 1 for human, _, _ in scored)
    gaps = [ours - human for human, ours, _ in scored] if on_scale else []
    rows = [row for _, _, row in scored] if on_scale else []
    return HumanAgreement(
        passes=Crossing(verdicts[True, True], verdicts[False, True], verdicts[True, False], verdicts[False, False]),
        scores=len(scored),
        error=mean_of([abs(gap) for gap in gaps], clusters=rows),
        bias=mean_of(gaps, clusters=rows),
        order=spearman([(human, ours) for human, ours, _ in scored]),
    )


def rate_criteria(items: Iterable[ItemOutcome]) -> tuple[CriterionRate, ...]:
    """Return the rates of each criterion, the largest share of returned answers that do not meet it first."""
    found: defaultdict[str, list[tuple[str, ItemCriterion]]] = defaultdict(list)
    for item in items:
        for each in item.criteria:
            found[each.id].append((item.custom_id, each))
    rates: list[CriterionRate] = []
    for name, group in found.items():
        texts = Counter(each.text for _, each in group)
        failed = Counter(each.text for _, each in group if each.returned is False)
        text = max(texts, key=lambda each: (failed[each], texts[each]))
        returned = [(row, each.returned) for row, each in group if each.returned is not None]
        first = [(row, each.first) for row, each in group if each.first is not None]
        not_met = sum(not met for _, met in returned)
        shares = _share_met(first), _share_met(returned)
        weights = {each.weight for _, each in group}
        weight = weights.pop() if len(weights) == 1 else None
        rates.append(CriterionRate(name, text, len(returned), not_met, *shares, len(texts), weight))
    return tuple(sorted(rates, key=lambda rate: (-rate.not_met / max(1, rate.judged), -rate.not_met)))


def _share_met(verdicts: Sequence[tuple[str, bool]]) -> Estimate | None:
    rows: defaultdict[str, list[bool]] = defaultdict(list)
    for row, met in verdicts:
        rows[row].append(met)
    return clustered_share([(sum(row), len(row)) for row in rows.values()])


def histogram(scores: Iterable[float | None], bins: int = BINS) -> tuple[Bin, ...]:
    """Count scores from 0 to 1 in bins of equal width. Scores that are None are left out.

    A score at most 1e-9 below the lower end of a bin counts in that bin, because it would reach a threshold at that
    end.
    """
    counts = Counter(min(bins - 1, int(score * bins + bins * 1e-9)) for score in scores if score is not None)
    return tuple(Bin(at / bins, (at + 1) / bins, counts[at]) for at in range(bins))
