"""Compare two runs on the same rows: which rows are better or worse, and whether the difference is significant.

The comparison is paired, because an unpaired one misses differences that a paired one finds. Repeats of a row are
averaged first, so that each row counts once. Each run has its own evaluator and threshold; if they differ, scores and
pass rates are not comparable. The p-values are not corrected for several comparisons with one baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from redraft.domain.bulk.outcomes import SAME, ItemOutcome, by_row
from redraft.domain.bulk.phrases import count, say_difference, say_names, say_p
from redraft.domain.statistics.bootstrap import SEED, mean_difference
from redraft.domain.statistics.estimates import Mean, mcnemar_p, paired_share_difference


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """A row of one run, its repeats averaged.

    Attributes:
        pass_share: the share of its repeats that were accepted, of those with a verdict.
        score: their mean final score; None where none has one.
    """

    pass_share: float
    score: float | None

    @property
    def passes(self) -> bool:
        """Accepted in more than half of its repeats."""
        return self.pass_share > 0.5


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Rows with and without a verdict. Rows without one (unfinished, failed, not evaluated) are in no other figure.

    Attributes:
        lost: rows with a verdict in the baseline, none in the new run.
        won: the other way round.
        neither: rows of both runs without a verdict in either.
        p: of McNemar's exact test of `lost` against `won`.
        repeats_without: repeats without a verdict, of rows that are compared by their other repeats; of both runs.
    """

    lost: tuple[str, ...]
    won: tuple[str, ...]
    neither: tuple[str, ...]
    p: float
    repeats_without: int

    @property
    def left_out(self) -> int:
        return len(self.lost) + len(self.won) + len(self.neither)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A new run against a baseline. Differences are the new less the baseline; rows are named by `custom_id`, in order.

    Attributes:
        n: the rows compared: those of both runs with a verdict in both.
        score: the difference of mean final scores, over the rows with a score in both, with its bootstrap interval.
        pass_rate: the difference of pass rates, with the interval of Bonett and Price.
        mcnemar_p: of the flips, by McNemar's exact test; None without a row.
        wins: the rows that score higher in the new run; `losses`: lower; `ties`: the same.
        newly_passing: the rows that pass in the new run only; `newly_failing`: in the baseline only.
        only_in_baseline: rows that the new run does not have; `only_in_new` the other way round.
        words: all that, in sentences.
    """

    n: int
    score: Mean | None
    pass_rate: Mean | None
    mcnemar_p: float | None
    wins: int
    ties: int
    losses: int
    newly_passing: tuple[str, ...]
    newly_failing: tuple[str, ...]
    verdicts: Verdicts
    only_in_baseline: tuple[str, ...]
    only_in_new: tuple[str, ...]
    words: tuple[str, ...]


def compare(
    baseline: Sequence[ItemOutcome], new: Sequence[ItemOutcome], *, name: str = "the baseline", seed: int = SEED
) -> Comparison:
    """Compare a new run with a baseline on the rows that both have.

    Args:
        baseline: all items of the one run.
        new: all items of the other.
        name: of the baseline, for the words.
        seed: of the bootstrap.
    """
    before, after = by_row(baseline), by_row(new)
    verdicts_before, verdicts_after = verdicts_of(before), verdicts_of(after)
    rows = sorted(verdicts_before.keys() & verdicts_after.keys())
    pairs = [(verdicts_before[row], verdicts_after[row]) for row in rows]
    scores = [(a.score, b.score) for a, b in pairs if a.score is not None and b.score is not None]
    passing = tuple(row for row, (a, b) in zip(rows, pairs, strict=True) if b.passes and not a.passes)
    failing = tuple(row for row, (a, b) in zip(rows, pairs, strict=True) if a.passes and not b.passes)
    found = Comparison(
        n=len(rows),
        score=mean_difference(scores, seed=seed),
        pass_rate=paired_share_difference([b.pass_share - a.pass_share for a, b in pairs]),
        mcnemar_p=mcnemar_p(len(failing), len(passing)) if rows else None,
        wins=sum(b > a + SAME for a, b in scores),
        ties=sum(abs(b - a) <= SAME for a, b in scores),
        losses=sum(b < a - SAME for a, b in scores),
        newly_passing=passing,
        newly_failing=failing,
        verdicts=_who_has_one(before, after, set(verdicts_before), set(verdicts_after)),
        only_in_baseline=tuple(sorted(before.keys() - after.keys())),
        only_in_new=tuple(sorted(after.keys() - before.keys())),
        words=(),
    )
    return replace(found, words=_say(found, name))


def compare_all(
    baseline: Sequence[ItemOutcome],
    runs: Mapping[str, Sequence[ItemOutcome]],
    *,
    name: str = "the baseline",
    seed: int = SEED,
) -> dict[str, Comparison]:
    """Each run, by its name, against one baseline."""
    return {run: compare(baseline, items, name=name, seed=seed) for run, items in runs.items()}


def verdicts_of(rows: Mapping[str, Sequence[ItemOutcome]]) -> dict[str, RowVerdict]:
    """By name, what each row came to whose items have a verdict."""
    found: dict[str, RowVerdict] = {}
    for name, row in rows.items():
        evaluated = [item for item in row if item.has_verdict]
        scores = [item.final_score for item in evaluated if item.final_score is not None]
        if evaluated:
            share = sum(item.is_accepted for item in evaluated) / len(evaluated)
            found[name] = RowVerdict(share, fsum(scores) / len(scores) if scores else None)
    return found


def _who_has_one(
    before: Mapping[str, Sequence[ItemOutcome]],
    after: Mapping[str, Sequence[ItemOutcome]],
    evaluated_before: set[str],
    evaluated_after: set[str],
) -> Verdicts:
    both = before.keys() & after.keys()
    lost = sorted(both & (evaluated_before - evaluated_after))
    won = sorted(both & (evaluated_after - evaluated_before))
    compared = evaluated_before & evaluated_after
    without = sum(not item.has_verdict for rows in (before, after) for name in compared for item in rows[name])
    return Verdicts(
        lost=tuple(lost),
        won=tuple(won),
        neither=tuple(sorted(both - evaluated_before - evaluated_after)),
        p=mcnemar_p(len(lost), len(won)),
        repeats_without=without,
    )


def _say(found: Comparison, name: str) -> tuple[str, ...]:
    if found.mcnemar_p is None:
        return (f"No row can be compared with {name}: none has a verdict in both.", *_say_left_out(found, name))
    return (
        say_difference("mean score", found.score, than=f"that of {name}"),
        say_difference("pass rate", found.pass_rate, than=f"that of {name}", unit="points", p=found.mcnemar_p),
        f"By score: {count(found.wins, 'win')}, {count(found.ties, 'tie')}, "
        + ("1 loss." if found.losses == 1 else f"{found.losses} losses."),
        say_flips(found),
        *_say_left_out(found, name),
    )


def say_flips(found: Comparison) -> str:
    """Find the rows that pass in one run only, and the p-value of their numbers."""
    if found.mcnemar_p is None or not (found.newly_failing or found.newly_passing):
        return f"Of {count(found.n, 'row')} compared none passes in one run only."
    parts = [
        f"{count(len(rows), 'row')} newly {what}" + (f" ({say_names(rows)})" if rows else "")
        for what, rows in (("failing", found.newly_failing), ("passing", found.newly_passing))
    ]
    return f"{', '.join(parts)}; McNemar's exact test: {say_p(found.mcnemar_p)}."


def _say_left_out(found: Comparison, name: str) -> list[str]:
    verdicts = found.verdicts
    kinds = (
        (verdicts.lost, f"with a verdict in {name} only"),
        (verdicts.won, "with a verdict in the new run only"),
        (verdicts.neither, "without a verdict in either"),
        (found.only_in_baseline, f"in {name} only"),
        (found.only_in_new, "in the new run only"),
    )
    words = [f"Left out: {count(len(rows), 'row')} {where} ({say_names(rows)})." for rows, where in kinds if rows]
    if verdicts.repeats_without:
        words.append(f"Left out: {count(verdicts.repeats_without, 'repeat')} without a verdict of rows compared.")
    return words
