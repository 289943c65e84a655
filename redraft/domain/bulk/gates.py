"""Gates: conditions on a run that decide the exit code of its command. Each result states its reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from redraft.domain.bulk.comparison import Comparison, describe_flips
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.phrases import (
    SIGNIFICANT,
    count,
    describe_difference,
    direction_shown,
    format_names,
    format_p,
    format_share,
    percent,
)
from redraft.domain.bulk.run_statistics import pass_rate_of
from redraft.domain.evaluation.scores import meets

Gate = Literal["min_pass_rate", "fail_on_regression"]

BASELINE = "that of the baseline"


@dataclass(frozen=True, slots=True)
class GateResult:
    gate: Gate
    passed: bool
    words: str


def check_gates(
    items: Sequence[ItemOutcome],
    comparison: Comparison | None = None,
    *,
    min_pass_rate: float | None = None,
    fail_on_regression: bool = False,
) -> list[GateResult]:
    """Check the requested gates of a run. Without a comparison, the gate `fail_on_regression` fails."""
    results = [] if min_pass_rate is None else [check_pass_rate(items, min_pass_rate)]
    return [*results, check_regression(comparison)] if fail_on_regression else results


def check_pass_rate(items: Sequence[ItemOutcome], wanted: float) -> GateResult:
    """Return a result that passes if at least the wanted share of all items was accepted.

    Items that failed, are invalid or were not evaluated count as not accepted, because otherwise a run with many
    failures could pass. The pass rate of the report leaves such items out. The gate compares the share itself, not its
    interval.
    """
    if not items:
        return GateResult("min_pass_rate", passed=False, words="Not passed: there are no items.")
    accepted = sum(item.is_accepted for item in items)
    without = sum(not item.has_verdict for item in items)
    value = accepted / len(items)
    passed = meets(value, wanted)
    words = f"{'Passed' if passed else 'Not passed'}: {accepted} of {count(len(items), 'item')} accepted, "
    words += f"{percent(value)}; {percent(wanted)} is wanted."
    if without:
        words += f" {without} without a verdict {'counts' if without == 1 else 'count'} as not accepted"
        words += f"; of the others {format_share(pass_rate_of(items))} passed." if without < len(items) else "."
    return GateResult("min_pass_rate", passed, words)


def check_regression(comparison: Comparison | None) -> GateResult:
    """Return a result that fails if a test shows that the new run is worse than its baseline.

    A single row that newly fails is no regression, because answers vary. Each of these is a regression:
      - more rows newly fail than newly pass, by McNemar's exact test with p < 0.05;
      - the mean score is lower: the 95 % interval of the difference is below 0, over at least 20 rows;
      - more rows lost their verdict (failed, unfinished, not evaluated) than won one, by McNemar's exact test.

    If nothing has changed, each of the three gives a false alarm in at most about 1 of 40 comparisons. A small
    regression may stay undetected, so the message counts the newly failing rows and names the first ones. Without a row
    to compare, the gate fails, because a regression cannot be ruled out.
    """
    if comparison is None:
        return GateResult("fail_on_regression", passed=False, words="Not passed: there is no baseline to compare with.")
    if comparison.n == 0:
        return GateResult("fail_on_regression", passed=False, words="Not passed: no row can be compared.")
    if reasons := _regressions(comparison):
        return GateResult("fail_on_regression", passed=False, words=f"Not passed: {' '.join(reasons)}")
    words = [f"Passed: no regression shown in {count(comparison.n, 'row')}.", describe_flips(comparison)]
    return GateResult("fail_on_regression", passed=True, words=" ".join([*words, *_unproven_losses(comparison)]))


def _unproven_losses(comparison: Comparison) -> list[str]:
    """Describe the differences whose interval is below 0, although they do not count as regressions."""
    score, rate = comparison.score, comparison.pass_rate
    words: list[str] = []
    if score and score.high is not None and score.high < 0:
        words.append(describe_difference("mean score", score, than=BASELINE))
    if rate and rate.high is not None and rate.high < 0:
        words.append(describe_difference("pass rate", rate, than=BASELINE, unit="points", p=comparison.mcnemar_p))
    return words


def _regressions(comparison: Comparison) -> list[str]:
    verdicts, p = comparison.verdicts, comparison.mcnemar_p
    reasons: list[str] = []
    if p is not None and p < SIGNIFICANT and len(comparison.newly_failing) > len(comparison.newly_passing):
        reasons.append(describe_flips(comparison))
    if direction_shown(comparison.score) == "lower":
        reasons.append(describe_difference("mean score", comparison.score, than=BASELINE))
    if verdicts.p < SIGNIFICANT and len(verdicts.lost) > len(verdicts.won):
        reasons.append(
            f"{count(len(verdicts.lost), 'row')} lost their verdict ({format_names(verdicts.lost)}), "
            f"{len(verdicts.won)} won one; {format_p(verdicts.p)}."
        )
    return reasons
