"""Drives runs whose calls are delivered by batches: scheduler, worker and delivery in turn, without a process."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from sqlalchemy import update

from redraft.domain.bulk.run_requests import CreateRun
from redraft.operations.batches.delivery import BatchDelivery
from redraft.operations.bulk import datasets, run_results, runs, scheduler
from redraft.operations.bulk.run_resources import Run
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from redraft.settings import ModelPrice
from redraft.storage.engine.bulk_tables import batches
from redraft.storage.engine.columns import DbNow
from tests.model_server import ModelServer
from tests.operations.driving import Driver
from tests.support.waiting import wait_until

WRITER, JUDGE = "via-openai:writer", "via-anthropic:judge"
DEFAULTS = {"eval_crit": "True.", "model": WRITER, "evaluator_model": JUDGE}


def settings_of(server: ModelServer) -> dict[str, Any]:
    """Settings with two endpoints that have batches, with prices, and with short pauses."""
    price = {"*": ModelPrice(input=2.0, output=8.0).model_dump()}
    endpoint = {"batches": True, "prices": price}
    return {
        "endpoints": {
            "via-openai": {"format": "openai", "base_url": server.openai_url, **endpoint},
            "via-anthropic": {"format": "anthropic", "base_url": server.anthropic_url, **endpoint},
        },
        "batch_poll_s": 0.01,
        "batch_resubmit_s": 0.01,
    }


class BatchDriver(Driver):
    """A user, a worker and the delivery of its batches."""

    def __init__(self, services: Services, server: ModelServer) -> None:
        super().__init__(services)
        self.server = server
        self.holder = LeaseHolder(services.settings)
        self.delivery = BatchDelivery(services, self.holder.owner)

    def start(self, count: int = 3, delivery: str = "batch", **fields: Any) -> Run:
        rows = ({"custom_id": f"r{n}", "instruct": f"[[case:r{n}]]"} for n in range(count))
        data = BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
        found = datasets.import_dataset(self.services, data, "rows.jsonl")[0]
        body = {"dataset_id": found.id, "delivery": delivery, "defaults": {**DEFAULTS, **fields.pop("defaults", {})}}
        return runs.create_run(self.services, CreateRun.model_validate({**body, **fields}))[0]

    def now(self, run: Run) -> Run:
        return runs.get_run(self.services, run.id)

    def job_ids(self, run: Run, *statuses: str) -> list[str]:
        items = run_results.list_items(self.services, run.id, after=0, limit=1000, statuses=statuses)
        return [item["job_id"] for item in items if item["job_id"]]

    def work(self, run: Run) -> None:
        """Start all items, and do all steps that are due."""
        is_busy = True
        while is_busy:
            scheduler.schedule_all(self.services)
            due = [job_id for job_id in self.job_ids(run, "running") if not self.is_parked(job_id)]
            for job_id in due:
                self.go_on(job_id)
            is_busy = bool(due) or self.now(run).counts.queued > 0

    def is_parked(self, job_id: str) -> bool:
        return self.row(job_id).available_at > datetime.now(UTC) + timedelta(days=365)

    def deliver(self) -> None:
        """See to the batches, whose next attempt is due now."""
        self.holder.beat(self.services.database)
        with self.services.database.write() as connection:
            connection.execute(update(batches).where(batches.c.next_at.is_not(None)).values(next_at=DbNow(-1.0)))
        self.delivery.run_once()

    def restart(self) -> None:
        """A new worker, and the old one is gone."""
        self.holder.leave(self.services.database)
        self.holder = LeaseHolder(self.services.settings)
        self.delivery = BatchDelivery(self.services, self.holder.owner)

    def run_all(self, run: Run) -> Run:
        def has_ended() -> bool:
            self.work(run)
            self.deliver()
            return self.now(run).status != "running"

        wait_until(has_ended, within_s=30, every_s=0.01, what=f"the end of {run.id}")
        for job_id in self.job_ids(run):
            self.check_order(job_id)
        return self.now(run)

    def results(self, run: Run) -> list[tuple[Any, ...]]:
        names = ("custom_id", "status", "stop_reason", "first_score", "final_score", "final_answer", "iterations")
        return [tuple(line[name] for name in names) for line in run_results.stream_results(self.services, run.id)]

    def ensure_once(self, run: Run) -> None:
        """Each call of the ledger is in one batch at most, and each request of a batch is a call of the ledger."""
        sent = Counter(entry.custom_id for entry in self.server.requests() if entry.custom_id)
        rows = [row for job_id in self.job_ids(run) for row in self.ledger(job_id)]
        assert all(count == 1 for count in sent.values())
        assert sent.keys() <= {row["id"] for row in rows if row["batch_id"]}
