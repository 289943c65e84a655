"""The auditor and the witness find what is wrong: each invariant is broken by hand in the rows of a sound job."""

import socket
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest

from redraft.operations.services import Services
from redraft.storage.engine.bulk_tables import datasets, run_items, runs
from redraft.storage.engine.tables import jobs
from tests.chaos.audit.auditor import CHECKS, audit, audit_runs, audit_webhooks
from tests.chaos.audit.rows import JobRows, read_all
from tests.chaos.audit.witness import Witness
from tests.chaos.driver import Submitted
from tests.chaos.storms.load import JobPlan, Provider
from tests.model_server.server import ModelServer
from tests.operations.driving import Driver
from tests.support.databases.sqlite import create_sqlite
from tests.support.receiver import Hit, Receiver

LATE = timedelta(seconds=9)
Damage = Callable[[JobRows], None]


@pytest.fixture
def database_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return create_sqlite(tmp_path_factory.mktemp("audit") / "redraft.db")


@pytest.fixture
def driver(services: Services, model_server: ModelServer) -> Driver:
    model_server.respond(Provider(3, slowness=0.0, failing=0.0))
    return Driver(services)


@pytest.fixture
def sound(driver: Driver, model_server: ModelServer) -> JobRows:
    """A job of several iterations that went well, as dictionaries that can be damaged."""
    job_id = driver.submit(instruct="[[case:sound]] Write a line.", score_threshold=1.0, iter_max=3)
    driver.run(job_id)
    rows = read_all(driver.services.database, model_server.requests())[job_id]
    rows.job = dict(rows.job)
    for name in ("ledger", "iterations", "evaluations", "events"):
        setattr(rows, name, [dict(row) for row in getattr(rows, name)])
    return rows


def found_in(rows: JobRows) -> str:
    return "; ".join(words for check in CHECKS for words in check(rows))


def put(where: Callable[[JobRows], Any], **values: Any) -> Damage:
    return lambda rows: where(rows).update(values)


def job(rows: JobRows) -> Any:
    return rows.job


def first_call(rows: JobRows) -> Any:
    return rows.ledger[0]


def _call_again(rows: JobRows) -> None:
    first = rows.ledger[0]
    rows.ledger.append({**first, "id": "call_again", "status": "unknown", "started_at": first["finished_at"] + LATE})


def _ask_again(rows: JobRows) -> None:
    rows.ledger.append({**rows.ledger[0], "id": "call_again", "status": "unknown"})
    rows.requests.append(rows.requests[0])
    rows.committed_at = {row_id: at - LATE for row_id, at in rows.committed_at.items()}


def _cancel_before_the_last_call(rows: JobRows) -> None:
    rows.job |= {"status": "canceled", "stop_reason": "canceled", "finished_at": rows.ledger[-1]["started_at"] - LATE}


def _swap_tokens(rows: JobRows) -> None:
    rows.ledger[-1]["lease_token"] = rows.ledger[0]["lease_token"]


DAMAGES: dict[str, tuple[Damage, str]] = {
    "lost": (put(job, status="running"), "is running at"),
    "deadline too early": (put(job, stop_reason="deadline_exceeded"), "ended for its deadline"),
    "deadline not kept": (lambda rows: rows.job.update(deadline_at=rows.job["created_at"] - 9 * LATE), "after its"),
    "still leased": (put(job, lease_owner="wrk_1"), "still holds its lease"),
    "unreserved": (lambda rows: rows.requests.append(rows.requests[0]), "asked 2 times for what was reserved 1"),
    "called again": (_call_again, "was called for again"),
    "asked again": (_ask_again, "after its reply had been committed"),
    "two replies": (lambda rows: rows.ledger.append({**rows.ledger[0]}), "has 2 replies that count"),
    "call left open": (put(first_call, status="started"), "are still open"),
    "another answer": (lambda rows: rows.iterations[0].update(answer="not that"), "is not the reply that the ledger"),
    "another verdict": (lambda rows: rows.evaluations[0].update(score=0.001), "the verdict on iteration 1"),
    "old token": (_swap_tokens, "under a token no newer"),
    "an event is gone": (lambda rows: rows.events.pop(2), "has events"),
    "no end told": (lambda rows: rows.events[-1].update(type="step.retrying"), "tells its end 0 times"),
    "an iteration twice": (lambda rows: rows.events[0].update(rows.events[2], seq=1), "tells the start of iteration"),
    "tokens": (put(job, input_tokens=1), "input_tokens is 1"),
    "calls": (put(job, calls=1), "calls is 1"),
    "unpriced calls": (put(job, unpriced_calls=99), "unpriced_calls is 99"),
    "best score": (put(job, best_score=0.01), "has the best score 0.01"),
    "not the best": (lambda rows: rows.job["result"].update(final_score=0.01), "gives the answer of iteration"),
    "not accepted": (put(job, stop_reason="accepted"), "ended with accepted"),
    "iteration missing": (lambda rows: rows.iterations[0].update(number=7), "has iterations"),
    "over its budget": (lambda rows: rows.job["request"]["limits"].update(max_tokens=1), "tokens of 1"),
    "called after the cancel": (_cancel_before_the_last_call, "a call was opened"),
}


