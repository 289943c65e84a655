"""What pages can show besides the pictures: jobs and runs in every state, long answers, failed webhooks."""

from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from redraft.domain.bulk.run_requests import CreateRun
from redraft.domain.bulk.schedule_requests import CreateSchedule, RunGates
from redraft.domain.jobs.requests import ContinueJob
from redraft.operations.admin.deliveries import Deliverer
from redraft.operations.bulk import runs, scheduler
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.schedules import run_schedules
from redraft.operations.services import Services
from redraft.storage.admin import tunings
from tests.support.receiver import LOOPBACK, SECRET, Receiver
from tests.support.shells import drain
from tests.support.showcase import CRITERIA, JUDGE, LONG, submitted, uploaded

SETTINGS: dict[str, Any] = {"webhook_secret": SecretStr(SECRET), "webhook_allow_private": LOOPBACK}
_FAILS = "Tell a customer how to delete an account."
_SOURCES = [
    {"content": "Parcels come back to desk 4. " * 30, "title": "Handbook", "relevance_score": 0.9},
    {"content": "The desk closes at noon.", "chunk_id": "c-2"},
]


@dataclass(frozen=True)
class States:
    """The ids of what was added."""

    failed: str
    canceled: str
    long: str
    call: str
    run: str
    schedule: str


def add_states(services: Services, receiver: Receiver) -> States:
    webhook = {"url": receiver.url, "events": ["done", "job.queued"]}
    failed = submitted(services, instruct=_FAILS, eval_crit=CRITERIA, webhook=webhook)
    canceled = submitted(services, instruct="Never mind " * 40, eval_crit=CRITERIA, metadata={"team": "returns"})
    lifecycle.cancel(services, canceled)
    long = submitted(
        services,
        instruct=LONG,
        rubric=[
            {"id": "whole", "text": "Names each step of the desk. " * 8},
            {"id": "short", "kind": "check", "check": {"kind": "max_words", "value": 9}},
        ],
        sources=_SOURCES,
        conversation=[["Hello?", "How can I help?"]],
        candidates=2,
        iter_max=2,
        webhook=webhook,
        metadata={"team": "returns", "a-long-key-of-a-label": "and its long value"},
    )
    drain(services)
    lifecycle.continue_job(services, long, ContinueJob(iter_max=1, guidance="Name the desk. " * 20))
    drain(services)
    deliverer = Deliverer(services)
    for _ in range(3):
        deliverer.send_due()
        assert deliverer.finish(30)
    dataset_id = uploaded(services)
    rubric = [{"id": f"c{number}", "text": "True."} for number in range(9)]
    body = {"dataset_id": dataset_id, "name": "Not at its end", "defaults": {"rubric": rubric}, "max_in_flight": 3}
    run, _ = runs.create_run(services, CreateRun.model_validate(body))
    call = queries.list_calls(services, long)[0].id
    scheduler.schedule_all(services)
    schedule = CreateSchedule(cron="0 6 * * mon-fri", run=CreateRun.model_validate(body), gates=RunGates())
    example = {"task": _FAILS, "criteria": CRITERIA, "answer": "Write to us.", "passes": False, "reason": "No steps."}
    tuning = {"id": "tun_1", "evaluator_model": JUDGE, "profile": "criteria", "examples": [example]}
    with services.database.write() as connection:
        tunings.add(connection, [tuning])
    return States(failed, canceled, long, call, run.id, run_schedules.create_schedule(services, schedule).id)
