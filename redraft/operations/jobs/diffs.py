"""Compares the answers of two iterations word by word."""

from collections.abc import Sequence

from pydantic import Field

from redraft.domain.text.diffs import DiffPart, compare_words
from redraft.errors import existing
from redraft.operations.jobs import queries
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.resource_base import Resource
from redraft.operations.services import Services


class AnswerDiff(Resource):
    """Two answers of a job, compared word by word. The `equal` and `insert` parts together are the newer answer."""

    from_iteration: int
    to_iteration: int
    is_cut: bool = Field(description="Only the first 200,000 characters of each answer were compared.")
    parts: list[DiffPart]


def diff(services: Services, job_id: str, old: int, new: int) -> AnswerDiff:
    """Compare the best answers of two iterations. Raises NotFound if the job or an iteration does not exist."""
    return diff_of(queries.list_iterations(services, job_id), old, new, job_id)


def diff_of(iterations: Sequence[Iteration], old: int, new: int, job_id: str) -> AnswerDiff:
    """Compare the best answers of two of these iterations. Raises NotFound if an iteration is missing."""
    found = compare_words(_answer(iterations, old, job_id), _answer(iterations, new, job_id))
    return AnswerDiff(from_iteration=old, to_iteration=new, is_cut=found.is_cut, parts=list(found.parts))


def _answer(iterations: Sequence[Iteration], number: int, job_id: str) -> str:
    best = max((each for each in iterations if each.number == number), key=score_of, default=None)
    return existing(best, "iteration", f"{job_id}/{number}").answer


def score_of(iteration: Iteration) -> float:
    """The score by which candidates are compared. A candidate without a score gets -1, the lowest score."""
    score = iteration.evaluation and iteration.evaluation.score
    return -1.0 if score is None else score
