"""The allowed and the forbidden transitions of a job."""

import itertools

import pytest

from redraft.domain.jobs.states import (
    LIVE,
    TERMINAL,
    TRANSITIONS,
    JobKind,
    JobStatus,
    StopReason,
    ensure_can_continue,
    final_status,
    states_before,
)
from redraft.errors import Conflict

QUEUED, RUNNING, SUCCEEDED, FAILED, CANCELED = JobStatus
ALLOWED = {
    (QUEUED, RUNNING),
    (QUEUED, SUCCEEDED),
    (QUEUED, FAILED),
    (QUEUED, CANCELED),
    (RUNNING, SUCCEEDED),
    (RUNNING, FAILED),
    (RUNNING, CANCELED),
    (SUCCEEDED, QUEUED),
    (FAILED, QUEUED),
    (CANCELED, QUEUED),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(JobStatus, repeat=2)))
def test_each_move_is_either_listed_or_refused(source, target):
    assert (target in TRANSITIONS[source]) is ((source, target) in ALLOWED)
    assert (source.value in states_before(target)) is ((source, target) in ALLOWED)


def test_an_ended_job_changes_its_state_only_by_a_continuation():
    assert {target for status in TERMINAL for target in TRANSITIONS[status]} == {QUEUED}


def test_every_state_is_either_live_or_terminal():
    assert not LIVE & TERMINAL
    assert set(JobStatus) == LIVE | TERMINAL


@pytest.mark.parametrize("reason", list(StopReason))
@pytest.mark.parametrize("has_answer", [True, False])
def test_failed_means_that_there_is_no_answer_to_give(reason, has_answer):
    expected = CANCELED if reason is StopReason.CANCELED else SUCCEEDED if has_answer else FAILED
    assert final_status(reason, has_answer=has_answer) is expected


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_job_that_has_ended_can_be_continued(status):
    ensure_can_continue(JobKind.GENERATE_ANSWER, status, "job_1")


@pytest.mark.parametrize("status", sorted(LIVE))
def test_a_live_job_cannot_be_continued(status):
    with pytest.raises(Conflict, match=f"job_1 is {status}") as caught:
        ensure_can_continue(JobKind.GENERATE_ANSWER, status, "job_1")
    assert caught.value.code == "job_not_terminal"


@pytest.mark.parametrize("status", list(JobStatus))
def test_a_job_that_only_evaluates_cannot_be_continued(status):
    with pytest.raises(Conflict, match="only evaluates"):
        ensure_can_continue(JobKind.EVALUATE_ANSWER, status, "job_1")
