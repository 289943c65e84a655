"""One storm: a load of jobs, a schedule of faults, then silence, then the audit."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr
from sqlalchemy import and_, func, select

from redraft.errors import Unavailable
from redraft.storage.engine.bulk_tables import runs
from redraft.storage.engine.tables import calls, jobs, webhook_deliveries
from tests.chaos.audit.auditor import audit, audit_runs, audit_webhooks
from tests.chaos.audit.rows import case_of
from tests.chaos.audit.witness import Witness
from tests.chaos.driver import Driver, Submitted
from tests.chaos.mutants import FAULTS, Mutant
from tests.chaos.stage import Kind, Stage
from tests.chaos.storms import faults
from tests.chaos.storms.clocks import can_be_wrong
from tests.chaos.storms.load import JobPlan, Provider, draw_job, draw_run
from tests.chaos.storms.messages import Eavesdropper
from tests.support.receiver import LOOPBACK, SECRET, Receiver
from tests.support.waiting import wait_until

Say = Callable[[str], None]
_QUIET_S = 60.0
_EVERY_S = 0.2
# After these a worker lives on without its leases
_LOSING = ("worker SIGSTOP past its lease", "worker stopped before its call", "clock jump")


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs, workers and faults, and which share of the jobs is canceled."""

    jobs: int
    workers: int
    faults: int
    canceled: float = 0.05


@dataclass(slots=True)
class Report:
    """What was done, what became of the jobs, and what is wrong."""

    kind: Kind
    seed: int
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter[str])
    stop_reasons: Counter[str] = field(default_factory=Counter[str])
    calls: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    wasted_steps: int = 0
    wasted_steps_max: int = 0
    """Whoever is lost loses the calls that it had in hand, one step per thread, and no others."""
    slowest_post_s: float = 0.0
    exits: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])

    @property
    def wasted(self) -> int:
        """Calls that were paid, or may have been, and brought nothing."""
        return self.calls["unknown"] + self.calls["dup"]


def run_storm(kind: Kind, seed: int, size: Size, say: Say = lambda _: None, *, mutant: Mutant | None = None) -> Report:
    """One storm; with a mutant, on a product that lacks what it names, and with the faults that show it."""
    started_at = time.monotonic()
    report = Report(kind, seed)
    hooks: dict[str, Any] = {"webhook_secret": SecretStr(SECRET), "webhook_allow_private": LOOPBACK}
    with Receiver() as receiver, Stage(kind, seed=seed, mutant=mutant, **hooks) as stage:
        stage.model_server.respond(Provider(seed))
        stage.start_api()
        for _ in range(size.workers):
            stage.start_worker()
        stage.keep()
        stage.wait_ready()
        say(f"{kind}: {size.workers} workers are up; {size.jobs} jobs and {size.faults} faults, seed {seed}")
        plans = [
            draw_job(seed, number, webhook_url=receiver.url, canceled=size.canceled)
            for number in range(1, size.jobs + 1)
        ]
        kinds = FAULTS[mutant] if mutant else faults.kinds_for(kind, with_clock=can_be_wrong())
        schedule = faults.draw(seed, size.faults, size.workers, kinds)
        submitted = _break_things(stage, plans, schedule, report, say)
        _take_stock(stage, report, submitted)
        report.violations += audit_webhooks(stage.services.database, receiver.hits)
    report.seconds = time.monotonic() - started_at
    return report


