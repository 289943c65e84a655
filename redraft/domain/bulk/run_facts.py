"""Compute the figures of a run's report from its outcomes. `redraft/reports` formats them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from redraft.domain.bulk.outcomes import ItemOutcome, by_row, sum_costs
from redraft.domain.bulk.recommendations import Recommendation, recommend_iter_max, recommend_threshold
from redraft.domain.bulk.uplift import Uplift, measure_uplift
from redraft.domain.statistics.bootstrap import SEED, mean_of
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
    """How many items are in each state: total = queued + running + succeeded + failed + canceled + invalid.

    Attributes:
        judged: of the succeeded ones, those with a verdict, which figures of scores and passes rest on.
        accepted: of the judged ones.
        rows: different `custom_id`s; as many as `total` without repeats.
        deleted: of those that have ended, whose jobs were deleted: they are in no other figure than these counts.
        deleted_answers: of the deleted ones, those that succeeded.
    """

    total: int
    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int
    invalid: int
    judged: int
    accepted: int
    rows: int
    deleted: int = 0
    deleted_answers: int = 0


@dataclass(frozen=True, slots=True)
class Costs:
    """What a run has cost, failures included, and what that makes for each accepted answer.

    Attributes:
        total_usd: None where the price of a call is unknown or a job was deleted, never 0 for it.
        known_usd: what is known of it: the least that it was.
        unpriced: the items whose price is unknown.
        per_accepted_usd: None without an accepted answer, or where the total is unknown; the tokens likewise.
    """

    total_usd: Decimal | None
    known_usd: Decimal
    unpriced: int
    per_accepted_usd: Decimal | None
    input_tokens: int
    output_tokens: int
    input_tokens_per_accepted: float | None
    output_tokens_per_accepted: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the start to the end of the items that succeeded; quantiles by definition 7 (see `quantile`)."""

    n: int
    p50: float
    p90: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """The items with one error code, and what one of them says."""

    code: str
    count: int
    example_id: str
    example_words: str | None


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """The evaluator beside the dataset's human columns, over the items with a verdict and a human one.

    Attributes:
        passes: who passes what, with agreement and Cohen's kappa; its `n` is 0 without `human_pass`.
        scores: how many items have both scores.
        error: the mean absolute error of the scores; None where people score on another scale than 0 to 1.
        bias: the evaluator's score less the human one, on the same condition.
        order: Spearman's rank correlation, the usual figure for judges, since it holds on any scale.
    """

    passes: Crossing
    scores: int
    error: Mean | None
    bias: Mean | None
    order: Correlation | None


