"""What a rubric demands, in words for whoever writes the answer: from the first prompt on, hidden criteria left out."""

from collections.abc import Sequence

from redraft.domain.evaluation.rubrics import Criterion, statement_of


def demands(rubric: Sequence[Criterion] | None) -> list[str]:
    """One line per criterion, in the rubric's order; a fault is something that must not be."""
    return [_demand(criterion) for criterion in rubric or () if not criterion.hidden]


def _demand(criterion: Criterion) -> str:
    words = statement_of(criterion)
    best = (criterion.anchors or {}).get("5")
    words = f"{words} (at best: {best})" if best else words
    words = f"It must not be true that: {words}" if criterion.weight < 0 else words
    return f"{words} (required)" if criterion.required else words