def test_the_auditor_finds_what_is_wrong_with_a_job(sound: JobRows):
    assert found_in(sound) == ""
    for name, (damage, words) in DAMAGES.items():
        damaged = deepcopy(sound)
        damage(damaged)
        assert words in found_in(damaged), name


def test_the_auditor_knows_the_calls_and_the_verdicts_of_an_audit(driver: Driver, model_server: ModelServer):
    job_id = driver.submit(instruct="[[case:audit]] Write.", iter_max=2, evaluation={"audit": "openai:other"})
    driver.run(job_id)
    rows = read_all(driver.services.database, model_server.requests())[job_id]
    assert {"generate", "evaluate", "audit"} == {call["step"] for call in rows.ledger}
    assert found_in(rows) == ""
    rows.ledger = [
        {**call, "lease_token": 0 if call["step"] == "audit" else call["lease_token"]} for call in rows.ledger
    ]
    assert "the audit of iteration 1 was called for under a token" in found_in(rows)


def test_the_auditor_misses_jobs_that_were_accepted_and_knows_those_that_were_not(driver: Driver):
    plan = JobPlan("gone", "/v1/generate-answer", {}, is_impatient=False, cancel_after_s=None)
    driver.run_new(instruct="[[case:stranger]] Write a line.")
    for _ in range(2):
        driver.run_new(instruct="[[case:twice]] Write a line.")
    twice = JobPlan("twice", "/v1/generate-answer", {}, is_impatient=False, cancel_after_s=None)
    seen = [Submitted(plan, job_ids=["job_1"]), Submitted(plan), Submitted(twice, job_ids=["job_1"])]
    found = "; ".join(audit(driver.services.database, seen, []))
    for words in (
        "job job_1 was accepted, and is not there",
        "was never accepted",
        "made 2 jobs",
        "nobody submitted it",
    ):
        assert words in found


def test_the_witness_sees_what_goes_back_and_what_ends_twice(driver: Driver, database_url: str):
    witness = Witness(database_url)
    job_id = driver.submit()
    driver.run(job_id)
    witness.look()
    assert witness.problems == []
    witness._last[job_id] |= {"version": 1000, "stop_reason": "error"}
    witness.look()
    witness._database.close()
    assert [words.partition(": ")[2].split(" ")[0] for words in witness.problems] == ["version", "had"]


def test_the_auditor_finds_ends_that_no_webhook_told_and_runs_that_have_not_ended(driver: Driver):
    database = driver.services.database
    job_id = driver.run_new(iter_max=1).id
    assert (audit_webhooks(database, []), audit_runs(database)) == ([], [])
    webhook = {"url": "https://receiver.example/hook", "events": ["done"]}
    run = {"id": "run_1", "name": "rows", "dataset_id": "ds_1", "status": "running", "defaults": {}, "overrides": {}}
    item = {"run_id": "run_1", "number": 1, "position": 1, "repeat": 1, "status": "queued", "job_id": job_id}
    with database.write() as connection:
        connection.execute(jobs.update().values(request={**driver.row(job_id).request, "webhook": webhook}))
        connection.execute(datasets.insert().values(id="ds_1", name="rows", format="jsonl", columns=[]))
        connection.execute(runs.insert().values(**run, repeat=1, max_in_flight=1, total=1, request_hash=""))
        connection.execute(run_items.insert().values(item))
    (words,) = audit_webhooks(database, [])
    assert "is not in the outbox" in words
    forged = Hit("/", {"webhook-id": "whd_1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}, b"{}")
    assert "webhook whd_1 has another signature than its body" in audit_webhooks(database, [forged])
    assert audit_runs(database) == ["run_1: the run has not ended", "item 1 is queued, its job succeeded"]


def test_a_receiver_takes_no_half_of_a_webhook_whose_sender_was_killed():
    with Receiver() as receiver:
        with socket.create_connection(("127.0.0.1", receiver.port)) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
        assert receiver.hits == []
