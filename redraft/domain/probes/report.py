"""The result of a test of an evaluator: for each probe, how often a pair of answers got the wrong verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Literal

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.probes.probe_answers import PROBES, Probe, ProbeName
from redraft.domain.statistics.estimates import Estimate, clustered_share

# If scores differ by at least this much, the verdict counts as changed, even if both answers pass or both fail
SCORE_CHANGE = 0.2
# An evaluator fails a probe if even the low end of the flip rate's interval is above this limit. It passes the probe if
# the flip rate itself is not above the limit. Otherwise the result is unclear
FLIP_RATE_MAX = 0.1

Result = Literal["passed", "failed", "unclear", "no verdicts"]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The figures of one probe.

    Attributes:
        must_change: whether the verdict on the second answer of each pair must differ from the first one.
        pairs: the number of pairs with two verdicts.
        missing: the number of pairs without two verdicts, because an evaluation failed.
        flips: the number of pairs with the wrong verdicts.
        rate: the share of these pairs. Pairs of the same task count as related.
        score_change: the mean of the second score minus the first score.
        wrong_rows: the ids of the second rows of these pairs.
    """

    name: ProbeName
    title: str
    must_change: bool
    pairs: int
    missing: int
    flips: int
    rate: Estimate | None
    score_change: float | None
    result: Result
    wrong_rows: tuple[str, ...]


def report_probes(outcomes: Sequence[ItemOutcome]) -> list[ProbeResult]:
    """Compute the figures of each probe from the outcomes of a run with the rows of `probe_rows`."""
    by_id = {each.custom_id: each for each in outcomes}
    tasks = tuple(dict.fromkeys(name.partition(".")[0] for name in by_id))
    results = (_result(probe, tasks, by_id) for probe in PROBES)
    return [each for each in results if each.pairs + each.missing]


def _result(probe: Probe, tasks: Sequence[str], by_id: Mapping[str, ItemOutcome]) -> ProbeResult:
    clusters: list[tuple[int, int]] = []
    changes: list[float] = []
    wrong: list[str] = []
    missing = 0
    for task in tasks:
        names = [(f"{task}.{first}", f"{task}.{second}") for first, second in probe.pairs]
        there = [(by_id[first], by_id[second]) for first, second in names if first in by_id and second in by_id]
        pairs = [pair for pair in there if all(each.has_verdict for each in pair)]
        flipped = [second.custom_id for first, second in pairs if _is_wrong(probe, first, second)]
        changes += [_score(second) - _score(first) for first, second in pairs]
        clusters.append((len(flipped), len(pairs)))
        wrong += flipped
        missing += len(there) - len(pairs)
    rate = clustered_share(clusters)
    return ProbeResult(
        name=probe.name,
        title=probe.title,
        must_change=probe.must_change,
        pairs=len(changes),
        missing=missing,
        flips=len(wrong),
        rate=rate,
        score_change=fsum(changes) / len(changes) if changes else None,
        result=_judged(rate),
        wrong_rows=tuple(wrong),
    )


def _is_wrong(probe: Probe, first: ItemOutcome, second: ItemOutcome) -> bool:
    if probe.must_change:
        return not first.is_accepted or second.is_accepted
    return first.is_accepted != second.is_accepted or abs(_score(second) - _score(first)) >= SCORE_CHANGE - 1e-9


def _score(outcome: ItemOutcome) -> float:
    return outcome.final_score or 0.0


def _judged(rate: Estimate | None) -> Result:
    if rate is None:
        return "no verdicts"
    if rate.low > FLIP_RATE_MAX:
        return "failed"
    return "passed" if rate.value <= FLIP_RATE_MAX else "unclear"
