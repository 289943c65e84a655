"""Checks outside of Redraft: servers of the settings on real sockets, and functions of an installed package."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from redraft.domain.jobs.requests import GenerateAnswer
from redraft.endpoints import CheckEndpoint
from redraft.errors import Invalid
from redraft.operations.admin.installation import extension_errors
from redraft.operations.calls import check_requests
from redraft.operations.calls.check_requests import CheckFailed, OutsideChecks
from redraft.prompts.profile_files import BUILT_IN
from redraft.prompts.profiles import load_profiles
from tests.model_server import ModelServer
from tests.operations.calls.packages import installed_package
from tests.operations.driving import LEAST, Driver, both_formats, streamed_or_not
from tests.support.receiver import SECRET, Answer, Receiver, verify

TONE = {"id": "tone", "kind": "check", "check": {"kind": "http", "value": "tone"}}


def says(score: float, *, passed: bool, reason: str = "Because") -> Answer:
    return Answer(body=json.dumps({"score": score, "passed": passed, "reason": reason}).encode())


@pytest.fixture
def asking(make_driver: Callable[..., Driver], model_server: ModelServer) -> Callable[..., Driver]:
    """A driver whose settings name the check `tone`."""
    model_server.script(generate=["one", "two"])

    def make(receiver: Receiver, **fields: Any) -> Driver:
        checks = {"tone": CheckEndpoint.model_validate({"url": receiver.url.partition("?")[0], **fields})}
        return make_driver(webhook_secret=SecretStr(SECRET), http_checks=checks)

    return make


@both_formats
@streamed_or_not
def test_a_server_gives_the_score_and_its_reason_is_the_feedback(
    asking: Callable[..., Driver], model_server: ModelServer, models: dict[str, str], *, stream: bool
):
    with Receiver(says(0.4, passed=False, reason="Too rude."), says(0.9, passed=True, reason="Polite.")) as receiver:
        driver = asking(receiver)
        job = driver.run_new(**models, stream=stream, rubric=[TONE], reference="REFERENCE", metadata={"team": "sky"})
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [0.4, 0.9])
    assert "Too rude." in model_server.requests("generate")[1].prompt
    first, second = receiver.hits
    assert verify(first) == {
        "task": "TASK", "answer": "one", "reference": "REFERENCE", "metadata": {"team": "sky"},
    }  # fmt: skip
    assert (verify(second)["answer"], first.id == second.id) == ("two", False)
    evaluation = driver.iterations(job.id)[1].evaluation
    assert evaluation is not None
    [outcome] = evaluation.checks
    assert (outcome.kind, outcome.passed, outcome.message) == ("http", True, "Polite.")
    assert outcome.request is not None
    assert (outcome.request.id, outcome.request.attempts) == (second.id, 1)


def test_a_transient_failure_is_retried_with_the_same_id_and_no_connection_is_held(asking: Callable[..., Driver]):
    held: list[int] = []
    with Receiver(Answer(status=503), usual=says(1, passed=True)) as receiver:
        driver = asking(receiver)
        pool: Any = driver.services.database.engine.pool
        receiver.usual = Answer(body=receiver.usual.body, before=lambda: held.append(pool.checkedout()))
        job = driver.run_new(rubric=[TONE])
    assert job.stop_reason == "accepted"
    assert len({hit.id for hit in receiver.hits}) == 1
    assert (len(receiver.hits), held) == (2, [0])


def test_a_server_that_takes_too_long_gives_no_verdict(asking: Callable[..., Driver]):
    is_over = threading.Event()
    with Receiver(usual=Answer(body=says(1, passed=True).body, before=is_over.wait)) as receiver:
        settings = asking(receiver, timeout_s=0.3).services.settings
        request = GenerateAnswer.model_validate({**LEAST, "rubric": [TONE]})
        # The time that is left is too short for another attempt
        checks = OutsideChecks(settings, request, "place", "answer", lambda: 0.4)
        with pytest.raises(CheckFailed, match=r"took longer than 0\.3 s") as failed:
            checks.ask("http", "tone")
        is_over.set()
    error = failed.value.error
    assert (error["code"], error["attempts"], error["retryable"]) == ("check_failed", 1, True)
    assert checks.traces["http", "tone"]["id"] == receiver.hits[0].id
    assert len(receiver.hits) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=b'{"score": 1.5, "passed": true, "reason": ""}'),
        Answer(body=b'{"score": NaN, "passed": true, "reason": ""}'),
        Answer(body=b'{"score": "1", "passed": true, "reason": ""}'),
        Answer(body=b'{"score": 1, "passed": 1, "reason": ""}'),
        Answer(body=b'{"score": 1, "passed": true}'),
        Answer(body=b'{"score": 1, "passed": true, "reason": "", "more": 1}'),
        Answer(body=b'{"score": 0, "score": 1, "passed": true, "reason": ""}'),
        Answer(body=b"[]"),
        Answer(body=b"OK"),
        Answer(body=b"\xff"),
        Answer(body=b'{"score": 1, "passed": true, "reason": "' + b"x" * 70_000 + b'"}'),
        Answer(raw=b'HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"score": 1, "passed": true, "reason": "x"}'),
        Answer(status=404),
        Answer(status=302, headers={"location": "http://127.0.0.1:1/"}),
    ],
)
def test_what_is_no_verdict_is_an_error_and_never_a_pass(asking: Callable[..., Driver], answer: Answer):
    with Receiver(usual=answer) as receiver:
        driver = asking(receiver)
        job = driver.run_new(rubric=[TONE], iter_max=1)
    assert (job.stop_reason, job.result and job.result["success"]) == ("evaluator_error", False)
    error = job.error or {}
    assert (error["code"], error["retryable"]) == ("check_failed", False)
    [iteration], [hit] = driver.iterations(job.id), receiver.hits
    assert iteration.evaluation is not None
    assert (iteration.status, iteration.evaluation.score) == ("evaluation_failed", None)
    [outcome] = iteration.evaluation.checks
    assert (outcome.id, outcome.passed, outcome.message) == ("tone", False, error["detail"])
    assert outcome.request is not None
    assert (outcome.request.id, outcome.request.attempts) == (hit.id, 1)


def test_a_request_names_only_what_the_settings_have(make_driver: Callable[..., Driver], asking: Callable[..., Driver]):
    with pytest.raises(Invalid, match="it names none") as raised:
        make_driver().submit(rubric=[TONE])
    assert raised.value.errors[0].pointer == "/rubric/0/check/value"
    endpoint = CheckEndpoint(url="http://127.0.0.1:1")
    with pytest.raises(Invalid, match="cannot be signed"):
        make_driver(http_checks={"tone": endpoint}).submit(rubric=[TONE])


PROFILE = BUILT_IN["quality"]
CODE = """
import asyncio

