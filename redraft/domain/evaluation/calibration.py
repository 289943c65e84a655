"""How far an evaluator can be trusted: its verdicts beside those of people who rated them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from redraft.domain.statistics.estimates import Crossing, Estimate, Kappa, share

RATINGS_NEEDED = 30
"""Below this many the intervals are so wide that no figure should steer anything."""

Verdict = Literal["agree", "disagree", "unsure"]
Status = Literal["calibrated", "not calibrated"]


@dataclass(frozen=True, slots=True)
class Rated:
    """A person's rating, and what it is of.

    Attributes:
        verdict: what the person says of `passed`.
        passed: what the evaluator decided.
        score: the evaluator's, higher = better.
        own_score: the person's, if there is one.
    """

    verdict: Verdict
    passed: bool
    score: float | None = None
    own_score: float | None = None

    @property
    def person_passes(self) -> bool:
        return self.passed == (self.verdict == "agree")


@dataclass(frozen=True, slots=True)
class Bias:
    """How much higher people score than the evaluator, on average, where they gave a score."""

    value: float
    n: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """A score from which on people pass what the evaluator scored so.

    Attributes:
        value: accept at or above.
        precision: of the rated ones at or above it, the share that people pass.
        recall: of those that people pass, the share at or above it.
        n: the rated ones at or above it.
    """

    value: float
    precision: Estimate
    recall: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What ratings tell of an evaluator; `n` counts those that say yes or no. Positive = the person passes it."""

    status: Status
    n: int
    unsure: int
    ratings_needed: int
    table: Crossing
    agreement: Estimate | None
    kappa: Kappa | None
    kappa_reason: str | None
    sensitivity: Estimate | None
    specificity: Estimate | None
    bias: Bias | None
    wanted_precision: float
    threshold: Threshold | None
    threshold_reason: str | None


@dataclass(slots=True)
class _Tally:
    """Counts, so that memory grows with the number of different scores, not of ratings."""

    verdicts: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])
    unsure: int = 0
    by_score: Counter[tuple[float, bool]] = field(default_factory=Counter[tuple[float, bool]])
    gap: float = 0.0
    scored_twice: int = 0

    def add(self, rated: Rated) -> None:
        if rated.verdict == "unsure":
            self.unsure += 1
            return
        self.verdicts[rated.person_passes, rated.passed] += 1
        if rated.score is None:
            return
        self.by_score[rated.score, rated.person_passes] += 1
        if rated.own_score is not None:
            self.gap += rated.own_score - rated.score
            self.scored_twice += 1

    @property
    def table(self) -> Crossing:
        seen = self.verdicts
        return Crossing(seen[True, True], seen[False, True], seen[True, False], seen[False, False])

    @property
    def bias(self) -> Bias | None:
        return Bias(self.gap / self.scored_twice, self.scored_twice) if self.scored_twice else None


def calibrate(ratings: Iterable[Rated], *, precision: float) -> Calibration:
    """All figures of one evaluator, from one pass over its ratings.

    Args:
        ratings: the ones that count: one per evaluation, criterion and rater.
        precision: what the suggested threshold is to reach, 0 to 1.
    """
    tally = _Tally()
    for rated in ratings:
        tally.add(rated)
    table = tally.table
    kappa = table.kappa
    threshold, why_none = suggest_threshold(tally.by_score, precision)
    return Calibration(
        status="calibrated" if table.n >= RATINGS_NEEDED else "not calibrated",
        n=table.n,
        unsure=tally.unsure,
        ratings_needed=RATINGS_NEEDED,
        table=table,
        agreement=table.agreement,
        kappa=kappa,
        kappa_reason=_why_no_kappa(table) if kappa is None else None,
        sensitivity=table.sensitivity,
        specificity=table.specificity,
        bias=tally.bias,
        wanted_precision=precision,
        threshold=threshold,
        threshold_reason=why_none,
    )


def _why_no_kappa(table: Crossing) -> str:
    if table.n == 0:
        return "There are no ratings that say yes or no."
    ends = (0, table.n)
    constant = [("people", table.person_passes in ends), ("the evaluator", table.evaluator_passes in ends)]
    who = " and ".join(name for name, is_so in constant if is_so)
    return f"No variation: {who} gave the same verdict every time. Rate some that pass and some that fail."


def suggest_threshold(seen: Mapping[tuple[float, bool], int], precision: float) -> tuple[Threshold | None, str | None]:
    """The lowest score from which on people pass at least the wanted share; else None, and why.

    Args:
        seen: how many ratings, by the evaluator's score and by whether the person passes it.
        precision: the wanted share, 0 to 1.
    """
    total = sum(seen.values())
    if total < RATINGS_NEEDED:
        return None, f"{total} of {RATINGS_NEEDED} ratings: too few to suggest a threshold."
    passed_at_all = sum(count for (_, person_passes), count in seen.items() if person_passes)
    found: Threshold | None = None
    passed = n = 0
    for score in sorted({score for score, _ in seen}, reverse=True):
        good, bad = seen.get((score, True), 0), seen.get((score, False), 0)
        passed, n = passed + good, n + good + bad
        reached = share(passed, n)
        if reached is not None and reached.value >= precision:
            found = Threshold(score, reached, passed / passed_at_all if passed_at_all else None, n)
    if found is None:
        return (
            None,
            f"Whatever the score, people pass less than {precision:g} of what scored so or higher.",
        )
    return found, None
