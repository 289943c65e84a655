"""Asks checks outside of Redraft for a verdict: servers that the settings name, and functions of installed packages.

A request takes seconds, so it runs in a thread for slow work, and never within a unit of work.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from pydantic import ValidationError
from pydantic_core import to_json

from redraft import __version__
from redraft.domain.admin.address_rules import Allowed
from redraft.domain.admin.urls import read_url
from redraft.domain.bodies.strict_json import JsonError, parse
from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.domain.calls.backoff import read_retry_after
from redraft.domain.checks.check_results import CheckResult
from redraft.domain.checks.kinds.outside_checks import OutsideCheck, OutsideVerdict
from redraft.domain.jobs.ids import id_from_seed
from redraft.domain.jobs.job_errors import job_error
from redraft.domain.jobs.requests import AnyRequest
from redraft.domain.jobs.webhooks import headers_of
from redraft.endpoints import CheckEndpoint
from redraft.errors import Forbidden, Invalid, Unavailable
from redraft.outbound import Reply, Sender
from redraft.packages.entry_points import extensions
from redraft.sandbox.fair_queue import Busy
from redraft.setting_values import webhook_keys
from redraft.settings import Settings

log = structlog.get_logger()

ATTEMPTS_MAX = 3
_WAITS_S = (0.5, 2.0)
_WAIT_MAX_S = 5.0
_BODY_BYTES_MAX = 64 * 1024
_TRANSIENT = frozenset({408, 425, 429})
# Fewer than the threads for slow work, so that slow servers leave threads for steps with other checks
_AT_ONCE_MAX = 32
_slots = threading.BoundedSemaphore(_AT_ONCE_MAX)


class CheckFailed(Exception):  # noqa: N818 - named after a state, like the classes in errors.py
    """A check gave no verdict. `error` is the error object of the evaluation."""

    def __init__(
        self, kind: str, name: str, words: str, attempts: int | None = None, *, is_transient: bool = False
    ) -> None:
        detail = f"Check {name!r} ({kind}) gave no verdict: {words}"
        super().__init__(detail)
        self.key = (kind, name)
        self.error = {**job_error("check_failed", detail, attempts=attempts), "retryable": is_transient}


class _Transient(Exception):  # noqa: N818
    def __init__(self, words: str, wait_s: float | None = None) -> None:
        super().__init__(words)
        self.wait_s = wait_s


def ensure_known(settings: Settings, request: AnyRequest) -> None:
    """Refuse a check that is not in the settings or in an installed package, or whose requests cannot be signed.

    Raises Invalid (`unknown_check_name`, `webhooks_not_configured`).
    """
    for index, criterion in enumerate(request.rubric or ()):
        if not isinstance(criterion.check, OutsideCheck):
            continue
        pointer, name = f"/rubric/{index}/check/value", criterion.check.value
        if criterion.check.kind == "package":
            _ensure_installed(name, pointer)
        elif name not in settings.http_checks:
            known = ", ".join(settings.http_checks) or "none"
            words = f"REDRAFT_HTTP_CHECKS names no check {name!r}; it names {known}."
            raise Invalid.at(pointer, words, "unknown_check_name")
        elif not _keys(settings, name):
            words = f"Requests to check {name!r} cannot be signed here: set its secret, or REDRAFT_WEBHOOK_SECRET."
            raise Invalid.at(pointer, words, "webhooks_not_configured")


def _ensure_installed(name: str, pointer: str) -> None:
    known = extensions("redraft.checks")
    if name not in known:
        words = f"No installed package provides a check {name!r}; there are {', '.join(known) or 'none'}."
        raise Invalid.at(pointer, words, "unknown_check_name")
    if known[name].error is not None:
        words = f"The check {name!r} of an installed package cannot be used; `redraft doctor` says why."
        raise Invalid.at(pointer, words, "unknown_check_name")


def _keys(settings: Settings, name: str) -> list[bytes]:
    return webhook_keys(settings.check_secret(name))


class OutsideChecks:
    """Asks the outside checks of one answer, each at most once.

    Attributes:
        results: the verdicts, by kind and name.
        traces: what is known about each request, by kind and name.
    """

    def __init__(
        self, settings: Settings, request: AnyRequest, place: str, answer: str, remaining_s: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._question: dict[str, Any] = {
            "task": request.instruct,
            "answer": answer,
            "reference": request.reference,
            "metadata": request.metadata,
        }
        self._place = place
        self._remaining_s = remaining_s
        self.results: dict[tuple[str, str], CheckResult] = {}
        self.traces: dict[tuple[str, str], dict[str, Any]] = {}

    def ask(self, kind: str, name: str) -> CheckResult:
        """Return the verdict of a check.

        Raises CheckFailed if the check gave no verdict, and Busy if too many requests are in flight.
        """
        key = (kind, name)
        if key not in self.results:
            self.results[key] = (self._of_server(name) if kind == "http" else self._of_package(name)).as_result()
        return self.results[key]

    def _of_package(self, name: str) -> OutsideVerdict:
        found = extensions("redraft.checks").get(name)
        if found is None or found.error is not None:
            raise CheckFailed("package", name, "no installed package provides it to this worker.")
        started_at = time.monotonic()
        try:
            said = found.loaded(**self._question)
        except BaseException as error:  # the function of a package can raise any exception
            log.exception("package_check_crashed", check=name, package=found.origin)
            raise CheckFailed("package", name, f"{found.origin} raised {type(error).__name__}.") from error
        self.traces["package", name] = {"package": found.origin, "seconds": round(time.monotonic() - started_at, 3)}
        return _read("package", name, said)

    def _of_server(self, name: str) -> OutsideVerdict:
        endpoint = self._settings.http_checks.get(name)
        keys = _keys(self._settings, name)
        if endpoint is None or not keys:
            raise CheckFailed("http", name, "REDRAFT_HTTP_CHECKS of this worker does not name it with a secret.")
        # The same id for each attempt and after a crash, so that a server can recognise a repeated request
        message_id = id_from_seed("check", f"{self._place}/{name}")
        attempt = 0
        while True:
            attempt += 1
            started_at = time.monotonic()
            try:
                reply = self._post(endpoint, keys, message_id)
            except (Forbidden, ValueError) as error:
                raise CheckFailed("http", name, str(error), attempt) from error
            except _Transient as failure:
                wait_s = min(max(_WAITS_S[min(attempt, len(_WAITS_S)) - 1], failure.wait_s or 0.0), _WAIT_MAX_S)
                if attempt == ATTEMPTS_MAX or wait_s >= self._remaining_s():
                    raise CheckFailed("http", name, str(failure), attempt, is_transient=True) from failure
                time.sleep(wait_s)
            else:
                return _verdict_of(name, reply, attempt)
            finally:
                seconds = round(time.monotonic() - started_at, 3)
                self.traces["http", name] = {"id": message_id, "attempts": attempt, "seconds": seconds}

    def _post(self, endpoint: CheckEndpoint, keys: list[bytes], message_id: str) -> Reply:
        # Waiting for a slot would hold a thread. `Busy` reschedules the step instead
        if not _slots.acquire(blocking=False):
            raise Busy("Too many requests to checks are in flight; try again in some seconds.")
        try:
            target, body = read_url(endpoint.url), to_json(self._question)
            headers = {
                "Content-Type": "application/json",
                "User-Agent": f"Redraft/{__version__}",
                **headers_of(keys, message_id, int(time.time()), body),
            }
            # The host may have a private address, because the operator chose it
            allowed = Allowed(names=frozenset({target.host.lower().rstrip(".")}))
            total_s = max(0.001, min(endpoint.timeout_s, self._remaining_s()))
            reply = Sender(allowed, total_s=total_s, body_bytes_max=_BODY_BYTES_MAX).post(target, headers, body)
        except Unavailable as error:
            raise _Transient(error.message) from error
        finally:
            _slots.release()
        if reply.status in _TRANSIENT or reply.status >= 500:
            raise _Transient(f"it answered {reply.status}.", read_retry_after(reply.retry_after))
        return reply


def _verdict_of(name: str, reply: Reply, attempt: int) -> OutsideVerdict:
    if not 200 <= reply.status < 300:
        redirect = ", a redirect, which is not followed" if 300 <= reply.status < 400 else ""
        raise CheckFailed("http", name, f"it answered {reply.status}{redirect}.", attempt)
    if not reply.is_whole:
        words = f"its response is broken off, or longer than {_BODY_BYTES_MAX // 1024} KB."
        raise CheckFailed("http", name, words, attempt)
    try:
        said = parse(reply.body.decode())
    except (ValueError, JsonError) as error:
        raise CheckFailed("http", name, "its response is not JSON.", attempt) from error
    return _read("http", name, said, attempt)


def _read(kind: str, name: str, said: Any, attempts: int | None = None) -> OutsideVerdict:
    try:
        return OutsideVerdict.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = pointer_of(first, said).removeprefix("/") or ".".join(map(str, first["loc"]))
        what = message_of(first)
        words = "it must return score (0 to 1), passed and reason, and no other field; "
        words += f"{at or 'the value'}: {what[:1].lower()}{what[1:]}."
        raise CheckFailed(kind, name, words, attempts) from error
