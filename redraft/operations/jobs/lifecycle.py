"""Cancels, continues and deletes jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from redraft.domain.jobs.requests import ContinueJob, GenerateAnswer, dump, ladder
from redraft.domain.jobs.states import JobStatus, Step, StopReason, ensure_can_continue, states_before
from redraft.errors import Conflict
from redraft.operations.jobs import submit
from redraft.operations.jobs.queries import record_of
from redraft.operations.request_views import readable_request
from redraft.operations.results.completion import announce, close_orphaned_calls, complete
from redraft.operations.results.job_results import Event, ending, event
from redraft.operations.services import Services
from redraft.operations.steps import context
from redraft.storage.bulk import runs
from redraft.storage.engine.columns import DbNow
from redraft.storage.jobs import events, history, jobs, transitions
from redraft.storage.jobs.jobs import JobRecord


@dataclass(frozen=True, slots=True)
class Continuation:
    """A planned continuation: the record of the job before it, the new column values, and the event."""

    job: JobRecord
    values: Mapping[str, Any]
    new_event: Event


def cancel(
    services: Services, job_id: str, *, is_one_of_many: bool = False, continuations: int | None = None
) -> tuple[JobRecord, bool]:
    """Cancel a job at once. The lease of its step becomes invalid, so a later reply is only recorded in the ledger.

    If the job has ended and its answer is still being evaluated, only the evaluation is canceled.

    If a worker executes a step of the job, the workers are asked to abort its calls. With `is_one_of_many`, the caller
    asks the workers once, after the last job. With `continuations`, a job with another number of continuations is not
    canceled.

    Returns the job, and whether this call ended it. Raises NotFound if there is no such job.
    """
    with services.database.write() as connection:
        # Without the lock, a step could store an evaluation after the iterations are read, and the result would lack
        # this evaluation
        transitions.lock(connection, [job_id])
        job = record_of(connection, job_id)
        if continuations not in {None, job.continuations}:
            return job, False
        has_worker, has_ended = job.lease_owner is not None, job.finished_at is not None
        end = ending(
            services.profiles, job, readable_request(job), history.iterations_of(connection, job), StopReason.CANCELED
        )
        first_seq = transitions.change(connection, job_id, end.values, when=transitions.is_open(), new_events=1)
        if first_seq is None:
            return job, False
        events.add(connection, job, first_seq, [end.event])
        complete(connection, job, end.values)
        # A live worker aborts and closes its own calls, as soon as its heartbeat finds that the job has ended
        close_orphaned_calls(connection, job)
        job = record_of(connection, job_id)
    announce(services, job, has_ended=True)
    if has_worker and not is_one_of_many:
        services.queue.request_heartbeats()
    return job, not has_ended


def continue_job(services: Services, job_id: str, change: ContinueJob) -> JobRecord:
    """Add iterations to a job that has ended. Recorded replies are used again, so no call is paid twice.

    Raises:
        NotFound: there is no such job.
        Conflict: the job has not ended, generates no answers, or was changed at the same time.
        Invalid: a model cannot be called.
    """
    ready = check_continuation(services, job_id, change)
    with services.database.write() as connection:
        job = store_continuation(connection, ready)
    if job is None:
        raise Conflict(f"Job {job_id} was changed at the same moment by another request; read the job and try again.")
    services.queue.wake(job_id)
    context.notify(services, context.message_of(job))
    return job


def check_continuation(services: Services, job_id: str, change: ContinueJob) -> Continuation:
    """Plan a continuation of a job without storing it. Raises like `continue_job`."""
    with services.database.read() as connection:
        job = record_of(connection, job_id)
    return plan_continuation(services, job, change)


def plan_continuation(
    services: Services, job: JobRecord, change: ContinueJob, *, keeps_limit: bool = False
) -> Continuation:
    """Plan a continuation without storing it. With `keeps_limit` the job keeps its iteration limit.

    Raises Conflict if the job has not ended, or generates no answers, and Invalid if a model cannot be called.
    """
    ensure_can_continue(job.kind, job.status, job.id)
    request = _changed(services, job, change)
    values = _continuation(services, job, request, change)
    is_waiting = _waits_for_verdict(services, job, request)
    if is_waiting:
        # A user who gives guidance wants another answer, even if the last answer is accepted now
        first = job.iteration + 1 if change.guidance else job.iteration
        values |= {"step": Step.EVALUATE.value, "first_iteration": first}
    if keeps_limit:
        least = job.iteration if is_waiting else job.iteration + 1
        values["iteration_limit"] = max(least, job.iteration_limit)
    words = _words(values["iteration_limit"] - job.iteration, waiting=job.iteration if is_waiting else None)
    return Continuation(job, values, event("job.continued", words, **dump(change)))


def _waits_for_verdict(services: Services, job: JobRecord, request: GenerateAnswer) -> bool:
    """Whether the last answer of the job has no evaluation, and the continuation does not change the sources."""
    if dump(request)["sources"] != job.request["sources"]:
        return False
    with services.database.read() as connection:
        records = history.iterations_of(connection, job, job.iteration)
    return any(record.evaluation is None for record in records)


def _words(more: int, *, waiting: int | None) -> str:
    iterations = f"{more} more iteration{'' if more == 1 else 's'}"
    if waiting is None:
        return f"The job continues for up to {iterations}."
    first = f"The answer of iteration {waiting} is evaluated first"
    return f"{first}; the job continues for up to {iterations}." if more else f"{first}."


def store_continuation(connection: Connection, ready: Continuation, *, delivery: str | None = None) -> JobRecord | None:
    """Store a continuation. None if the job has changed meanwhile. The caller notifies workers after the commit."""
    job = ready.job
    # The version is compared too: only one of two concurrent continuations may be stored
    unmoved = transitions.is_status(*states_before(JobStatus.QUEUED)) & transitions.is_version(job.version)
    values = {**ready.values, "delivery": delivery}
    first_seq = transitions.change(connection, job.id, values, when=unmoved, new_events=1)
    if first_seq is None:
        return None
    events.add(connection, job, first_seq, [ready.new_event])
    return record_of(connection, job.id)


def _changed(services: Services, job: JobRecord, change: ContinueJob) -> GenerateAnswer:
    request = GenerateAnswer.model_validate(job.request)
    given = {name: getattr(change, name) for name in change.model_fields_set - {"guidance"}}
    update = {name: value for name, value in given.items() if value is not None}
    # A user who continues a job wants a better answer, so no answer ends the job before its evaluation
    options: dict[str, Any] = {"when": "before_done"}
    if change.limits is not None:
        # A request with only a longer deadline must not remove the budget
        update["limits"] = request.limits.merged(change.limits)
    if change.evaluator_sampling is not None:
        update["evaluator_sampling"] = request.evaluator_sampling.merged(change.evaluator_sampling)
    if change.model is not None:
        update["model"] = submit.resolve_ladder(services.providers, change.model)
    if change.evaluator_model is not None:
        # A panel would take precedence over the evaluator that the change names
        options["panel"] = []
    update["evaluation"] = request.evaluation.model_copy(update=options)
    changed = request.model_copy(update=update)
    changed = changed.model_copy(update=submit.normalise_evaluators(services, changed, ""))
    submit.check_priced(services, changed, changed.limits.max_cost_usd)
    return changed


def _continuation(services: Services, job: JobRecord, request: GenerateAnswer, change: ContinueJob) -> dict[str, Any]:
    return {
        "status": JobStatus.QUEUED.value,
        "stop_reason": None,
        "finished_at": None,
        "result": None,
        "error": None,
        "request": dump(request),
        "warnings": submit.warnings_of(services, request),
        "model": ladder(request)[0],
        "evaluator_model": request.evaluator_model,
        "guidance": change.guidance,
        "deadline_at": DbNow(request.limits.deadline_s),
        "step": Step.GENERATE.value,
        "step_no": job.step_no + 1,
        "step_attempt": 0,
        "step_claims": 0,
        "lost_leases": 0,
        "available_at": DbNow(),
        "rung_at": DbNow(),
        "ring_count": 0,
        "first_iteration": job.iteration + 1,
        "iteration_limit": job.iteration + request.iter_max,
        "continuations": job.continuations + 1,
    }


def delete(services: Services, job_id: str) -> None:
    """Delete a job that has ended, with its iterations, evaluations, calls, events and ratings.

    Raises NotFound if there is no such job, and Conflict if the job has not ended, or is an item of a running run.
    """
    with services.database.write() as connection:
        job = record_of(connection, job_id)
        if job.run_id is not None and runs.is_running(connection, job.run_id):
            raise Conflict(f"Job {job_id} is an item of run {job.run_id}, which is running; delete it after the run.")
        if not jobs.remove(connection, job_id):
            raise Conflict(f"Job {job_id} is {job.status}; cancel it before you delete it.", code="job_not_terminal")
