"""Drives jobs step by step without a worker process, and looks at all that a step must have kept in order."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from sqlalchemy import update

from redraft.domain.jobs.requests import EvaluateAnswer, GenerateAnswer
from redraft.domain.jobs.states import Step
from redraft.errors import ProviderError
from redraft.messages import StepMessage
from redraft.operations.jobs import queries
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Call, Event, Job
from redraft.operations.jobs.submit import submit
from redraft.operations.services import Services
from redraft.operations.steps.engine import Engine
from redraft.operations.steps.executor import run
from redraft.operations.steps.leases import LeaseHolder
from redraft.providers.catalog import ProviderCatalog
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import TOKENS
from redraft.storage.engine.tables import jobs as jobs_table
from redraft.storage.jobs import calls, jobs, transitions
from redraft.storage.jobs.jobs import JobRecord
from tests.support.waiting import wait_until

ENGINE = Engine()
LEAST = {"instruct": "TASK", "eval_crit": "CRITERIA"}
ANTHROPIC = {"model": "anthropic:writer", "evaluator_model": "anthropic:judge"}

both_formats = pytest.mark.parametrize("models", [{}, ANTHROPIC], ids=["openai", "anthropic"])
streamed_or_not = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


class Driver:
    """A user and a worker in one: what it submits, it works off, one step at a time."""

    def __init__(self, services: Services) -> None:
        self.services = services

    def submit(self, **values: Any) -> str:
        return submit(self.services, GenerateAnswer.model_validate({**LEAST, **values})).job.id

    def submit_evaluation(self, answer: str, **values: Any) -> str:
        return submit(self.services, EvaluateAnswer.model_validate({**LEAST, "answer": answer, **values})).job.id

    def interrupted(self, happening: Callable[[], None]) -> "Driver":
        """A second worker on the same database, to which something happens during each of its calls."""
        catalog = cast("ProviderCatalog", InterruptedCatalog(self.services.providers, happening))
        return Driver(replace(self.services, providers=catalog))

    def step(self, job_id: str, holder: LeaseHolder | None = None) -> None:
        """Do the step that is due, as a worker that heard the bell; nothing when none is due."""
        self.go_on(job_id, lambda: False, holder)

    def go_on(self, job_id: str, goes_on: Callable[[], bool] = lambda: True, holder: LeaseHolder | None = None) -> None:
        """The same, and the next steps as long as `goes_on` says so."""
        self._go_on(self.row(job_id), goes_on, holder)

    def _go_on(self, row: JobRecord, goes_on: Callable[[], bool], holder: LeaseHolder | None = None) -> None:
        message = StepMessage(Step(row.step), row.id, row.step_no)
        holder = holder or LeaseHolder(self.services.settings)
        ENGINE.run(row.id, run(self.services, holder, message, goes_on=goes_on))

    def repeat(self, row: JobRecord) -> None:
        """The message of a step once more, as the row had it."""
        self._go_on(row, lambda: True)

    def run(self, job_id: str) -> Job:
        """Work until the job has ended, and its answer is evaluated."""

        def is_open(row: JobRecord) -> bool:
            return row.finished_at is None or row.stop_reason == "answered"

        def has_ended() -> bool:
            row, version = self.row(job_id), -1
            while is_open(row) and row.version != version:
                self._go_on(row, lambda: False)
                version, row = row.version, self.row(job_id)
            return not is_open(row)

        # What waits is a step that was rescheduled
        wait_until(has_ended, within_s=20, every_s=0.02, what=f"the end of {job_id}")
        self.check_order(job_id)
        return self.job(job_id)

    def run_new(self, **values: Any) -> Job:
        return self.run(self.submit(**values))

    def row(self, job_id: str) -> JobRecord:
        with self.services.database.read() as connection:
            record = jobs.get(connection, job_id)
        assert record is not None
        return record

    def job(self, job_id: str) -> Job:
        return queries.get_job(self.services, job_id)

    def iterations(self, job_id: str) -> list[Iteration]:
        return queries.list_iterations(self.services, job_id)

    def calls(self, job_id: str) -> list[Call]:
        return queries.list_calls(self.services, job_id)

    def ledger(self, job_id: str) -> list[dict[str, Any]]:
        with self.services.database.read() as connection:
            return calls.of_job(connection, job_id)

    def call_statuses(self, job_id: str) -> list[str]:
        return [row["status"] for row in self.ledger(job_id)]

    def events(self, job_id: str) -> list[Event]:
        return queries.list_events(self.services, job_id, 0)[0]

    def event_types(self, job_id: str) -> list[str]:
        return [event.type for event in self.events(job_id)]

    def scores(self, job_id: str) -> list[float | None]:
        return [each.evaluation.score if each.evaluation else None for each in self.iterations(job_id)]

    def set_back(self, job_id: str, **columns: float) -> None:
        """Move times of a job by so many seconds from now, as if time had passed."""
        with self.services.database.write() as connection:
            values = {name: DbNow(seconds) for name, seconds in columns.items()}
            connection.execute(update(jobs_table).where(jobs_table.c.id == job_id).values(**values))

    def set_unnotified(self, job_id: str) -> None:
        """As if nobody had been rung for."""
        with self.services.database.write() as connection:
            transitions.mark_unnotified(connection, job_id)

    def expire_lease(self, job_id: str) -> None:
        self.set_back(job_id, lease_expires_at=-1.0)

    def check_order(self, job_id: str) -> None:
        """What holds for every job that has ended, whatever happened to it."""
        row, ledger, events = self.row(job_id), self.ledger(job_id), self.events(job_id)
        assert [event.seq for event in events] == list(range(1, row.event_seq + 1))
        is_evaluated_behind = any(event.type == "evaluated" for event in events)
        assert events[-1].type == ("evaluated" if is_evaluated_behind and not row.continuations else "done")
        assert events[-1].data["seconds"] >= 0
        assert Counter(e.type for e in events)["done"] == row.continuations + 1
        assert all(event.data["message"] and event.data["at"].endswith("Z") for event in events)
        assert row.calls == len(ledger)
        for name in (*TOKENS, "cost_nano_usd"):
            assert getattr(row, name) == sum(each[name] or 0 for each in ledger), name
        slots = Counter(
            (each["iteration"], each["candidate"], each["step"], each["seq"])
            for each in ledger
            if each["status"] == "ok"
        )
        assert all(count == 1 for count in slots.values())
        assert (row.lease_owner, row.lease_expires_at) == (None, None)


class Killed(BaseException):
    """The worker is gone in the middle of a step: nothing after this point happens."""


class InterruptedCatalog:
    """The real providers, with something that happens between a reply's arrival and its storage."""

    def __init__(self, real: Any, happening: Callable[[], None]) -> None:
        self._real = real
        self._happening = happening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def get(self, ref: Any) -> "InterruptedProvider":
        return InterruptedProvider(self._real.get(ref), self._happening)


class InterruptedProvider:
    def __init__(self, real: Any, happening: Callable[[], None]) -> None:
        self._real = real
        self._happening = happening

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def send(self, body: Any, **options: Any) -> Any:
        try:
            reply = await self._real.send(body, **options)
        except ProviderError:
            await asyncio.to_thread(self._happening)
            raise
        await asyncio.to_thread(self._happening)
        return reply


def kill() -> None:
    raise Killed
