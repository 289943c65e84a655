"""Compare two runs on the same rows: which rows are better or worse, and whether the difference is significant.

The comparison is paired by row, because an unpaired comparison misses smaller differences. Each run has its own
evaluator and threshold. If the runs differ in these, their scores and pass rates are not comparable. The p-values are
not corrected for several comparisons with the same baseline.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from redraft.domain.bulk.outcomes import SAME, ItemOutcome, by_row
from redraft.domain.bulk.phrases import count, describe_difference, format_names, format_p, format_score
from redraft.domain.statistics.bootstrap import mean_difference
from redraft.domain.statistics.estimates import Mean, mcnemar_p, paired_share_difference

_LOWER_SHOWN = 10

_Rows = Mapping[str, Sequence[ItemOutcome]]


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """The average over the evaluated repeats of a row in one run."""

    pass_share: float  # The share of accepted repeats
    score: float | None  # The mean final score, or None if no repeat has a score

    @property
    def passes(self) -> bool:
        return self.pass_share > 0.5


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Rows that lack a verdict in one run or in both. All other figures leave these rows out."""

    lost: tuple[str, ...]  # Rows with a verdict in the baseline only
    won: tuple[str, ...]  # Rows with a verdict in the new run only
    neither: tuple[str, ...]  # Rows of both runs without a verdict in either
    p: float  # The p-value of McNemar's exact test of `lost` against `won`
    repeats_without: int  # The number of repeats without a verdict, over the compared rows of both runs


@dataclass(frozen=True, slots=True)
class Comparison:
    """A new run compared with a baseline. Differences are new minus baseline. Rows are given as sorted `custom_id`s."""

    n: int  # The number of compared rows: those with a verdict in both runs
    score: Mean | None  # The difference of mean final scores over the rows with a score in both
    pass_rate: Mean | None  # The difference of pass rates
    mcnemar_p: float | None  # McNemar's p-value of the rows that pass in only one run; None without a compared row
    wins: int  # The number of rows with a higher score in the new run; `losses`: with a lower score
    ties: int
    losses: int
    newly_passing: tuple[str, ...]  # The rows that pass only in the new run; `newly_failing`: only in the baseline
    newly_failing: tuple[str, ...]
    verdicts: Verdicts
    only_in_baseline: tuple[str, ...]
    only_in_new: tuple[str, ...]
    words: tuple[str, ...]  # The comparison in sentences


def compare(baseline: Sequence[ItemOutcome], new: Sequence[ItemOutcome], *, name: str = "the baseline") -> Comparison:
    """Compare all items of a new run with all items of a baseline. `name` is the baseline's name in the sentences."""
    before, after = by_row(baseline), by_row(new)
    verdicts_before, verdicts_after = verdicts_of(before), verdicts_of(after)
    rows = sorted(verdicts_before.keys() & verdicts_after.keys())
    pairs = [(verdicts_before[row], verdicts_after[row]) for row in rows]
    scores = [(a.score, b.score) for a, b in pairs if a.score is not None and b.score is not None]
    passing = tuple(row for row, (a, b) in zip(rows, pairs, strict=True) if b.passes and not a.passes)
    failing = tuple(row for row, (a, b) in zip(rows, pairs, strict=True) if a.passes and not b.passes)
    found = Comparison(
        n=len(rows),
        score=mean_difference(scores),
        pass_rate=paired_share_difference([b.pass_share - a.pass_share for a, b in pairs]),
        mcnemar_p=mcnemar_p(len(failing), len(passing)) if rows else None,
        wins=sum(b > a + SAME for a, b in scores),
        ties=sum(abs(b - a) <= SAME for a, b in scores),
        losses=sum(b < a - SAME for a, b in scores),
        newly_passing=passing,
        newly_failing=failing,
        verdicts=_compare_verdicts(before, after),
        only_in_baseline=tuple(sorted(before.keys() - after.keys())),
        only_in_new=tuple(sorted(after.keys() - before.keys())),
        words=(),
    )
    return replace(found, words=_say(found, name, _describe_lower(dict(zip(rows, pairs, strict=True)))))


