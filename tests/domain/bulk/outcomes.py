"""Items of made-up runs: by hand, and by hypothesis."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from redraft.domain.bulk.outcomes import ItemOutcome

THRESHOLD = 0.8
CENT = Decimal("0.01")


def looped(name: str, *scores: float | None, repeat: int = 1, price: Decimal | None = CENT, **more: Any) -> ItemOutcome:
    """A succeeded item that scored so, iteration by iteration, at one price for each; the best is returned."""
    valid = [score for score in scores if score is not None]
    best = max(valid, default=None)
    facts: dict[str, Any] = {
        "stop_reason": "accepted" if best is not None and best >= THRESHOLD else "iteration_limit",
        "success": best is not None and best >= THRESHOLD,
        "first_score": scores[0] if scores else None,
        "final_score": best,
        "best_iteration": scores.index(best) + 1 if best is not None else None,
        "scores_by_iteration": scores,
        "passed_by_iteration": tuple(score is not None and score >= THRESHOLD for score in scores),
        "iterations": len(scores),
        "cost_usd": None if price is None else price * len(scores),
        "cost_by_iteration": (price,) * len(scores),
        "input_tokens": 100 * len(scores),
        "output_tokens": 10 * len(scores),
        "seconds": float(len(scores)),
    }
    return ItemOutcome(name, repeat, "succeeded", **(facts | more))


def failed(name: str, code: str | None = "provider_timeout", *, repeat: int = 1, **more: Any) -> ItemOutcome:
    facts = {"stop_reason": "error", "error_code": code, "cost_usd": Decimal(0)} | more
    return ItemOutcome(name, repeat, "failed", **facts)


def many(prefix: str, times: int, *scores: float | None, **more: Any) -> list[ItemOutcome]:
    return [looped(f"{prefix}{number:04}", *scores, **more) for number in range(times)]


SCORES = st.integers(0, 20).map(lambda score: score / 20)
NAMES = st.integers(0, 12).map(lambda number: f"row-{number:02}")


@st.composite
def _judged(draw: st.DrawFn) -> ItemOutcome:
    scores: Sequence[float | None] = draw(st.lists(st.none() | SCORES, min_size=1, max_size=4))
    outside = {
        "human_pass": draw(st.none() | st.booleans()),
        "human_score": draw(st.none() | SCORES),
        "audit_passed": draw(st.none() | st.booleans()),
        "audit_score": draw(st.none() | SCORES),
    }
    price = draw(st.none() | st.just(CENT))
    return looped(draw(NAMES), *scores, repeat=draw(st.integers(1, 3)), price=price, **outside)


UNJUDGED = st.builds(
    ItemOutcome,
    custom_id=NAMES,
    repeat=st.integers(1, 3),
    status=st.sampled_from(["queued", "running", "failed", "canceled", "invalid"]),
    error_code=st.none() | st.sampled_from(["refused", "provider_timeout"]),
)
ITEMS = _judged() | UNJUDGED
RUNS = st.lists(ITEMS, max_size=25)
