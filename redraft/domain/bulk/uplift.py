"""Measure whether iterating helped: gains and costs of the iterations of a run.

The measured gain is an upper bound (the winner's curse). The returned answer has the best of several noisy scores of
the loop's own evaluator. The best score is too high on average, even if all answers are equally good. Verdicts of an
independent evaluator or of people on the returned answers (`Backing`) have no such bias.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import fsum
from typing import Literal, get_args

from redraft.domain.bulk.outcomes import SAME, CallTotals, ItemOutcome, by_row, sum_calls, sum_costs
from redraft.domain.bulk.phrases import count, describe_difference, dollars, format_share
from redraft.domain.statistics.bootstrap import mean_difference
from redraft.domain.statistics.estimates import Estimate, Mean, clustered_share, share

UNBACKED = (
    "All scores are those of the loop's own evaluator, which also chose the answer to return. The best of several "
    "noisy scores is too high on average, so the true gain may be smaller or zero. An audit, or people's verdicts on "
    "the returned answers, would show it."
)

Who = Literal["people", "the independent evaluator"]
WHO: tuple[Who, ...] = get_args(Who)


@dataclass(frozen=True, slots=True)
class Part:
    """The number of items whose score changed in one direction, and their share of all items with its 95 % interval."""

    count: int
    share: Estimate | None


@dataclass(frozen=True, slots=True)
class IterationYield:
    """The gain and the cost of one iteration, over the items with a verdict."""

    number: int
    reached: int  # The number of items with an answer of this iteration
    evaluated: int  # The number of these items whose answer of this iteration has a score
    newly_accepted: int  # The number of items accepted in it for the first time
    accepted: int  # The number of items accepted in it or in an earlier iteration
    pass_rate: Estimate | None  # `accepted` as a share of all items with a verdict
    # The next 4 fields are None at iteration 1
    better: int | None  # The number of items with a higher score than before
    worse: int | None  # The number of items with a lower score than before. Their new answers are not returned
    mean_gain: float | None  # The mean rise of the best score so far; never negative
    mean_change: float | None  # The mean of (score of the iteration - best score before), which selection does not bias
    cost_usd: Decimal | None  # The cost of its calls; None if a price is unknown
    cost_per_accepted_usd: Decimal | None  # The cost per newly accepted item; None without such an item


@dataclass(frozen=True, slots=True)
class Revisions:
    """The gain and the cost of all iterations after the first, over the items with a verdict."""

    newly_accepted: int
    cost_usd: Decimal | None  # None if a price is unknown
    cost_per_accepted_usd: Decimal | None  # The cost per newly accepted item; None without such an item
    calls: CallTotals | None  # None if the calls of an iteration are unknown


@dataclass(frozen=True, slots=True)
class Backing:
    """Independent verdicts on the returned answers."""

    who: Who
    n: int  # The number of items with such a verdict
    gap: Mean | None  # The loop's score minus the independent score; None without scores from 0 to 1
    confirmed: Estimate | None  # Of the answers that the loop accepts, the share that these verdicts accept


@dataclass(frozen=True, slots=True)
class Uplift:
    """The change from the first answers to the returned answers."""

    n: int  # The number of items with both scores
    revised: int  # The number of these items with more than one iteration
    first: float | None  # The mean score of these items at iteration 1
    returned: float | None  # The mean score of their returned answers, by the same evaluator
    gain: Mean | None  # The paired difference, returned minus first; its interval resamples rows with their repeats
    helped: Part  # Items with a higher score at the end. `hurt`: a lower score; `unchanged`: the same score
    hurt: Part
    unchanged: Part
    iterations: tuple[IterationYield, ...]
    revisions: Revisions
    backings: tuple[Backing, ...]
    words: tuple[str, ...]  # The figures in sentences


def measure_uplift(items: Sequence[ItemOutcome], *, has_only_checks: bool = False) -> Uplift:
    """Compare the returned answers with the first answers, over the items with a verdict.

    Args:
        items: the outcomes of a run.
        has_only_checks: no model evaluates, so the scores have no noise to warn of.
    """
    evaluated = [item for item in items if item.has_verdict]
    scored = [
        (item, item.first_score, item.final_score)
        for item in evaluated
        if item.first_score is not None and item.final_score is not None
    ]
    pairs = [(first, final) for _, first, final in scored]
    revised = sum(item.iterations > 1 for item, _, _ in scored)
    gain = mean_difference(pairs, clusters=[item.custom_id for item, _, _ in scored])
    helped, hurt, unchanged = (_part(scored, way) for way in (1, -1, 0))
    backings = tuple(found for who in WHO if (found := _backing(evaluated, who)))
    independent = tuple(map(_describe_backing, backings)) or (() if has_only_checks else (UNBACKED,))
    yields = yields_of(evaluated)
    revisions = _revisions(yields[1:], evaluated)
    words = _describe_gain(len(pairs), revised, gain, (helped, hurt, unchanged))
    words += (*_describe_unscored(yields[1:]), _describe_price(yields, revisions), *independent) if revised else ()
    return Uplift(
        n=len(pairs),
        revised=revised,
        first=_average([first for first, _ in pairs]),
        returned=_average([final for _, final in pairs]),
        gain=gain,
        helped=helped,
        hurt=hurt,
        unchanged=unchanged,
        iterations=yields,
        revisions=revisions,
        backings=backings,
        words=words,
    )


def _part(scored: Sequence[tuple[ItemOutcome, float, float]], way: int) -> Part:
    """Count the items whose score rose (`way` 1), fell (-1) or stayed (0)."""
    rows: defaultdict[str, list[bool]] = defaultdict(list)
    for item, first, final in scored:
        rows[item.custom_id].append(_way(final - first) == way)
    found = [(sum(row), len(row)) for row in rows.values()]
    return Part(sum(part for part, _ in found), clustered_share(found))


def _way(change: float) -> int:
    return (change > SAME) - (change < -SAME)


def yields_of(items: Sequence[ItemOutcome]) -> tuple[IterationYield, ...]:
    """Return the gain and the cost of each iteration, over the items with a verdict."""
    evaluated = [item for item in items if item.has_verdict]
    last = max((max(item.iterations, item.accepted_at or 0) for item in evaluated), default=0)
    rows = list(by_row(evaluated).values())
    return tuple(_yield(number, evaluated, rows) for number in range(1, last + 1))


def _yield(number: int, items: Sequence[ItemOutcome], rows: Sequence[Sequence[ItemOutcome]]) -> IterationYield:
    there = [item for item in items if item.iterations >= number]
    new = sum(item.accepted_at == number for item in items)
    so_far = [(sum(0 < (item.accepted_at or 0) <= number for item in row), len(row)) for row in rows]
    changes = [change for item in there if (change := _change(item, number)) is not None]
    cost = sum_costs(
        item.cost_by_iteration[number - 1] if number <= len(item.cost_by_iteration) else None for item in there
    )
    is_first = number == 1
    return IterationYield(
        number=number,
        reached=len(there),
        evaluated=sum(score is not None for item in there for score in item.scores_by_iteration[number - 1 : number]),
        newly_accepted=new,
        accepted=sum(part for part, _ in so_far),
        pass_rate=clustered_share(so_far),
        better=None if is_first else sum(_way(change) > 0 for change in changes),
        worse=None if is_first else sum(_way(change) < 0 for change in changes),
        mean_gain=_average([max(0.0, change) for change in changes]),
        mean_change=_average(changes),
        cost_usd=cost,
        cost_per_accepted_usd=cost / new if cost is not None and new else None,
    )


def _revisions(later: Sequence[IterationYield], items: Sequence[ItemOutcome]) -> Revisions:
    new, cost = sum(each.newly_accepted for each in later), sum_costs(each.cost_usd for each in later)
    is_known = all(len(item.calls_by_iteration) >= item.iterations for item in items)
    calls = sum_calls(each for item in items for each in item.calls_by_iteration[1:]) if is_known else None
    return Revisions(new, cost, cost / new if cost is not None and new else None, calls)


def _change(item: ItemOutcome, number: int) -> float | None:
    """Return (the score of an iteration - the best score before), or None if one of them is missing."""
    score = item.scores_by_iteration[number - 1] if number <= len(item.scores_by_iteration) else None
    before = [each for each in item.scores_by_iteration[: number - 1] if each is not None]
    return score - max(before) if score is not None and before else None


def _average(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def outside_verdict(item: ItemOutcome, who: Who) -> tuple[bool | None, float | None]:
    """Return the independent verdict on the returned answer, and its score."""
    if who == "people":
        return item.human_pass, item.human_score
    return item.audit_passed, item.audit_score


def _backing(evaluated: Sequence[ItemOutcome], who: Who) -> Backing | None:
    seen = [(item, *outside_verdict(item, who)) for item in evaluated]
    seen = [(item, passed, score) for item, passed, score in seen if passed is not None or score is not None]
    if not seen:
        return None
    scored = [
        (score, item.final_score, item.custom_id)
        for item, _, score in seen
        if score is not None and item.final_score is not None
    ]
    pairs, rows = [(theirs, ours) for theirs, ours, _ in scored], [row for _, _, row in scored]
    # People may score on another scale, and scores of two scales have no meaningful difference.
    gap = mean_difference(pairs, clusters=rows) if all(0 <= theirs <= 1 for theirs, _ in pairs) else None
    of_accepted = [passed for item, passed, _ in seen if item.is_accepted and passed is not None]
    return Backing(who, len(seen), gap, share(sum(of_accepted), len(of_accepted)))


def _describe_gain(n: int, revised: int, gain: Mean | None, parts: tuple[Part, Part, Part]) -> tuple[str, ...]:
    if n == 0:
        return ("No item has both a first and a final score: the effect of the loop is unknown.",)
    if revised == 0:
        return (f"None of {count(n, 'item')} went beyond iteration 1: there is no revision to evaluate.",)
    helped, hurt, unchanged = parts
    counts = f"Helped: {helped.count}, {format_share(helped.share)}. Hurt: {hurt.count}, {format_share(hurt.share)}."
    meaning = "Helped: the returned answer has a higher score than the first one; hurt: a lower one."
    return (
        f"{_answer(gain)} {revised} of {count(n, 'item')} went beyond iteration 1.",
        describe_difference("mean score of the returned answers", gain, than="that of the first answers"),
        f"{counts} Unchanged: {unchanged.count}. {meaning}",
    )


def _answer(gain: Mean | None) -> str:
    """Say in one sentence whether iterating helped."""
    if gain is None or gain.low is None or gain.high is None:
        return "There are too few items to tell whether iterating helped."
    if gain.low > 0:
        return "Yes, the scores rose."
    return "No, the scores fell." if gain.high < 0 else "No effect on the scores is shown."


def _describe_unscored(later: Sequence[IterationYield]) -> tuple[str, ...]:
    """Say how many revisions could have no effect, because they have no score."""
    written = sum(each.reached for each in later)
    missing = written - sum(each.evaluated for each in later)
    if not missing:
        return ()
    why = "the answer was cut off at the output limit, or it was not evaluated"
    advice = "If answers were cut off, raise sampling.max_output_tokens."
    return (f"{missing} of {count(written, 'revision')} have no score: {why}. {advice}",)


def _describe_price(yields: Sequence[IterationYield], revisions: Revisions) -> str:
    new, cost, each = revisions.newly_accepted, revisions.cost_usd, revisions.cost_per_accepted_usd
    price, calls = "an unknown amount" if cost is None else dollars(cost), revisions.calls
    accepted = f"brought {count(new, 'more accepted answer')}" if new else "brought no more accepted answer"
    shares = [dollars(each)] if each is not None else []
    if calls:
        used = [count(calls.calls, "call"), f"{calls.tokens:,} tokens"]
        used += [f"{calls.seconds:,.0f} s of model time"] if calls.seconds >= 1 else []
        price += f" and took {', '.join(used)}"
        shares += [f"{calls.calls / new:,.1f} calls", f"{calls.tokens / new:,.0f} tokens"] if new else []
    per_answer = f". That is {', '.join(shares)} for each newly accepted answer" if shares and new > 1 else ""
    before, all_accepted = yields[0].accepted, yields[-1].accepted
    totals = f" ({all_accepted} instead of {before})" if new else ""
    return f"The iterations after the first {accepted}{totals}. They cost {price}{per_answer}."


def _describe_backing(backing: Backing) -> str:
    words = f"{backing.who[0].upper()}{backing.who[1:]} evaluated {count(backing.n, 'returned answer')}."
    if backing.confirmed:
        words += f" Of the accepted answers they accept {format_share(backing.confirmed)}."
    if backing.gap:
        words += " " + describe_difference("loop's own score", backing.gap, than="theirs")
    return words
