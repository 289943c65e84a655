"""Continues a job for `redraft jobs continue`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redraft.cli import sessions
from redraft.cli.views.following import last_event
from redraft.cli.views.outcomes import print_detached
from redraft.cli.views.waiting import Wait, wait_for
from redraft.domain.jobs.requests import ContinueJob
from redraft.domain.jobs.states import ensure_can_continue
from redraft.operations.jobs import lifecycle, queries, references


@dataclass(frozen=True, slots=True)
class Manner:
    """The output options of the command."""

    as_json: bool
    detach: bool
    require_accept: bool


def go_on(job: str, body: Mapping[str, Any], manner: Manner) -> int:
    """Continue a job, and wait for its end unless `detach` is set."""
    change: ContinueJob = sessions.check(ContinueJob, {k: v for k, v in body.items() if v is not None})
    with sessions.opened() as services:
        job_id = references.find_job_id(services, job)
        if manner.detach:
            lifecycle.continue_job(services, job_id, change)
            print_detached(services, job_id, as_json=manner.as_json)
            return 0
        before = queries.get_job(services, job_id)
        ensure_can_continue(before.kind, before.status, job_id)  # Report it before starting a broker and a worker

        def begin() -> tuple[str, int]:
            after = last_event(services, job_id)
            lifecycle.continue_job(services, job_id, change)
            return job_id, after

        deadline_s = before.request["limits"]["deadline_s"]
        if change.limits and "deadline_s" in change.limits.model_fields_set:
            deadline_s = change.limits.deadline_s
        threshold = change.score_threshold
        wait = Wait(
            threshold=before.progress.score_threshold if threshold is None else threshold,
            deadline_s=deadline_s,
            as_json=manner.as_json,
            must_be_accepted=manner.require_accept,
        )
        return wait_for(services, begin, wait)