def verdicts_of(rows: _Rows) -> dict[str, RowVerdict]:
    """Average the evaluated repeats of each row. Each row counts once, however many repeats it has."""
    found: dict[str, RowVerdict] = {}
    for name, row in rows.items():
        evaluated = [item for item in row if item.has_verdict]
        scores = [item.final_score for item in evaluated if item.final_score is not None]
        if evaluated:
            share = sum(item.is_accepted for item in evaluated) / len(evaluated)
            found[name] = RowVerdict(share, fsum(scores) / len(scores) if scores else None)
    return found


def _compare_verdicts(before: _Rows, after: _Rows) -> Verdicts:
    kinds: defaultdict[tuple[bool, bool], list[str]] = defaultdict(list)
    for name in sorted(before.keys() & after.keys()):
        kinds[any(item.has_verdict for item in before[name]), any(item.has_verdict for item in after[name])].append(
            name
        )
    lost, won, neither = (tuple(kinds[kind]) for kind in ((True, False), (False, True), (False, False)))
    compared = [item for rows in (before, after) for name in kinds[True, True] for item in rows[name]]
    repeats_without = sum(not item.has_verdict for item in compared)
    return Verdicts(lost, won, neither, mcnemar_p(len(lost), len(won)), repeats_without)


def _describe_lower(pairs: Mapping[str, tuple[RowVerdict, RowVerdict]]) -> str:
    """Name the rows with a lower score in the new run, the largest change first."""
    scores = [(row, a.score, b.score) for row, (a, b) in pairs.items() if a.score is not None and b.score is not None]
    lower = sorted((b - a, row, a, b) for row, a, b in scores if b < a - SAME)
    if not lower:
        return ""
    shown = [f"{row} ({format_score(a)} to {format_score(b)})" for _, row, a, b in lower[:_LOWER_SHOWN]]
    more = f" and {len(lower) - _LOWER_SHOWN} more" if len(lower) > _LOWER_SHOWN else ""
    return f" Lower score in {count(len(lower), 'row')}: {', '.join(shown)}{more}."


def _say(found: Comparison, name: str, lower: str) -> tuple[str, ...]:
    if found.mcnemar_p is None:
        return (f"No row can be compared with {name}: none has a verdict in both.", *_describe_left_out(found, name))
    losses = "1 loss" if found.losses == 1 else f"{found.losses} losses"
    return (
        describe_difference("mean score", found.score, than=f"that of {name}") + lower,
        describe_difference("pass rate", found.pass_rate, than=f"that of {name}", unit="points", p=found.mcnemar_p),
        f"By score: {count(found.wins, 'win')}, {count(found.ties, 'tie')}, {losses}.",
        describe_flips(found),
        *_describe_left_out(found, name),
    )


def describe_flips(found: Comparison) -> str:
    """Describe the rows that pass in only one run, with the p-value of McNemar's test of their numbers."""
    if found.mcnemar_p is None or not (found.newly_failing or found.newly_passing):
        return f"Of {count(found.n, 'row')} compared none passes in one run only."
    parts = [
        f"{count(len(rows), 'row')} newly {what}" + (f" ({format_names(rows)})" if rows else "")
        for what, rows in (("failing", found.newly_failing), ("passing", found.newly_passing))
    ]
    return f"{', '.join(parts)}; McNemar's exact test: {format_p(found.mcnemar_p)}."


def _describe_left_out(found: Comparison, name: str) -> list[str]:
    verdicts = found.verdicts
    kinds = (
        (verdicts.lost, f"with a verdict in {name} only"),
        (verdicts.won, "with a verdict in the new run only"),
        (verdicts.neither, "without a verdict in either"),
        (found.only_in_baseline, f"in {name} only"),
        (found.only_in_new, "in the new run only"),
    )
    words = [f"Left out: {count(len(rows), 'row')} {where} ({format_names(rows)})." for rows, where in kinds if rows]
    if verdicts.repeats_without:
        words.append(f"Left out: {count(verdicts.repeats_without, 'repeat')} of compared rows without a verdict.")
    return words
