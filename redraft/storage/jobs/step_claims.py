"""Claims the steps of jobs. A claim gives a worker a lease with a fresh token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

import sqlalchemy as sa

from redraft.domain.jobs.states import JobKind, JobStatus, Step
from redraft.storage.engine import driver
from redraft.storage.engine.bulk_tables import runs
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.group_commit import GroupCommit
from redraft.storage.engine.statements import Rows, bind, fetch, with_rows
from redraft.storage.engine.tables import jobs
from redraft.storage.jobs.jobs import JobRecord, as_record
from redraft.storage.jobs.transitions import LOST_LEASES, SHARED_LOSSES_MAX, is_answered, is_due, is_free, is_open

_STARTS_JOB = sa.or_(
    jobs.c.kind == JobKind.EVALUATE_ANSWER.value,
    sa.and_(jobs.c.step == Step.GENERATE.value, jobs.c.iteration == jobs.c.first_iteration - 1),
)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed step.

    Attributes:
        job: the row after the claim.
        remaining_s: the time to the job's deadline.
        starts_job: whether the claim reserved an event number for the start of the job.
        starts_iteration: whether the claim reserved an event number for the start of an iteration.
    """

    job: JobRecord
    remaining_s: float
    starts_job: bool
    starts_iteration: bool


def claim(
    connection: sa.Connection,
    job_id: str,
    step: str,
    step_no: int,
    *,
    owner: str,
    lease_s: float,
    losses_max: int = SHARED_LOSSES_MAX,
) -> Claim | None:
    """Claim a step with a fresh lease token. Return None if the step is not due or another worker has its lease.

    The first claim of a step also reserves the numbers of its events. `lease_s` is the length of the lease. A step
    that has lost more than `losses_max` leases is not claimed.
    """
    parameters = {"p_id": job_id, "p_step": step, "p_step_no": step_no, "p_owner": owner, "p_lease_s": lease_s}
    values = fetch(connection, _claim_statement(step), {**parameters, "p_losses_max": losses_max})
    if values is None:
        return None
    database_now: datetime = values.pop("now")
    starts_job = bool(values.pop("starts_job"))
    job = as_record(values)
    is_first = job.step_claims == 1
    remaining_s = (job.deadline_at - database_now).total_seconds()
    return Claim(job, remaining_s, is_first and starts_job, starts_iteration=is_first and step == Step.GENERATE)


@cache  # every step runs this statement, and building it takes longer than running it
def _claim_statement(step: str) -> sa.Executable:
    return _claiming(step).returning(*jobs.c, DbNow().label("now"), _STARTS_JOB.label("starts_job"))


def find_new(group_commit: GroupCommit, job_id: str) -> Claim | None:
    """Find a job whose first step, which generates, has no claim yet. Return the claim that `claim_new` would make.

    Return None if the step is not due or has a claim, or if its run has a budget.
    """
    values = group_commit.fetch(job_id, lambda connection: bind(connection, _find_statement(), {"p_id": job_id}))
    if values is None:
        return None
    database_now: datetime = values.pop("now")
    job = as_record(values)
    # The claim reserves the numbers of two events: the start of the job, and of the iteration
    job = replace(job, step_claims=1, lease_token=job.lease_token + 1, event_seq=job.event_seq + 2)
    return Claim(job, (job.deadline_at - database_now).total_seconds(), starts_job=True, starts_iteration=True)


@cache
def _find_statement() -> sa.Executable:
    has_budget = sa.exists().where(runs.c.id == jobs.c.run_id, runs.c.max_cost_nano_usd.is_not(None))
    is_new = sa.and_(jobs.c.iteration == 0, jobs.c.step_claims == 0, jobs.c.continuations == 0)
    is_claimable = sa.and_(jobs.c.step == Step.GENERATE.value, is_open(), is_due(), is_free())
    query = sa.select(*jobs.c, DbNow().label("now"))
    return query.where(jobs.c.id == sa.bindparam("p_id"), is_new, is_claimable, ~has_budget)


def claim_new(group_commit: GroupCommit, claim: Claim, rows: Sequence[Rows], *, owner: str, lease_s: float) -> bool:
    """Claim a step that `find_new` found, and add rows. Return False if the job has changed since then.

    Return False also if it is unknown whether the step was claimed. If it was claimed, the lease expires.
    """
    job = claim.job
    parameters = {"p_id": job.id, "p_step": job.step, "p_step_no": job.step_no, "p_owner": owner, "p_lease_s": lease_s}
    parameters |= {"p_losses_max": SHARED_LOSSES_MAX, "p_token": job.lease_token}

    def build(connection: sa.Connection) -> driver.Statement:
        return with_rows(connection, _claim_new_statement(), parameters, rows)

    return group_commit.execute(job.id, build) is not None


@cache
def _claim_new_statement() -> sa.Update:
    # Each change of a step changes the token, too
    is_as_found = jobs.c.lease_token + 1 == sa.bindparam("p_token", type_=sa.Integer)
    return _claiming(Step.GENERATE).where(is_as_found).returning(jobs.c.id)


def _claiming(step: str) -> sa.Update:
    now = DbNow()
    is_first_claim = jobs.c.step_claims == 0
    starts_iteration = int(step == Step.GENERATE)
    new_events = ((is_first_claim & _STARTS_JOB, starts_iteration + 1), (is_first_claim, starts_iteration))
    return (
        sa.update(jobs)
        .where(
            jobs.c.id == sa.bindparam("p_id"),
            jobs.c.step == sa.bindparam("p_step"),
            jobs.c.step_no == sa.bindparam("p_step_no"),
            is_open(),
            is_due(),
            is_free(),
            sa.bindparam("p_losses_max", type_=sa.Integer) >= LOST_LEASES,
        )
        .values(
            status=sa.case((is_answered(), jobs.c.status), else_=JobStatus.RUNNING.value),
            started_at=sa.func.coalesce(jobs.c.started_at, now),
            version=jobs.c.version + sa.case((jobs.c.status == JobStatus.QUEUED.value, 1), else_=0),
            lost_leases=LOST_LEASES,
            step_claims=jobs.c.step_claims + 1,
            lease_token=jobs.c.lease_token + 1,
            lease_owner=sa.bindparam("p_owner"),
            lease_expires_at=DbNow(sa.bindparam("p_lease_s", type_=sa.Float)),
            ring_count=0,
            event_seq=jobs.c.event_seq + sa.case(*new_events, else_=0),
        )
    )