def shout(*, task, answer, reference, metadata):
    return {"score": 1.0 if answer.isupper() else 0.0, "passed": answer.isupper(), "reason": "Shout!"}

def crash(**question):
    raise RuntimeError("no")

def interrupt(**question):
    raise KeyboardInterrupt

def cancel(**question):
    raise asyncio.CancelledError
"""
ENTRY_POINTS = """
[redraft.checks]
shout = acme_checks:shout
crash = acme_checks:crash
interrupt = acme_checks:interrupt
cancel = acme_checks:cancel
missing = acme_checks:nobody

[redraft.profiles]
acme = acme_profiles
empty = json
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution with a module, a package of profiles, and entry points."""
    folder = tmp_path / "acme_profiles" / "acme-quality"
    folder.mkdir(parents=True)
    (tmp_path / "acme_profiles" / "__init__.py").touch()
    for name in ("profile.toml", "system.j2", "user.j2", "reply.json"):
        (folder / name).write_bytes((PROFILE / name).read_bytes())
    (tmp_path / "acme_checks.py").write_text(CODE)
    with installed_package(tmp_path, ENTRY_POINTS, monkeypatch):
        yield


def packaged(name: str) -> list[dict[str, Any]]:
    return [{"id": "own", "kind": "check", "check": {"kind": "package", "value": name}}]


@pytest.mark.usefixtures("installed")
def test_a_package_adds_checks_and_profiles(driver: Driver, model_server: ModelServer):
    model_server.script(generate=["quiet", "LOUD"])
    job = driver.run_new(rubric=packaged("shout"))
    assert (job.stop_reason, driver.scores(job.id)) == ("accepted", [0.0, 1.0])
    evaluation = driver.iterations(job.id)[1].evaluation
    assert evaluation is not None
    assert evaluation.checks[0].request is not None
    assert evaluation.checks[0].request.package == "acme 1.0"
    assert load_profiles(None).get("acme-quality").title


@pytest.mark.usefixtures("installed")
def test_a_broken_package_is_told_and_ends_no_worker(driver: Driver):
    for name in ("crash", "interrupt", "cancel"):
        crashed = driver.run_new(rubric=packaged(name), iter_max=1)
        assert (crashed.stop_reason, (crashed.error or {})["code"]) == ("evaluator_error", "check_failed")
    with pytest.raises(Invalid, match="doctor"):
        driver.submit(rubric=packaged("missing"))
    with pytest.raises(Invalid, match="No installed package"):
        driver.submit(rubric=packaged("nobody"))
    with pytest.raises(Invalid, match="REDRAFT_HTTP_CHECKS names no check 'unset'") as refused:
        driver.submit(rubric=[{"id": "a", "kind": "check", "check": {"kind": "http", "value": "unset"}}])
    assert [(each.pointer, each.code) for each in refused.value.errors] == [
        ("/rubric/0/check/value", "unknown_check_name")
    ]
    assert list(extension_errors(driver.services, "redraft.checks")) == ["missing"]
    assert list(extension_errors(driver.services, "redraft.profiles")) == ["empty"]


def test_too_many_requests_at_once_wait(asking: Callable[..., Driver]):
    with Receiver(usual=says(1, passed=True)) as receiver:
        driver = asking(receiver)
        job_id = driver.submit(rubric=[TONE])
        driver.step(job_id)
        taken = [check_requests._slots.acquire(blocking=False) for _ in range(40)]  # pyright: ignore[reportPrivateUsage]
        driver.step(job_id)
        for _ in range(sum(taken)):
            check_requests._slots.release()  # pyright: ignore[reportPrivateUsage]
    assert (driver.job(job_id).status, receiver.hits) == ("running", [])
