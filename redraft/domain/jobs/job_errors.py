"""In-job errors: the problem object of the API without an HTTP status."""

from collections.abc import Mapping
from typing import Any

from redraft.errors import RETRYABLE_CODES

TRUNCATED = "output_truncated"
OUTPUT_LIMIT = "output_limit"
"""The member of an error that marks an answer as truncated: the limit in tokens, or None if it is unknown."""

TITLES = {
    "provider_auth": "The provider refused the key",
    "provider_rate_limited": "The provider's rate limit was hit",
    "provider_quota": "The provider's plan or credit is used up",
    "provider_timeout": "The provider did not answer in time",
    "provider_unavailable": "The provider could not be reached, or its reply was interrupted",
    "provider_bad_request": "The provider rejected the request",
    "unknown_model": "The provider has no such model",
    "context_too_long": "The prompt, or prompt and reply, are longer than the model's context",
    "refused": "The model refused to answer",
    "content_filtered": "A content filter blocked the reply",
    "empty_output": "The model answered without text",
    "output_truncated": "The reply was cut off at the output limit",
    "schema_mismatch": "The answer does not fit its schema",
    "draft_invalid": "The model's draft could not be used",
    "evaluator_invalid": "The evaluator's reply could not be used",
    "check_failed": "A check outside of Redraft gave no verdict",
    "canceled": "The job was canceled during the call",
    "deadline_exceeded": "The job's deadline has passed",
    "budget_exhausted": "The job's budget is used up",
    "worker_lost": "The workers that ran this job were lost",
}


def job_error(
    code: str, detail: str, *, model: str | None = None, iteration: int | None = None, attempts: int | None = None
) -> dict[str, Any]:
    """Build the error object of a job, an evaluation or a call; `docs/errors.md` explains each code.

    The module that finds an error writes `detail`, for example `redraft/operations/calls/budgets.py` for
    `budget_exhausted`.
    """
    return {
        "type": f"urn:redraft:error:{code}",
        "title": TITLES[code],
        "code": code,
        "detail": detail,
        "retryable": code in RETRYABLE_CODES,
        "provider": model.partition(":")[0] if model else None,
        "model": model,
        "iteration": iteration,
        "attempts": attempts,
    }


def describe(error: Mapping[str, Any]) -> str:
    """Return the title and the detail of an error, or the detail alone if it contains the title."""
    title, detail = error["title"], error["detail"]
    return detail if title in detail else f"{title}: {detail}"
