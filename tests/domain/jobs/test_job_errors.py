"""In-job errors: all have the same fields, and each code has a title."""

import pytest

from redraft.domain.jobs.job_errors import TITLES, job_error
from redraft.errors import RETRYABLE_CODES

CONTRACT = [
    "provider_auth",
    "provider_rate_limited",
    "provider_quota",
    "provider_timeout",
    "provider_unavailable",
    "provider_bad_request",
    "unknown_model",
    "context_too_long",
    "refused",
    "content_filtered",
    "empty_output",
    "output_truncated",
    "schema_mismatch",
    "evaluator_invalid",
    "deadline_exceeded",
    "budget_exhausted",
    "worker_lost",
]


def test_the_codes_are_the_contracts_and_those_of_drafts_aborted_calls_and_checks():
    assert set(TITLES) == {*CONTRACT, "draft_invalid", "canceled", "check_failed"}


@pytest.mark.parametrize("code", CONTRACT)
def test_an_error_has_a_code_a_model_and_whether_a_retry_can_help(code):
    error = job_error(code, "It broke.", model="openai:writer", iteration=2, attempts=3)
    assert error == {
        "type": f"urn:redraft:error:{code}",
        "title": TITLES[code],
        "code": code,
        "detail": "It broke.",
        "retryable": code in RETRYABLE_CODES,
        "provider": "openai",
        "model": "openai:writer",
        "iteration": 2,
        "attempts": 3,
    }


def test_transient_errors_are_retryable_and_permanent_ones_are_not():
    assert set(RETRYABLE_CODES) == {"provider_rate_limited", "provider_timeout", "provider_unavailable"}


def test_an_error_without_a_model_names_no_provider():
    error = job_error("worker_lost", "Gone.")
    assert error["provider"] is error["model"] is error["iteration"] is error["attempts"] is None
