"""One storm: a load of jobs, a schedule of faults, then silence, then the audit."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sqlalchemy import func, select

from redraft.errors import Unavailable
from redraft.storage.tables import calls, jobs
from tests.chaos import faults
from tests.chaos.auditor import audit
from tests.chaos.clocks import can_be_wrong
from tests.chaos.driver import Driver, Submitted
from tests.chaos.load import JobPlan, Provider, draw_job
from tests.chaos.stage import Kind, Stage
from tests.chaos.witness import Witness
from tests.support.waiting import wait_until

Say = Callable[[str], None]
_QUIET_S = 60.0
_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Size:
    """How many jobs, workers and faults."""

    jobs: int
    workers: int
    faults: int


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
    slowest_post_s: float = 0.0
    exits: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])

    @property
    def wasted(self) -> int:
        """Calls that were paid, or may have been, and brought nothing."""
        return self.calls["unknown"] + self.calls["dup"]


def run_storm(kind: Kind, seed: int, size: Size, say: Say = lambda _: None) -> Report:
    started_at = time.monotonic()
    report = Report(kind, seed)
    with Stage(kind, seed=seed) as stage:
        stage.model_server.respond(Provider(seed))
        stage.start_api()
        for _ in range(size.workers):
            stage.start_worker()
        stage.keep()
        stage.wait_ready()
        say(f"{kind}: {size.workers} workers are up; {size.jobs} jobs and {size.faults} faults, seed {seed}")
        submitted = _break_things(stage, seed, size, report, say)
        _take_stock(stage, report, submitted)
    report.seconds = time.monotonic() - started_at
    return report


def _break_things(stage: Stage, seed: int, size: Size, report: Report, say: Say) -> list[Submitted]:
    plans = [draw_job(seed, number) for number in range(1, size.jobs + 1)]
    kinds = faults.kinds_for(stage.kind, with_clock=can_be_wrong())
    schedule = faults.draw(seed, size.faults, size.workers, kinds)
    witness = Witness(stage.settings.database_url).start()
    trouble = faults.Trouble(stage, seed)

    def is_due(number: int) -> bool:
        return number * size.faults < (trouble.done.total() + 1) * size.jobs

    client = ClientThread(stage.url, plans, is_due)
    try:
        for number, fault in enumerate(schedule, 1):
            say(f"fault {number:>2} of {size.faults}: {fault}; {client.accepted} accepted, {witness.live} live")
            trouble.do(fault)
    finally:
        trouble.end()
        submitted = client.result()
        say(f"quiet: {client.accepted} of {size.jobs} accepted, {witness.live} live")
        _wait_for_silence(stage)
        witness.stop()
    report.faults = trouble.done
    report.violations += witness.problems
    return submitted


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
        try:
            with stage.services.database.read() as connection:
                return not connection.scalar(live) and not connection.scalar(opened)
        except Unavailable:
            return False

    try:
        wait_until(is_silent, within_s=_QUIET_S / 4, every_s=0.2, what="the end of all jobs")
    except AssertionError:
        # The auditor says what is missing
        return


def _take_stock(stage: Stage, report: Report, submitted: list[Submitted]) -> None:
    requests = stage.model_server.requests()
    report.violations += audit(stage.services.database, submitted, requests)
    report.requests = len(requests)
    report.slowest_post_s = max((seen.slowest_s for seen in submitted), default=0.0)
    for member in stage.members:
        report.exits.update(f"{member.name.partition('-')[0]} {code}" for code in member.exits)
    with stage.services.database.read() as connection:
        for counter, column in ((report.stop_reasons, jobs.c.stop_reason), (report.calls, calls.c.status)):
            query = select(column, func.count()).group_by(column)
            counter.update({str(name): count for name, count in connection.execute(query)})
