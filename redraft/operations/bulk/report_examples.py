"""Reads the questions, answers and verdicts of the few items that a report shows as examples."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from redraft.domain.bulk.examples import (
    ANSWER_CHARS,
    GAP_CHARS,
    GAPS_SHOWN,
    QUESTION_CHARS,
    REASONING_CHARS,
    Attempt,
    Choice,
    Example,
    Examples,
    Excerpt,
    Gap,
    choose_examples,
)
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.operations.bulk.run_results import best_verdict, statement
from redraft.operations.services import Services
from redraft.storage.bulk import run_examples

_Texts = Mapping[tuple[int, int], Sequence[Mapping[str, Any]]]


def read_examples(services: Services, run_id: str, items: Sequence[ItemOutcome]) -> Examples:
    """Choose the examples among all items of a run, and read their texts. Items deleted meanwhile are left out."""
    chosen = choose_examples(items)
    wanted = {
        (choice.item.number, number)
        for choice in chain(chosen.lowest, chosen.helped, chosen.hurt)
        for number in choice.iterations
    }
    if not wanted:
        return Examples()
    with services.database.read() as connection:
        questions = run_examples.list_questions(connection, run_id, sorted({number for number, _ in wanted}))
        attempts = run_examples.list_attempts(connection, run_id, sorted(wanted), ANSWER_CHARS)

    def examples(choices: Sequence[Choice]) -> tuple[Example, ...]:
        return tuple(found for choice in choices if (found := _example(choice, questions, attempts)))

    return Examples(examples(chosen.lowest), examples(chosen.helped), examples(chosen.hurt))


def _example(choice: Choice, questions: Mapping[int, tuple[str, str]], attempts: _Texts) -> Example | None:
    item, question = choice.item, questions.get(choice.item.number)
    found = [(number, attempts.get((item.number, number))) for number in choice.iterations]
    shown = [_attempt(number, rows, item) for number, rows in found if rows]
    if question is None or len(shown) < len(choice.iterations):
        return None
    job_id, words = question
    return Example(
        custom_id=item.custom_id,
        repeat=item.repeat,
        job_id=job_id,
        stop_reason=item.stop_reason,
        only_evaluates=item.only_evaluates,
        question=_excerpt(words, QUESTION_CHARS),
        attempts=tuple(shown),
    )


def _attempt(number: int, candidates: Sequence[Mapping[str, Any]], item: ItemOutcome) -> Attempt:
    best = best_verdict(candidates) or candidates[0]
    gaps = _gaps(best)
    return Attempt(
        iteration=number,
        is_returned=number == item.best_iteration,
        is_accepted=bool(best["passed"]),
        score=best["score"],
        answer=Excerpt(best["answer"], best["length"]),
        reasoning=_excerpt(best["reasoning"] or "", REASONING_CHARS),
        gaps=tuple(gaps[:GAPS_SHOWN]),
        gaps_left_out=max(0, len(gaps) - GAPS_SHOWN),
    )


def _gaps(verdict: Mapping[str, Any]) -> list[Gap]:
    """Return the criteria that an answer does not meet. Without criteria, return the suggestions of the evaluator."""
    criteria = verdict["criteria"] or ()
    missed = [
        Gap(_excerpt(each.get("gap") or "", GAP_CHARS), _excerpt(_name(each), GAP_CHARS))
        for each in criteria
        if each.get("passed") is False
    ]
    if criteria:
        return missed
    return [Gap(_excerpt(words, GAP_CHARS)) for words in verdict["suggestions"] or ()]


def _name(criterion: Mapping[str, Any]) -> str:
    # The reasoning of the evaluator names criteria by id
    return f"{criterion['id']} ({statement(criterion).rstrip('.')})" if criterion["text"] else criterion["id"]


def _excerpt(text: str, limit: int) -> Excerpt:
    return Excerpt(text[:limit], len(text))
