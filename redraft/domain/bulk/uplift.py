"""Did iterating help? Gains and costs of the iterations of a run.

The measured gain is an upper bound (the winner's curse). The returned answer has the best of several noisy scores of
the loop's own evaluator, and the best of several noisy scores is too high on average, even if all answers are equally
good. Verdicts of an independent evaluator or of people on the returned answers (`Backing`) have no such bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import fsum
from typing import Literal

from redraft.domain.bulk.outcomes import SAME, ItemOutcome, by_row, sum_costs
from redraft.domain.bulk.phrases import count, say_difference, say_share
from redraft.domain.statistics.bootstrap import SEED, mean_difference
from redraft.domain.statistics.estimates import Estimate, Mean, clustered_share, share

UNBACKED = (
    "All scores are those of the loop's own judge, which also chose the answer to return. The best of several noisy "
    "scores is too high on average, so the true gain may be smaller, or none. An audit, or people's verdicts on the "
    "returned answers, would tell."
)

Who = Literal["people", "the outside judge"]


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the items, and their share with its 95 % interval."""

    count: int
    share: Estimate | None


@dataclass(frozen=True, slots=True)
class IterationYield:
    """What one iteration cost and brought, over the items with a verdict.

    Attributes:
        reached: the items that generated in it.
        newly_accepted: those accepted in it for the first time.
        accepted: those accepted in it or before.
        pass_rate: `accepted` as a share of all items with a verdict, whether they reached it or not.
        better: those whose score rose above their best before; None for the first, as the next three.
        worse: those that scored lower in it than their best before; returning the best answer hides these.
        mean_gain: how much the best score so far rose, on average over those that reached it; never negative.
        mean_change: its score less the best before, on average; not biased by selection.
        cost_usd: of the calls made in it; None where a price is unknown.
        cost_per_accepted_usd: the same for each newly accepted item; None without any.
    """

    number: int
    reached: int
    newly_accepted: int
    accepted: int
    pass_rate: Estimate | None
    better: int | None
    worse: int | None
    mean_gain: float | None
    mean_change: float | None
    cost_usd: Decimal | None
    cost_per_accepted_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Backing:
    """Independent verdicts on the returned answers.

    Attributes:
        n: the number of items with such a verdict.
        gap: the loop's score less theirs; None where they gave no score from 0 to 1.
        confirmed: the share of the accepted answers with such a verdict that it accepts too.
    """

    who: Who
    n: int
    gap: Mean | None
    confirmed: Estimate | None


@dataclass(frozen=True, slots=True)
class Uplift:
    """From the first answer to the returned one.

    Attributes:
        n: the items with both scores.
        revised: those of them that went beyond iteration 1.
        first: their mean score at iteration 1.
        returned: their mean score in the end, by the same judge.
        gain: `returned` less `first`, paired, rows resampled with their repeats.
        helped: the items whose returned answer scores higher than their first; `hurt`: lower; `unchanged`: the same.
        iterations: from the first to the last that any item reached.
        backings: of people and of the outside judge, where there are any.
        words: all that, in sentences.
    """

    n: int
    revised: int
    first: float | None
    returned: float | None
    gain: Mean | None
    helped: Part
    hurt: Part
    unchanged: Part
    iterations: tuple[IterationYield, ...]
    backings: tuple[Backing, ...]
    words: tuple[str, ...]


def measure_uplift(items: Sequence[ItemOutcome], *, seed: int = SEED) -> Uplift:
    """What the loop brought over its first answers, from the items with a verdict."""
    judged = [item for item in items if item.has_verdict]
    scored = [
        (item, item.first_score, item.final_score)
        for item in judged
        if item.first_score is not None and item.final_score is not None
    ]
    pairs = [(first, final) for _, first, final in scored]
    revised = sum(item.iterations > 1 for item, _, _ in scored)
    gain = mean_difference(pairs, clusters=[item.custom_id for item, _, _ in scored], seed=seed)
    helped, hurt, unchanged = (_part(scored, way) for way in (1, -1, 0))
    backings = tuple(found for who in ("people", "the outside judge") if (found := _backing(judged, who, seed)))
    return Uplift(
        n=len(pairs),
        revised=revised,
        first=_average([first for first, _ in pairs]),
        returned=_average([final for _, final in pairs]),
        gain=gain,
        helped=helped,
        hurt=hurt,
        unchanged=unchanged,
        iterations=yields_of(judged),
        backings=backings,
        words=(*_say_gain(len(pairs), revised, gain, (helped, hurt, unchanged)), *_say_backings(revised, backings)),
    )


