"""What the tabs of a job's page show; those with forms are also shown again when a form was filled in wrong."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from fastapi import Request, Response

from api.pages.jobs.job_answers import answer_of, pending_of
from api.pages.jobs.job_charts import draw_scores
from api.pages.jobs.job_frame import job_page
from api.pages.parts.filled import Filled
from redraft.operations.evaluation.ratings import Rating
from redraft.operations.jobs.diffs import AnswerDiff, DiffPart, diff_of, score_of
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.views import HistoryView

_SAME_CHARS = 600
_DIFF_CHARS = 60_000
_EMPTY = Filled()


def answer_tab(request: Request, view: HistoryView, form: Filled = _EMPTY, status: int = 200) -> Response:
    """The answer, and how it can go on."""
    return job_page(
        request,
        "job/answer.html",
        view,
        status=status,
        answer=answer_of(view.job, view.iterations, request.query_params.get("view")),
        pending=pending_of(view.job, view.iterations),
        attempts=best_attempts(view.iterations),
        form=form,
    )


def iterations_tab(
    request: Request,
    view: HistoryView,
    form: Filled = _EMPTY,
    status: int = 200,
) -> Response:
    """What each iteration wrote, what was said of it, and what it changed."""
    best = best_attempts(view.iterations)
    diff = _diff(request, view)
    return job_page(
        request,
        "job/iterations.html",
        view,
        tab="/iterations",
        status=status,
        groups=[(number, list(group)) for number, group in groupby(view.iterations, key=lambda each: each.number)],
        best=best,
        best_ids={each.id for each in best},
        chart=draw_scores(view.matrix, view.job.progress.score_threshold),
        matrix=view.matrix,
        ratings=_by_evaluation(view.ratings),
        diff=diff,
        diff_parts=list(readable(diff.parts)) if diff else [],
        form=form,
    )


def best_attempts(iterations: Sequence[Iteration]) -> list[Iteration]:
    """Of each iteration the candidate that scored best."""
    return [max(group, key=score_of) for _, group in groupby(iterations, key=lambda each: each.number)]


def _diff(request: Request, view: HistoryView) -> AnswerDiff | None:
    """Between the two iterations that the address names, else the last two."""
    numbers = sorted({each.number for each in view.iterations})
    if len(numbers) < 2:
        return None
    by_text = {str(number): number for number in numbers}
    wanted = [request.query_params.get(name, "") for name in ("from", "to")]
    old, new = (by_text.get(text, usual) for text, usual in zip(wanted, numbers[-2:], strict=True))
    return diff_of(view.iterations, old, new, view.job.id)


def readable(parts: Sequence[DiffPart]) -> Iterator[tuple[str, str]]:
    """Parts as (kind, text): what stayed is cut to its ends, all together to what a person can read."""
    room = _DIFF_CHARS
    for part in parts:
        if part.kind == "equal" and len(part.text) > _SAME_CHARS:
            half = _SAME_CHARS // 2
            yield "equal", part.text[:half]
            yield "gap", f"{len(part.text) - 2 * half:,} characters the same"
            yield "equal", part.text[-half:]
            room -= 2 * half
            continue
        yield part.kind, part.text[:room]
        if len(part.text) > room:
            yield "gap", "cut here: the rest is too long to be shown"
            return
        room -= len(part.text)


def _by_evaluation(ratings: Sequence[Rating]) -> Mapping[str, Sequence[Rating]]:
    found: dict[str, Any] = {}
    for rating in ratings:
        found.setdefault(rating.evaluation_id, []).append(rating)
    return found
