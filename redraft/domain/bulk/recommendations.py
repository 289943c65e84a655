"""Recommend `iter_max` and `score_threshold` for a run, with a reason in words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from redraft.domain.bulk.outcomes import SAME, ItemOutcome, sum_costs
from redraft.domain.bulk.phrases import count, dollars, format_share, percent
from redraft.domain.bulk.uplift import WHO, IterationYield, Who, outside_verdict, yields_of
from redraft.domain.evaluation.calibration import RATINGS_NEEDED, suggest_threshold

# The minimum of rows with a verdict. Below it, the intervals are too wide for a recommendation.
ROWS_NEEDED = 30
# The minimum of items that reached an iteration. Below it, the yield of the iteration is mostly chance.
REACHED_NEEDED = 10
# An iteration is worth its cost if at least this share of the items that reached it was newly accepted.
YIELD_NEEDED = 0.05
# Independent verdicts must accept at least this share of the answers that reach a recommended threshold.
PRECISION_WANTED = 0.9
NEAR = 0.05


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommended value, or None if there is no recommendation. `words` is the reason."""

    value: float | None
    words: str


def recommend_iter_max(items: Sequence[ItemOutcome]) -> Recommendation:
    """Recommend the number of the last iteration with enough newly accepted answers (`YIELD_NEEDED`).

    It uses the verdicts of the loop's own evaluator, which accepts some answers by chance.
    """
    evaluated = [item for item in items if item.has_verdict]
    if (few := _too_few(evaluated)) is not None:
        return Recommendation(None, few)
    yields = yields_of(evaluated)
    accepted = sum(item.is_accepted for item in evaluated)
    if (why_not := _why_no_iter_max(yields, len(evaluated), accepted)) is not None:
        return Recommendation(None, why_not)
    reached = [each for each in yields[1:] if each.reached >= REACHED_NEEDED]
    best = max((each.number for each in reached if each.newly_accepted >= YIELD_NEEDED * each.reached), default=1)
    return Recommendation(best, f"iter_max {best}: {_describe_why(best, yields, len(evaluated) - accepted)}")


def _too_few(evaluated: Sequence[ItemOutcome]) -> str | None:
    rows = len({item.custom_id for item in evaluated})
    if rows >= ROWS_NEEDED:
        return None
    has = "has" if rows == 1 else "have"
    return f"Nothing can be recommended: {count(rows, 'row')} {has} a verdict, {ROWS_NEEDED} are needed."


def _why_no_iter_max(yields: Sequence[IterationYield], n: int, accepted: int) -> str | None:
    nothing = "Nothing can be recommended for iter_max:"
    if accepted == 0:
        return (
            f"{nothing} none of {count(n, 'item')} was accepted in {count(len(yields), 'iteration')}. "
            "Look at the criteria, the threshold or the model first."
        )
    if len(yields) == 1 and accepted == n:
        return f"Nothing to recommend for iter_max: all {n} items were accepted at iteration 1, so no more were made."
    if len(yields) == 1:
        return (
            f"{nothing} no item went beyond iteration 1, so the effect of a second one on the "
            f"{count(n - accepted, 'item')} not accepted is unknown. Run them with iter_max 2 or more."
        )
    # Iteration 2 decides, because later iterations cannot have more items.
    if yields[1].reached < REACHED_NEEDED:
        return f"{nothing} iteration 2 was reached by {count(yields[1].reached, 'item')}, {REACHED_NEEDED} are needed."
    return None


def _describe_why(best: int, yields: Sequence[IterationYield], left: int) -> str:
    here, after = yields[best - 1], yields[best:]
    brought = f"iteration {best} was reached by {count(here.reached, 'item')} and brought {here.newly_accepted} more"
    if not after and not left:
        return f"{brought} accepted, so that all items were accepted."
    if not after:
        return (
            f"{brought} accepted; it was the last, and {count(left, 'item')} stayed unaccepted, so one more may help."
        )
    if after[0].reached < REACHED_NEEDED:
        return f"{brought} accepted; too few items went on ({after[0].reached}) to know the effect of more."
    name = f"iteration {best + 1} was" if len(after) == 1 else f"iterations {best + 1} to {best + len(after)} were"
    new = sum(each.newly_accepted for each in after)
    cost = sum_costs(each.cost_usd for each in after)
    price = "at an unknown price" if cost is None else f"for {dollars(cost)}"
    return f"{name} reached by {count(after[0].reached, 'item')} and brought {new or 'none'} more accepted {price}."


def recommend_threshold(items: Sequence[ItemOutcome], *, threshold: float | None = None) -> Recommendation:
    """Recommend the lowest threshold at which independent verdicts accept `PRECISION_WANTED` of the passing answers.

    The independent verdicts are those of people if there are enough of them, else those of the independent evaluator.
    The verdicts of the loop's own evaluator are unsuitable, because they follow from the scores and the threshold. If
    the threshold of the run is given, the reason counts the items whose score is just below it.
    """
    evaluated = [item for item in items if item.has_verdict and item.final_score is not None]
    if (few := _too_few(evaluated)) is not None:
        return Recommendation(None, few)
    for who in WHO:
        verdicts = [(item.final_score or 0.0, outside_verdict(item, who)[0]) for item in evaluated]
        seen = Counter((score, passed) for score, passed in verdicts if passed is not None)
        if seen.total() >= RATINGS_NEEDED:
            return _by_verdicts(seen, who)
    near = "" if threshold is None else _describe_near(evaluated, threshold)
    return Recommendation(
        None,
        f"Nothing can be recommended for the threshold: fewer than {RATINGS_NEEDED} returned answers have a verdict of "
        f"people or of an independent evaluator, which would show which scores are good enough.{near}",
    )


def _by_verdicts(seen: Counter[tuple[float, bool]], who: Who) -> Recommendation:
    found, _ = suggest_threshold(seen, PRECISION_WANTED)
    accept = "accept" if who == "people" else "accepts"
    nothing, wanted = "Nothing can be recommended for the threshold:", percent(PRECISION_WANTED)
    if found is None:
        words = (
            f"{nothing} at any score, {who} {accept} less than {wanted} of the answers with that score or a higher one "
            f"({seen.total()} evaluated)."
        )
        return Recommendation(None, words)
    scored = f"{count(found.n, 'answer')} with a score of {found.value:.3g} or higher"
    if found.n < REACHED_NEEDED:
        words = f"{nothing} {who} {accept} {wanted} of {scored}, but these are too few answers for a recommendation."
        return Recommendation(None, words)
    shown = f"{who} {accept} {format_share(found.precision)} of {scored}"
    words = f"Threshold {found.value:.3g}: {shown}. At any lower threshold, the share is below {wanted}."
    return Recommendation(found.value, words)


def _describe_near(evaluated: Sequence[ItemOutcome], threshold: float) -> str:
    near = sum(
        not item.is_accepted
        and item.final_score is not None
        and threshold - NEAR - SAME <= item.final_score < threshold
        for item in evaluated
    )
    return f" {count(near, 'item')} ended at most {NEAR:g} below the present one, {threshold:g}."
