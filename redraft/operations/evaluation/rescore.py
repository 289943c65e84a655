"""Evaluates the stored answers of a job again, with another evaluator, profile or rubric."""

from collections import Counter
from typing import Any

from pydantic import ValidationError

from redraft.domain.jobs.requests import (
    DEFAULT_PROFILE,
    EVALUATOR_CALLS_MAX,
    EvaluationFields,
    EvaluationOptions,
    RescoreAnswers,
    RescoreJob,
    evaluator_calls_max,
)
from redraft.domain.jobs.states import TERMINAL, JobKind, JobStatus
from redraft.errors import Conflict, Invalid
from redraft.operations.jobs import submit
from redraft.operations.jobs.queries import record_of
from redraft.operations.jobs.submit import Idempotency, Submission
from redraft.operations.request_views import parse_request, schema_of
from redraft.operations.services import Services
from redraft.storage.jobs import history
from redraft.storage.jobs.history import IterationRecord
from redraft.storage.jobs.jobs import JobRecord

# The receiver of a webhook expects events of the old job only
_KEPT = frozenset(EvaluationFields.model_fields) - {"webhook"}


def rescore(services: Services, job_id: str, change: RescoreJob, idempotency: Idempotency | None = None) -> Submission:
    """Submit a new job that evaluates the answers of job `job_id`. That job does not change.

    Raises:
        NotFound: there is no such job.
        Conflict: the job has not ended, or has generated no answers.
        Invalid: an iteration does not exist, the evaluation fields contradict each other, or the key was used with
            another request.
    """
    return submit.submit(services, request_for(services, job_id, change), idempotency)


def request_for(services: Services, job_id: str, change: RescoreJob, *, drops_rubric: bool = False) -> RescoreAnswers:
    """The request of the new job. With `drops_rubric` it has no rubric. Raises the errors of `rescore`."""
    with services.database.read() as connection:
        job = record_of(connection, job_id)
        _ensure_can_rescore(job)
        records = history.iterations_of(connection, job)
    request = _request(job, change, _numbers(job, records, change), drops_rubric=drops_rubric)
    candidates = Counter(record.number for record in records if record.number in request.iterations)
    calls = max(candidates.values()) * evaluator_calls_max(request)
    if calls > EVALUATOR_CALLS_MAX:
        words = f"This needs up to {calls} evaluator calls per iteration; the maximum is {EVALUATOR_CALLS_MAX}."
        raise Invalid.at("/evaluation", words, "too_many_judge_calls")
    return request


def _ensure_can_rescore(job: JobRecord) -> None:
    if job.kind == JobKind.RESCORE_ANSWERS:
        raise Conflict(f"Job {job.id} rescores the answers of job {job.rescored_job_id}; rescore that job.")
    if JobStatus(job.status) not in TERMINAL:
        raise Conflict(f"Job {job.id} is {job.status}; rescore it after it has ended.", code="job_not_terminal")


def _numbers(job: JobRecord, records: list[IterationRecord], change: RescoreJob) -> list[int]:
    known = sorted({record.number for record in records if not record.as_attempt().is_truncated})
    if not known:
        raise Conflict(f"Job {job.id} has no answer; there is nothing to evaluate.")
    wanted = sorted(set(change.iterations or known))
    unknown = [number for number in wanted if number not in known]
    if unknown:
        words = f"Job {job.id} has the iterations {known[0]} to {known[-1]}, not {unknown[0]}."
        if any(record.number == unknown[0] for record in records):
            words = f"The answer of iteration {unknown[0]} was cut off: there is no complete answer to evaluate."
        raise Invalid.at("/iterations", words, "unknown_iteration")
    return wanted


def _request(job: JobRecord, change: RescoreJob, numbers: list[int], *, drops_rubric: bool) -> RescoreAnswers:
    before = parse_request(job)
    kept = {name: getattr(before, name) for name in _KEPT}
    given = {name: getattr(change, name) for name in change.model_fields_set - {"iterations"}}
    named = {name: value for name, value in given.items() if value is not None}
    if change.evaluator_sampling is not None:
        named["evaluator_sampling"] = before.evaluator_sampling.merged(change.evaluator_sampling)
    # Only the default profile evaluates by a rubric
    if drops_rubric or named.get("profile", DEFAULT_PROFILE) != DEFAULT_PROFILE:
        kept["rubric"] = None
    submit.refuse_misread_checks(change.rubric, change.eval_crit)
    options: EvaluationOptions = named.get("evaluation") or before.evaluation
    if change.evaluation is not None and change.evaluation.when != "before_done":
        words = "Rescoring evaluates stored answers: leave evaluation.when out."
        raise Invalid.at("/evaluation/when", words, "nothing_to_answer")
    if change.evaluation is not None and change.evaluation.audit is not None:
        words = "Rescoring has no audit: set evaluator_model to the model of the audit instead."
        raise Invalid.at("/evaluation/audit", words, "audit_misplaced")
    # A rescoring must give a new verdict, so it uses no cache and skips no answer
    changed: dict[str, Any] = {"audit": None, "skip": "never" if options.skip == "auto" else options.skip}
    changed |= {"when": "before_done", "sample": 1.0, "min_answer_chars": 0}
    if "evaluator_model" in named and change.evaluation is None:
        # The job's panel would take precedence over the evaluator that the change names
        changed["panel"] = []
    fields: dict[str, Any] = {**kept, **named, "evaluation": options.model_copy(update=changed), "cache": "off"}
    fields |= {"job_id": job.id, "iterations": numbers, "answer_schema": schema_of(before)}
    try:
        return RescoreAnswers.model_validate(fields)
    except ValidationError as error:
        words = error.errors()[0]["msg"]
        raise Invalid(f"These fields do not fit together: {words}.") from error
