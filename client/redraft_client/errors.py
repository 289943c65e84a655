"""The exceptions of the client. All derive from `RedraftError`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redraft_client.models import Job, ProblemFieldError, Run

_ADVICE = {
    401: "Pass api_key=, or set REDRAFT_API_KEY, to a key of this server (`redraft keys create NAME`).",
    403: "Use a key with the scope that the request needs.",
    404: "Check the id, and that the server's URL contains the path under which Redraft is served.",
    409: "Read the resource again: its state does not allow this request.",
    413: "Send a smaller body, or ask the operator for a larger limit.",
    422: "Correct the named fields. The same request fails again.",
    429: "Send fewer requests at a time, or ask the operator for a higher limit.",
    500: "Ask the operator for the log with the request id.",
}
_UNAVAILABLE = "Try again later. The operator sees the reason with `redraft doctor`, in /readyz and in the log."


class RedraftError(Exception):
    """Any error of this client."""


class ApiError(RedraftError):
    """The server refused a request.

    Attributes:
        status: the HTTP status.
        code: a stable code for programs, such as `invalid_request`.
        message: what is wrong, for people.
        advice: what to do about it.
        errors: for an invalid request, the place and the code of each error.
        request_id: the id of the request in the server's log.
        retryable: whether the same request may succeed later.
        retry_after_s: the time that the server asked to wait before a retry.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        errors: "tuple[ProblemFieldError, ...]" = (),
        request_id: str | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.advice = _ADVICE.get(status, _UNAVAILABLE if status > 500 else "")
        self.errors = errors
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        request = f"(request {request_id})" if request_id else ""
        sentence = message if message.endswith((".", "!", "?", "…")) else f"{message}."
        super().__init__(" ".join(filter(None, (f"{status} {code}: {sentence}", self.advice, request))))


class ServerNotReached(RedraftError):
    """No complete response arrived: no connection, a timeout, or a connection that was cut.

    A request that creates something may have arrived. Repeat it with `idempotency_key`, so that nothing is created
    twice.
    """

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(message)


class UnexpectedResponse(RedraftError):
    """A response that is not from Redraft's API, or from a version that this client cannot read."""


class JobFailed(RedraftError):
    """A job ended without an answer, or without the requested verdict. `job` is the ended job."""

    def __init__(self, job: "Job", message: str) -> None:
        self.job = job
        super().__init__(message)


class WaitTimeout(RedraftError):
    """The wait timed out. The job or run continues, so you can wait again. `last` is its last known state."""

    def __init__(self, last: "Job | Run", timeout_s: float) -> None:
        self.last = last
        words = f"{last.id} has not ended within {timeout_s:g} s; its status is {last.status}. It goes on: wait again, "
        super().__init__(f"{words}or cancel it.")


class InvalidSignature(RedraftError):
    """A webhook that your Redraft did not sign, or that is too old."""