def _break_things(
    stage: Stage, plans: list[JobPlan], schedule: Sequence[faults.Fault], report: Report, say: Say
) -> list[Submitted]:
    witness = Witness(stage.settings.database_url).start()
    eavesdropper = Eavesdropper(stage.valkey, stage.services.database).start()
    trouble = faults.Trouble(stage, report.seed)

    def is_due(number: int) -> bool:
        return number * len(schedule) < (trouble.done.total() + 1) * len(plans)

    items = draw_run(report.seed, max(3, len(plans) // 15))
    seen = Driver(stage.url).start_run(items)
    client = ClientThread(stage.url, plans, is_due)
    try:
        for number, fault in enumerate(schedule, 1):
            say(f"fault {number:>2} of {len(schedule)}: {fault}; {client.accepted} accepted, {witness.live} live")
            trouble.do(fault)
    finally:
        trouble.end()
        submitted = client.result()
        say(f"quiet: {client.accepted} of {len(plans)} accepted, {witness.live} live")
        _wait_for_silence(stage)
        witness.stop()
        eavesdropper.stop()
    report.faults = trouble.done
    report.violations += [*witness.problems, *eavesdropper.problems]
    return [*submitted, *seen]


class ClientThread:
    """The driver beside the faults."""

    def __init__(self, url: str, plans: list[JobPlan], is_due: Callable[[int], bool]) -> None:
        self.accepted = 0
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="driver")
        submit_all = Driver(url, self._count).submit_all
        self._future = self._pool.submit(submit_all, plans, every_s=_EVERY_S, is_due=is_due)

    def _count(self, accepted: int) -> None:
        self.accepted = accepted

    def result(self) -> list[Submitted]:
        with self._pool:
            return self._future.result()


def _wait_for_silence(stage: Stage) -> None:
    """Until all jobs have ended and their ledgers are closed, or for so long that they will not any more."""

    def is_silent() -> bool:
        live = select(func.count()).where(jobs.c.finished_at.is_(None))
        opened = select(func.count()).where(calls.c.status == "started")
        running = select(func.count()).where(runs.c.finished_at.is_(None))
        # One that a dead worker was sending waits for its lease
        is_unsent = and_(webhook_deliveries.c.status == "pending", webhook_deliveries.c.lease_expires_at.is_(None))
        unsent = select(func.count()).where(is_unsent)
        try:
            with stage.services.database.read() as connection:
                return not any(connection.scalar(query) for query in (live, opened, running, unsent))
        except Unavailable:
            return False

    try:
        wait_until(is_silent, within_s=_QUIET_S / 4, every_s=0.2, what="the end of all jobs")
    except AssertionError:
        # The auditor says what is missing
        return


def _take_stock(stage: Stage, report: Report, submitted: list[Submitted]) -> None:
    requests = stage.model_server.requests()
    _find_jobs_of_items(stage, submitted)
    report.violations += audit(stage.services.database, submitted, requests) + audit_runs(stage.services.database)
    report.requests = len(requests)
    report.slowest_post_s = max((seen.slowest_s for seen in submitted), default=0.0)
    for member in stage.members:
        report.exits.update(f"{member.name.partition('-')[0]} {code}" for code in member.exits)
    with stage.services.database.read() as connection:
        for counter, column in ((report.stop_reasons, jobs.c.stop_reason), (report.calls, calls.c.status)):
            query = select(column, func.count()).group_by(column)
            counter.update({str(name): count for name, count in connection.execute(query)})
        wasted = select(calls.c.job_id, calls.c.lease_token).where(calls.c.status.in_(("unknown", "dup"))).distinct()
        report.wasted_steps = len(connection.execute(wasted).all())
    losses = sum(len(worker.exits) for worker in stage.workers) + sum(report.faults[name] for name in _LOSING)
    report.wasted_steps_max = losses * stage.settings.worker_concurrency
    if report.wasted_steps > report.wasted_steps_max:
        report.violations.append(f"{report.wasted_steps} steps wasted calls, {losses} lost workers explain fewer")


def _find_jobs_of_items(stage: Stage, submitted: list[Submitted]) -> None:
    """A run's items become jobs without the client: which, the rows tell."""
    with stage.services.database.read() as connection:
        found = {case_of(row): row["id"] for row in connection.execute(select(jobs)).mappings() if row["run_id"]}
    for seen in submitted:
        if seen.plan.case in found:
            seen.job_ids.append(found[seen.plan.case])
