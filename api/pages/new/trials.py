"""Tries a rubric on the answer of a past job: checks at once and without cost, other criteria in a new job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redraft.domain.evaluation.rubrics import Criterion, CriterionResult, run_checks, statement_of
from redraft.domain.jobs.requests import EvaluationFields, RescoreJob
from redraft.errors import Conflict
from redraft.operations.evaluation import rescore
from redraft.operations.jobs import queries, references
from redraft.operations.jobs.cost_estimates import calls_max
from redraft.operations.services import Services
from redraft.storage.jobs.job_filters import JobFilter

_OUTSIDE = frozenset(("http", "package"))


@dataclass(frozen=True, slots=True)
class CriterionTrial:
    """A criterion with its result, or with None if only an evaluation in a job can decide it."""

    criterion: Criterion
    result: CriterionResult | None

    @property
    def statement(self) -> str:
        return statement_of(self.criterion)


@dataclass(frozen=True, slots=True)
class Trial:
    """A rubric that is tried on the answer of a job. `calls` is the maximum number of calls if models evaluate it."""

    job_id: str
    task: str
    iteration: int
    rubric: list[Criterion]
    tried: list[CriterionTrial]
    calls: int


def try_rubric(services: Services, rubric: Sequence[Any], job: str) -> Trial:
    """Run the checks of a valid rubric on the answer of a job.

    `job` is an id or its beginning. If it is empty, the latest succeeded job is used. Raises NotFound if there is no
    such job, and Conflict if the job has no answer.
    """
    if job:
        found = queries.get_job(services, references.find_job_id(services, job))
    else:
        latest = queries.list_jobs(services, JobFilter(statuses=("succeeded",), limit=1))[0]
        if not latest:
            raise Conflict("No job has an answer yet. Send a job first.")
        found = latest[0]
    result = found.result or {}
    if not result.get("final_answer"):
        raise Conflict(f"Job {found.id} has no answer yet. Name another job.")
    fields = EvaluationFields.model_validate({"instruct": "-", "rubric": list(rubric)})
    criteria = fields.rubric or []
    sources = len(found.request.get("sources") or ())
    tried = [CriterionTrial(each, _result(each, result["final_answer"], sources)) for each in criteria]
    change = RescoreJob(rubric=criteria, iterations=[result["best_iteration"]])
    calls = calls_max(services, rescore.request_for(services, found.id, change)).total
    return Trial(found.id, found.request["instruct"], result["best_iteration"], criteria, tried, calls)


def evaluate(services: Services, trial: Trial) -> str:
    """Submit a job that evaluates the answer by the rubric. Return its id. Raises the errors of `rescore`."""
    change = RescoreJob(rubric=trial.rubric, iterations=[trial.iteration])
    return rescore.rescore(services, trial.job_id, change).job.id


def _result(criterion: Criterion, answer: str, sources: int) -> CriterionResult | None:
    if criterion.check is None or criterion.check.kind in _OUTSIDE:
        return None
    return run_checks([criterion], answer, sources=sources)[0]
