"""Compare runs criterion by criterion, on the returned answers to the same rows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_statistics import CriterionRate, rate_criteria
from redraft.domain.statistics.estimates import Mean, paired_share_difference

# By id of the criterion and row, the share of the repeats that meet the criterion
_Shares = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ComparedCriterion:
    """One criterion in several runs. Rows are given as `custom_id`s.

    Attributes:
        rates: the rates of each run, the baseline first. None if no answer of the run has a verdict on the criterion.
        differences: for each run except the baseline, the difference of the share that meets the criterion, over the
            rows with a verdict in both; None without such a row.
        newly_not_met: the rows that meet the criterion in the baseline, but not in the second run.
        newly_met: the rows that meet the criterion in the second run, but not in the baseline.
    """

    id: str
    text: str
    rates: tuple[CriterionRate | None, ...]
    differences: tuple[Mean | None, ...]
    newly_not_met: frozenset[str]
    newly_met: frozenset[str]


def compare_criteria(runs: Sequence[Sequence[ItemOutcome]]) -> tuple[ComparedCriterion, ...]:
    """Compare runs with the first one. The criterion with the largest loss in the second run comes first."""
    evaluated = [[item for item in run if item.has_verdict] for run in runs]
    rates = [{rate.id: rate for rate in rate_criteria(run)} for run in evaluated]
    shares = [_shares_met(run) for run in evaluated]
    names = dict.fromkeys(name for run in rates for name in run)
    found = [_compare(name, [run.get(name) for run in rates], shares) for name in names]
    return tuple(sorted(found, key=_loss_first))


def _shares_met(items: Sequence[ItemOutcome]) -> _Shares:
    verdicts: defaultdict[str, defaultdict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        for each in item.criteria:
            if each.returned is not None:
                verdicts[each.id][item.custom_id].append(each.returned)
    return {name: {row: sum(met) / len(met) for row, met in rows.items()} for name, rows in verdicts.items()}


def _compare(name: str, rates: Sequence[CriterionRate | None], shares: Sequence[_Shares]) -> ComparedCriterion:
    old, *others = [run.get(name, {}) for run in shares]
    differences = [paired_share_difference([run[row] - old[row] for row in old.keys() & run.keys()]) for run in others]
    # A row with repeats meets the criterion if more than half of them do
    met = [{row for row, share in run.items() if share > 0.5} for run in (old, others[0])]
    both = old.keys() & others[0].keys()
    return ComparedCriterion(
        name,
        next(rate.text for rate in rates if rate),
        tuple(rates),
        tuple(differences),
        newly_not_met=frozenset(both & met[0] - met[1]),
        newly_met=frozenset(both & met[1] - met[0]),
    )


def _loss_first(each: ComparedCriterion) -> tuple[float, int, str]:
    change = each.differences[0]
    not_met = fsum(rate.not_met for rate in each.rates if rate)
    return (change.value if change else 0.0, -int(not_met), each.id)
