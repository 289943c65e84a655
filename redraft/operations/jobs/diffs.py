"""The word diff between the answers of two iterations."""

from collections.abc import Sequence

from pydantic import Field

from redraft.domain.text.diffs import Kind, compare_words
from redraft.errors import NotFound
from redraft.operations.jobs import queries
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.resource_base import Resource
from redraft.operations.services import Services


class DiffPart(Resource):
    kind: Kind
    text: str


class AnswerDiff(Resource):
    """Two answers of a job, compared word by word; the `equal` and `insert` parts together are the newer answer."""

    from_iteration: int
    to_iteration: int
    is_cut: bool = Field(description="Only the first 200,000 characters of each answer were compared.")
    parts: list[DiffPart]


def diff(services: Services, job_id: str, old: int, new: int) -> AnswerDiff:
    """Compare the answers of two iterations. An iteration with several candidates is represented by the best one.

    Raises NotFound if there is no such job, or no such iteration.
    """
    return diff_of(queries.list_iterations(services, job_id), old, new, job_id)


def diff_of(iterations: Sequence[Iteration], old: int, new: int, job_id: str) -> AnswerDiff:
    """Compare two of these iterations. Raises NotFound if an iteration is missing."""
    found = compare_words(_answer(iterations, old, job_id), _answer(iterations, new, job_id))
    parts = [DiffPart(kind=part.kind, text=part.text) for part in found.parts]
    return AnswerDiff(from_iteration=old, to_iteration=new, is_cut=found.is_cut, parts=parts)


def _answer(iterations: Sequence[Iteration], number: int, job_id: str) -> str:
    candidates = [each for each in iterations if each.number == number]
    if not candidates:
        raise NotFound("iteration", f"{job_id}/{number}")
    return max(candidates, key=score_of).answer


def score_of(iteration: Iteration) -> float:
    """The score for comparing candidates; candidates without a score come last."""
    verdict = iteration.evaluation
    return -1.0 if verdict is None or verdict.score is None else verdict.score
