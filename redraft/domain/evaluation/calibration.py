"""The calibration of an evaluator: its verdicts compared with the ratings of people."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from redraft.domain.statistics.estimates import Crossing, Estimate, Kappa, share

# Below this number of ratings, intervals are too wide to act on. For example, the interval of 27 of 30 is 74 % to 97 %.
RATINGS_NEEDED = 30

Verdict = Literal["agree", "disagree", "unsure"]
Status = Literal["calibrated", "not calibrated"]


@dataclass(frozen=True, slots=True)
class Rated:
    """A person's rating of an evaluator's decision, with the scores of both."""

    verdict: Verdict  # The person's opinion on the decision
    passed: bool  # The evaluator's decision
    score: float | None = None  # The evaluator's score
    own_score: float | None = None  # The person's score

    @property
    def person_passes(self) -> bool:
        return self.passed == (self.verdict == "agree")


@dataclass(frozen=True, slots=True)
class Bias:
    """The mean difference between the scores of people and of the evaluator; positive if people score higher."""

    value: float
    n: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """A score threshold for the evaluator, its precision and recall, and the number of rated answers that reach it."""

    value: float
    precision: Estimate
    recall: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """The figures of one evaluator. `n` is the number of ratings without the unsure ones."""

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
    """Counts of ratings. No rating is kept, so memory grows only with the number of different scores."""

    verdicts: Counter[tuple[bool, bool]] = field(default_factory=Counter[tuple[bool, bool]])
    by_score: Counter[tuple[float, bool]] = field(default_factory=Counter[tuple[float, bool]])
    unsure: int = 0
    difference: float = 0.0
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
            self.difference += rated.own_score - rated.score
            self.scored_twice += 1


def calibrate(ratings: Iterable[Rated], *, precision: float) -> Calibration:
    """Compute all figures of one evaluator. The suggested threshold has to reach the precision (0 to 1)."""
    tally = _Tally()
    for rated in ratings:
        tally.add(rated)
    kinds = ((True, True), (False, True), (True, False), (False, False))
    table = Crossing(*(tally.verdicts[kind] for kind in kinds))
    kappa = table.kappa
    threshold, threshold_reason = suggest_threshold(tally.by_score, precision)
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
        bias=Bias(tally.difference / tally.scored_twice, tally.scored_twice) if tally.scored_twice else None,
        wanted_precision=precision,
        threshold=threshold,
        threshold_reason=threshold_reason,
    )


def _why_no_kappa(table: Crossing) -> str:
    if table.n == 0:
        return "There are no ratings that say yes or no."
    passes = {"people": table.person_passes, "the evaluator": table.evaluator_passes}
    sides = [
        f"{who} {'passed' if passed else 'failed'} every answer"
        for who, passed in passes.items()
        if passed in (0, table.n)
    ]
    return f"No variation: {' and '.join(sides)}. Rate some answers that pass and some that fail."


def suggest_threshold(
    counts: Mapping[tuple[float, bool], int], precision: float
) -> tuple[Threshold | None, str | None]:
    """Return the lowest threshold with the wanted precision (0 to 1), or None and the reason.

    `counts` maps (the evaluator's score, whether the person passes the answer) to the number of such ratings.
    """
    total = sum(counts.values())
    if total < RATINGS_NEEDED:
        return None, f"{total} of {RATINGS_NEEDED} ratings: too few to suggest a threshold."
    all_passed = sum(count for (_, person_passes), count in counts.items() if person_passes)
    found: Threshold | None = None
    passed = n = 0
    for score in sorted({score for score, _ in counts}, reverse=True):
        good, bad = counts.get((score, True), 0), counts.get((score, False), 0)
        passed, n = passed + good, n + good + bad
        reached = share(passed, n)
        if reached is not None and reached.value >= precision:
            found = Threshold(score, reached, passed / all_passed if all_passed else None, n)
    if found is None:
        return None, f"At every threshold, people pass less than {precision:g} of the answers that reach it."
    return found, None
