"""What an iteration changed in the answer of another one."""

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
    """Two answers of a job, word by word: `equal` and `insert` together are the newer one's text."""

    from_iteration: int
    to_iteration: int
    is_cut: bool = Field(description="The answers are longer than what was compared: their first 200,000 characters.")
    parts: list[DiffPart]


def diff(services: Services, job_id: str, old: int, new: int) -> AnswerDiff:
    """Compare the answers of two iterations; of several candidates the one that scored best stands for its iteration.

    Raises:
        NotFound: there is no such job, or no such iteration.
    """
    return diff_of(queries.list_iterations(services, job_id), old, new, job_id)


def diff_of(iterations: Sequence[Iteration], old: int, new: int, job_id: str) -> AnswerDiff:
    """The same of iterations that are at hand; raises what `diff` raises."""
    found = compare_words(_answer(iterations, old, job_id), _answer(iterations, new, job_id))
    parts = [DiffPart(kind=part.kind, text=part.text) for part in found.parts]
    return AnswerDiff(from_iteration=old, to_iteration=new, is_cut=found.is_cut, parts=parts)


def _answer(iterations: Sequence[Iteration], number: int, job_id: str) -> str:
    candidates = [each for each in iterations if each.number == number]
    if not candidates:
        raise NotFound("iteration", f"{job_id}/{number}")
    return max(candidates, key=score_of).answer


def score_of(iteration: Iteration) -> float:
    """For comparing candidates: one without a score comes last."""
    verdict = iteration.evaluation
    return -1.0 if verdict is None or verdict.score is None else verdict.score
