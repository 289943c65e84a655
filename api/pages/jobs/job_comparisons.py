"""Chooses the two answers that the page of a job compares: of two iterations, or of two candidates of an iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from api.pages.jobs.job_progress import by_number, same_answers
from api.pages.parts.answer_diffs import ShownDiff, compare_answers
from redraft.operations.jobs.diffs import score_of
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.views import HistoryView


@dataclass(frozen=True, slots=True)
class Compared:
    """Two answers with their differences. `choices` are all answers by their names in the URL, such as 2 or 2.1."""

    old: Iteration
    new: Iteration
    choices: Mapping[str, Iteration]
    diff: ShownDiff

    @property
    def are_candidates(self) -> bool:
        return self.old.number == self.new.number

    def name_of(self, answer: Iteration) -> str:
        # If an answer has two names, the last one names its candidate, such as 2.1 instead of 2
        return next(name for name, each in list(self.choices.items())[::-1] if each is answer)


def compared_of(view: HistoryView, best: Sequence[Iteration], query: Mapping[str, str]) -> Compared | None:
    """Compare the answers that the URL names (`from` and `to`), else the best answer with the answer before it.

    `best` is the best candidate of each iteration. Return None if there is nothing to compare.
    """
    usual = _usual_pair(view.iterations, best, view.job.progress.best_iteration)
    if usual is None:
        return None
    choices = _choices(view.iterations, best)
    wanted = (choices.get(query.get(name, "")) for name in ("from", "to"))
    old, new = (each or other for each, other in zip(wanted, usual, strict=True))
    return Compared(old, new, choices, compare_answers(old.answer, new.answer))


def _choices(iterations: Sequence[Iteration], best: Sequence[Iteration]) -> dict[str, Iteration]:
    """Return the best answer of each iteration, and all candidates of iterations that have several."""
    found = {str(each.number): each for each in best}
    for number, group in by_number(iterations):
        if len(group) > 1:
            found |= {f"{number}.{each.candidate}": each for each in group}
    return found


def _usual_pair(
    iterations: Sequence[Iteration], best: Sequence[Iteration], best_number: int | None
) -> tuple[Iteration, Iteration] | None:
    """Return the best answer and the answer before it. With one iteration, return its two best different candidates."""
    if len(best) > 1:
        at = next((at for at, each in enumerate(best) if at and each.number == best_number), len(best) - 1)
        return best[at - 1], best[at]
    different = sorted((group[0] for group in same_answers(iterations)), key=score_of, reverse=True)
    return (different[1], different[0]) if len(different) > 1 else None