def _part(scored: Sequence[tuple[ItemOutcome, float, float]], way: int) -> Part:
    """The items whose score went up (1), down (-1) or nowhere (0)."""
    rows: dict[str, tuple[int, int]] = {}
    for item, first, final in scored:
        part, whole = rows.get(item.custom_id, (0, 0))
        rows[item.custom_id] = (part + (_way(final - first) == way), whole + 1)
    found = list(rows.values())
    return Part(sum(part for part, _ in found), clustered_share(found))


def _way(change: float) -> int:
    return (change > SAME) - (change < -SAME)


def yields_of(items: Sequence[ItemOutcome]) -> tuple[IterationYield, ...]:
    """What each iteration cost and brought; of items with a verdict."""
    judged = [item for item in items if item.has_verdict]
    last = max((max(item.iterations, item.accepted_at or 0) for item in judged), default=0)
    rows = list(by_row(judged).values())
    return tuple(_yield(number, judged, rows) for number in range(1, last + 1))


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


def _change(item: ItemOutcome, number: int) -> float | None:
    """An iteration's score less the best before; None for the first, and where one of them is missing."""
    score = item.scores_by_iteration[number - 1] if number <= len(item.scores_by_iteration) else None
    before = [each for each in item.scores_by_iteration[: number - 1] if each is not None]
    return score - max(before) if score is not None and before else None


def _average(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def outside_verdict(item: ItemOutcome, who: Who) -> tuple[bool | None, float | None]:
    """Whether somebody outside of the loop accepts the returned answer, and what score they give it."""
    if who == "people":
        return item.human_pass, item.human_score
    return item.audit_passed, item.audit_score


def _backing(judged: Sequence[ItemOutcome], who: Who, seed: int) -> Backing | None:
    seen = [(item, *outside_verdict(item, who)) for item in judged]
    seen = [(item, passed, score) for item, passed, score in seen if passed is not None or score is not None]
    if not seen:
        return None
    scored = [
        (s, item.final_score, item.custom_id) for item, _, s in seen if s is not None and item.final_score is not None
    ]
    on_scale = all(0 <= theirs <= 1 for theirs, _, _ in scored)
    of_accepted = [passed for item, passed, _ in seen if item.is_accepted and passed is not None]
    return Backing(
        who=who,
        n=len(seen),
        gap=mean_difference(
            [(theirs, ours) for theirs, ours, _ in scored], clusters=[row for _, _, row in scored], seed=seed
        )
        if on_scale
        else None,
        confirmed=share(sum(of_accepted), len(of_accepted)),
    )


def _say_gain(n: int, revised: int, gain: Mean | None, parts: tuple[Part, Part, Part]) -> tuple[str, ...]:
    if n == 0:
        return ("No item has both a first and a final score: what the loop brought cannot be told.",)
    if revised == 0:
        return (f"None of {count(n, 'item')} went beyond iteration 1: there is no revision to judge.",)
    helped, hurt, unchanged = parts
    counts = f"Helped: {helped.count}, {say_share(helped.share)}. Hurt: {hurt.count}, {say_share(hurt.share)}."
    return (
        f"{revised} of {count(n, 'item')} went beyond iteration 1.",
        say_difference("mean score of the returned answers", gain, than="that of the first answers"),
        f"{counts} Unchanged: {unchanged.count}.",
    )


def _say_backings(revised: int, backings: Sequence[Backing]) -> tuple[str, ...]:
    if revised == 0:
        return ()
    if not backings:
        return (UNBACKED,)
    return tuple(_say_backing(backing) for backing in backings)


def _say_backing(backing: Backing) -> str:
    who = backing.who
    words = f"{who[0].upper()}{who[1:]} judged {count(backing.n, 'returned answer')}."
    if backing.confirmed:
        words += f" Of the accepted ones they accept {say_share(backing.confirmed)}."
    if backing.gap:
        words += " " + say_difference("loop's own score", backing.gap, than="theirs")
    return words