@dataclass(frozen=True, slots=True)
class Bin:
    """How many scores are at or above `low` and below `high`; the last one holds 1 as well."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class RunReport:
    """The figures of a run, finished or not. A figure that cannot be computed is None.

    Attributes:
        stop_reasons: how many items ended for which, the most frequent first.
        pass_rate: accepted / judged, with its Wilson interval; repeats of a row widen it.
        final_score: the mean, rows resampled with their repeats.
        uplift: from the first answer to the returned one, and what each iteration brought and cost.
        agreement: None without a human verdict on an item that has one.
        first_scores: a histogram; `final_scores` likewise.
    """

    counts: Counts
    stop_reasons: Mapping[str, int]
    pass_rate: Estimate | None
    final_score: Mean | None
    uplift: Uplift
    iter_max_advice: Recommendation
    threshold_advice: Recommendation
    costs: Costs
    latency: Latency | None
    errors: tuple[ErrorGroup, ...]
    agreement: HumanAgreement | None
    first_scores: tuple[Bin, ...]
    final_scores: tuple[Bin, ...]


def report_on(items: Sequence[ItemOutcome], *, threshold: float | None = None, seed: int = SEED) -> RunReport:
    """All figures of a run; the same for the same items, in whatever order they come.

    Args:
        items: all of the run, in any state.
        threshold: the run's, if all items have the same.
        seed: of the bootstrap.
    """
    judged = [item for item in items if item.has_verdict]
    scored = [(item.final_score, item.custom_id) for item in judged if item.final_score is not None]
    return RunReport(
        counts=count_items(items),
        stop_reasons=_ranked(item.stop_reason for item in items if item.stop_reason is not None),
        pass_rate=pass_rate_of(judged),
        final_score=mean_of([score for score, _ in scored], clusters=[row for _, row in scored], seed=seed),
        uplift=measure_uplift(judged, seed=seed),
        iter_max_advice=recommend_iter_max(judged),
        threshold_advice=recommend_threshold(judged, threshold=threshold),
        costs=add_costs(items),
        latency=measure_latency(items),
        errors=group_errors(items),
        agreement=compare_with_people(judged, seed=seed),
        first_scores=histogram(item.first_score for item in judged),
        final_scores=histogram(item.final_score for item in judged),
    )


def count_items(items: Sequence[ItemOutcome]) -> Counts:
    by_status = Counter(item.status for item in items)
    return Counts(
        total=len(items),
        queued=by_status["queued"],
        running=by_status["running"],
        succeeded=by_status["succeeded"],
        failed=by_status["failed"],
        canceled=by_status["canceled"],
        invalid=by_status["invalid"],
        judged=sum(item.has_verdict for item in items),
        accepted=sum(item.is_accepted for item in items),
        rows=len({item.custom_id for item in items}),
        deleted=sum(item.is_deleted for item in items),
        deleted_answers=sum(item.is_deleted and item.status == "succeeded" for item in items),
    )


def pass_rate_of(items: Iterable[ItemOutcome]) -> Estimate | None:
    """The share accepted of the items with a verdict."""
    rows = by_row(item for item in items if item.has_verdict).values()
    return clustered_share([(sum(item.is_accepted for item in row), len(row)) for row in rows])


def add_costs(items: Sequence[ItemOutcome]) -> Costs:
    spent = [item for item in items if item.has_called and not item.is_deleted]
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
    """None unless an item has succeeded: how soon others failed says nothing of answers."""
    seconds = sorted(item.seconds for item in items if item.status == "succeeded" and item.seconds is not None)
    if not seconds:
        return None
    p50, p90, p95, p99 = (read_quantile(seconds, at) for at in (0.5, 0.9, 0.95, 0.99))
    return Latency(len(seconds), p50, p90, p95, p99, seconds[-1])


def group_errors(items: Iterable[ItemOutcome]) -> tuple[ErrorGroup, ...]:
    """The errors by code, the most frequent first: of items that failed or are invalid, and of those that ended early.

    The example is that of the first `custom_id` in order.
    """
    groups: defaultdict[str, list[ItemOutcome]] = defaultdict(list)
    for item in items:
        if item.is_deleted:
            continue
        if item.error_code is not None or item.status in ("failed", "invalid"):
            groups[item.error_code or UNKNOWN_ERROR].append(item)
    found: list[ErrorGroup] = []
    for code, group in groups.items():
        example = min(group, key=lambda item: (item.error_words is None, item.custom_id, item.repeat))
        found.append(ErrorGroup(code, len(group), example.custom_id, example.error_words))
    return tuple(sorted(found, key=lambda group: (-group.count, group.code)))


def compare_with_people(items: Iterable[ItemOutcome], *, seed: int = SEED) -> HumanAgreement | None:
    """None unless a person has judged an item that has a verdict."""
    judged = [item for item in items if item.has_verdict]
    said = Counter((item.human_pass, item.is_accepted) for item in judged if item.human_pass is not None)
    scored = [
        (item.human_score, item.final_score, item.custom_id)
        for item in judged
        if item.human_score is not None and item.final_score is not None
    ]
    if not said and not scored:
        return None
    on_scale = all(0 <= human <= 1 for human, _, _ in scored)
    gaps = [ours - human for human, ours, _ in scored] if on_scale else []
    rows = [row for _, _, row in scored] if on_scale else []
    return HumanAgreement(
        passes=Crossing(said[True, True], said[False, True], said[True, False], said[False, False]),
        scores=len(scored),
        error=mean_of([abs(gap) for gap in gaps], clusters=rows, seed=seed),
        bias=mean_of(gaps, clusters=rows, seed=seed),
        order=spearman([(human, ours) for human, ours, _ in scored]),
    )


def histogram(scores: Iterable[float | None], bins: int = BINS) -> tuple[Bin, ...]:
    """How scores of 0 to 1 spread over bins of the same width; those that are None are left out.

    A score within 1e-9 below the edge of a bin is in it, as one so near to a threshold meets it.
    """
    counts = Counter(min(bins - 1, int(score * bins + bins * 1e-9)) for score in scores if score is not None)
    return tuple(Bin(at / bins, (at + 1) / bins, counts[at]) for at in range(bins))


def _ranked(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda named: (-named[1], named[0])))
