"""The items that a report shows with their texts: the worst items, and the items that iterating changed most."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from redraft.domain.bulk.outcomes import SAME, ItemOutcome

SHOWN = 5
HURT_SHOWN = 3
QUESTION_CHARS, ANSWER_CHARS, REASONING_CHARS, GAP_CHARS = 600, 800, 400, 300
GAPS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text. `length` is the number of characters of the whole text."""

    text: str
    length: int

    @property
    def is_cut(self) -> bool:
        return self.length > len(self.text)


@dataclass(frozen=True, slots=True)
class Gap:
    """What an answer lacks. `criterion` is the criterion that the answer does not meet; None for a suggestion."""

    words: Excerpt
    criterion: Excerpt | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """The best answer of one iteration, with the verdict on it."""

    iteration: int
    is_returned: bool
    is_accepted: bool
    score: float | None
    answer: Excerpt
    reasoning: Excerpt
    gaps: tuple[Gap, ...]
    gaps_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Example:
    """An item with its question, and one or two of its answers, the earlier answer first."""

    custom_id: str
    repeat: int
    job_id: str
    stop_reason: str | None
    only_evaluates: bool
    question: Excerpt
    attempts: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of a report.

    Attributes:
        lowest: the answers with the lowest scores that were not accepted.
        helped: the items whose score rose most, each with its first and its returned answer.
        hurt: the items with a revision that scored lower than an earlier answer, each with these two answers.
    """

    lowest: tuple[Example, ...] = ()
    helped: tuple[Example, ...] = ()
    hurt: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """An item to show, and the iterations whose answers are shown."""

    item: ItemOutcome
    iterations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """The chosen items for each field of `Examples`."""

    lowest: tuple[Choice, ...]
    helped: tuple[Choice, ...]
    hurt: tuple[Choice, ...]


def choose_examples(items: Sequence[ItemOutcome]) -> Choices:
    """Choose the items to show, at most one repeat of each row."""
    read = _answered(items)
    lowest = (Choice(item, (item.best_iteration or 1,)) for item in lowest_scores(read)[:SHOWN])
    gains = _ranked((-_gain(item), Choice(item, (1, item.best_iteration or 1))) for item in read if _gain(item) > SAME)
    return Choices(tuple(lowest), tuple(gains[:SHOWN]), tuple(losses(read)[:HURT_SHOWN]))


def losses(items: Iterable[ItemOutcome]) -> list[Choice]:
    """Return the items with a revision that scored lower, the worst first, at most one repeat of each row."""
    return _ranked(found for item in _answered(items) if (found := _loss(item)))


def _answered(items: Iterable[ItemOutcome]) -> list[ItemOutcome]:
    return [item for item in items if item.has_verdict and item.best_iteration is not None]


def lowest_scores(items: Iterable[ItemOutcome]) -> list[ItemOutcome]:
    """Return the evaluated items that were not accepted, the lowest score first, at most one repeat of each row."""
    missed = [item for item in items if item.has_verdict and not item.is_accepted]
    missed.sort(key=lambda item: (item.final_score or 0, item.custom_id, item.repeat))
    rows: dict[str, ItemOutcome] = {}
    for item in missed:
        rows.setdefault(item.custom_id, item)
    return list(rows.values())


def _ranked(choices: Iterable[tuple[float, Choice]]) -> list[Choice]:
    """Return the choices with the lowest numbers first, at most one of each row."""
    rows: dict[str, Choice] = {}
    for _, choice in sorted(choices, key=lambda each: (each[0], each[1].item.custom_id, each[1].item.repeat)):
        rows.setdefault(choice.item.custom_id, choice)
    return list(rows.values())


def _gain(item: ItemOutcome) -> float:
    """Return the returned score minus the first score, or 0 if one of these scores is missing."""
    return 0.0 if item.first_score is None or item.final_score is None else item.final_score - item.first_score


def _loss(item: ItemOutcome) -> tuple[float, Choice] | None:
    """Return how much the score fell, with the two iterations.

    It is the fall from the first to the returned answer, if there is one, and otherwise the largest fall at a revision.
    A fall to the returned answer ranks before all others, because the user got the worse answer.
    """
    if _gain(item) < -SAME:
        # Gains are from -1 to 1, so -1 puts this item before each item with a loss at a revision
        return _gain(item) - 1, Choice(item, (1, item.best_iteration or 1))
    worst: tuple[float, Choice] | None = None
    best, best_number = None, 0
    for number, score in enumerate(item.scores_by_iteration, 1):
        if score is None:
            continue
        if best is not None and score - best < min(-SAME, worst[0] if worst else 0.0):
            worst = score - best, Choice(item, (best_number, number))
        if best is None or score > best:
            best, best_number = score, number
    return worst
