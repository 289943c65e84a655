"""Recommend `iter_max` and `score_threshold`, with the reason in words, or say why there is no recommendation."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from redraft.domain.bulk.outcomes import SAME, ItemOutcome, sum_costs
from redraft.domain.bulk.phrases import count, dollars, percent, say_share
from redraft.domain.bulk.uplift import IterationYield, Who, outside_verdict, yields_of
from redraft.domain.evaluation.calibration import RATINGS_NEEDED, suggest_threshold

ROWS_NEEDED = 30
"""Below this many rows with a verdict nothing is recommended."""

REACHED_NEEDED = 10
"""An iteration that fewer items reached says nothing of itself."""

YIELD_NEEDED = 0.05
"""An iteration pays if at least this share of the items that reach it is accepted in it."""

PRECISION_WANTED = 0.9
"""Of what is accepted at the recommended threshold, at least this share is to be good by an outside verdict."""

NEAR = 0.05


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommendation; `value` is None where there is none, and `words` says why."""

    value: float | None
    words: str


def recommend_iter_max(items: Sequence[ItemOutcome]) -> Recommendation:
    """Recommend the last iteration that brings enough newly accepted answers (`YIELD_NEEDED`).

    The verdicts are those of the loop's own evaluator, which accepts some answers by chance.
    """
    evaluated = [item for item in items if item.has_verdict]
    if (few := _too_few(evaluated)) is not None:
        return Recommendation(None, few)
    yields = yields_of(evaluated)
    accepted = sum(item.is_accepted for item in evaluated)
    if accepted == 0:
        return Recommendation(
            None,
            f"Nothing can be recommended for iter_max: none of {count(len(evaluated), 'item')} was accepted in "
            f"{count(len(yields), 'iteration')}. Look at the criteria, the threshold or the model first.",
        )
    if len(yields) == 1:
        return Recommendation(None, _say_why_no_loop(len(evaluated), accepted))
    told = [each for each in yields[1:] if each.reached >= REACHED_NEEDED]
    if not told:
        return Recommendation(
            None,
            f"Nothing can be recommended for iter_max: iteration 2 was reached by {count(yields[1].reached, 'item')}, "
            f"{REACHED_NEEDED} are needed.",
        )
    best = max((each.number for each in told if each.newly_accepted >= YIELD_NEEDED * each.reached), default=1)
    return Recommendation(best, f"iter_max {best}: {_say_why(best, yields, len(evaluated) - accepted)}")


def _too_few(evaluated: Sequence[ItemOutcome]) -> str | None:
    rows = len({item.custom_id for item in evaluated})
    if rows >= ROWS_NEEDED:
        return None
    has = "has" if rows == 1 else "have"
    return f"Nothing can be recommended: {count(rows, 'row')} {has} a verdict, {ROWS_NEEDED} are needed."


def _say_why_no_loop(n: int, accepted: int) -> str:
    if accepted == n:
        return f"Nothing to recommend for iter_max: all {n} items were accepted at iteration 1, so no more were made."
    return (
        "Nothing can be recommended for iter_max: no item went beyond iteration 1, so what a second one would bring to "
        f"the {count(n - accepted, 'item')} not accepted is unknown. Run them with iter_max 2 or more."
    )


def _say_why(best: int, yields: Sequence[IterationYield], left: int) -> str:
    here, after = yields[best - 1], yields[best:]
    brought = f"iteration {best} was reached by {count(here.reached, 'item')} and brought {here.newly_accepted} more"
    if not after:
        rest = (
            f"accepted; it was the last, and {count(left, 'item')} stayed unaccepted, so one more might pay, too."
            if left
            else "accepted, after which all were."
        )
        return f"{brought} {rest}"
    if after[0].reached < REACHED_NEEDED:
        return f"{brought} accepted; too few items went on ({after[0].reached}) to tell what more would bring."
    name = f"iteration {best + 1} was" if len(after) == 1 else f"iterations {best + 1} to {best + len(after)} were"
    new = sum(each.newly_accepted for each in after)
    cost = sum_costs(each.cost_usd for each in after)
    return f"{name} reached by {count(after[0].reached, 'item')} and brought {new or 'none'} more accepted{_for(cost)}."


def _for(cost: Decimal | None) -> str:
    return " at an unknown price" if cost is None else f" for {dollars(cost)}"


def recommend_threshold(items: Sequence[ItemOutcome], *, threshold: float | None = None) -> Recommendation:
    """Recommend the lowest score above which `PRECISION_WANTED` of the answers are accepted by an independent verdict.

    These are verdicts of people if there are enough, else of the independent evaluator. The loop's own verdicts cannot
    serve, because the threshold is applied to their scores.

    Args:
        items: of one run.
        threshold: the one that the run had, where it had one: to count near misses.
    """
    evaluated = [item for item in items if item.has_verdict and item.final_score is not None]
    if (few := _too_few(evaluated)) is not None:
        return Recommendation(None, few)
    for who in ("people", "the outside judge"):
        seen = _verdicts(evaluated, who)
        if seen.total() >= RATINGS_NEEDED:
            return _by_verdicts(seen, who)
    near = "" if threshold is None else _say_near(evaluated, threshold)
    return Recommendation(
        None,
        f"Nothing can be recommended for the threshold: fewer than {RATINGS_NEEDED} returned answers have a verdict of "
        f"people or of an outside judge that would say which scores are good enough.{near}",
    )


def _verdicts(evaluated: Sequence[ItemOutcome], who: Who) -> Counter[tuple[float, bool]]:
    seen: Counter[tuple[float, bool]] = Counter()
    for item in evaluated:
        passed, _ = outside_verdict(item, who)
        if passed is not None and item.final_score is not None:
            seen[item.final_score, passed] += 1
    return seen


def _by_verdicts(seen: Counter[tuple[float, bool]], who: Who) -> Recommendation:
    found, _ = suggest_threshold(seen, PRECISION_WANTED)
    accept = "accept" if who == "people" else "accepts"
    if found is None:
        return Recommendation(
            None,
            f"Nothing can be recommended for the threshold: whatever the score, {who} {accept} less than "
            f"{percent(PRECISION_WANTED)} of the answers that scored so or higher ({seen.total()} judged).",
        )
    if found.n < REACHED_NEEDED:
        return Recommendation(
            None,
            f"Nothing can be recommended for the threshold: only {count(found.n, 'answer')} scored "
            f"{found.value:.3g} or higher, from where on {who} {accept} {percent(PRECISION_WANTED)}; "
            "that is too few to rest on.",
        )
    return Recommendation(
        found.value,
        f"Threshold {found.value:.3g}: of {count(found.n, 'answer')} that scored so or higher {who} {accept} "
        f"{say_share(found.precision)}. At any lower threshold it would be less than {percent(PRECISION_WANTED)}.",
    )


def _say_near(evaluated: Sequence[ItemOutcome], threshold: float) -> str:
    near = sum(
        not item.is_accepted
        and item.final_score is not None
        and threshold - NEAR - SAME <= item.final_score < threshold
        for item in evaluated
    )
    return f" {count(near, 'item')} ended within {NEAR:g} below the present one, {threshold:g}."
