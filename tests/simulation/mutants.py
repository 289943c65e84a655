"""The product without one of its mechanisms: with other parts, or with a database that gets other statements."""

import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from sqlalchemy import Connection, select

from redraft.domain.jobs.states import JobStatus, Step, StopReason, states_before
from redraft.messages import StepMessage
from redraft.operations.jobs.queries import record_of
from redraft.operations.request_views import readable_request
from redraft.operations.results.completion import close_orphaned_calls, complete
from redraft.operations.results.job_results import ending
from redraft.operations.services import Services
from redraft.operations.steps.leases import LeaseHolder
from redraft.storage.engine.columns import DbNow
from redraft.storage.engine.tables import jobs
from redraft.storage.engine.unit_of_work import Database
from redraft.storage.jobs import events, history, transitions
from tests.simulation.parts import ProcessDatabase
from tests.simulation.site import Variant


class NotifyingDatabase(ProcessDatabase):
    """Notifies workers of what is due in the unit of work that makes it due, before its commit."""

    @contextmanager
    def write(self) -> Generator[Connection]:
        with super().write() as connection:
            yield connection
            is_new = (jobs.c.rung_at == DbNow()) & transitions.is_live() & jobs.c.lease_owner.is_(None)
            for step, job_id, step_no in connection.execute(
                select(jobs.c.step, jobs.c.id, jobs.c.step_no).where(is_new)
            ):
                self._site.broker.put(self._process.name, StepMessage(Step(step), job_id, step_no))


class ForgetfulHolder(LeaseHolder):
    """Does not extend its leases."""

    def beat(self, database: Database) -> None:
        """Do nothing."""


class CarelessHolder(LeaseHolder):
    """Does not look at the row before a call, whatever time has passed."""

    def is_fresh(self, job_id: str, token: int) -> bool:
        return True


def stale_cancel(services: Services, job_id: str) -> None:
    """Cancel with what an earlier unit of work has read."""
    with services.database.read() as connection:
        job = record_of(connection, job_id)
        end = ending(
            services.profiles, job, readable_request(job), history.iterations_of(connection, job), StopReason.CANCELED
        )
    with services.database.write() as connection:
        movable = transitions.is_status(*states_before(JobStatus.CANCELED))
        first_seq = transitions.change(connection, job_id, end.values, when=movable, new_events=1)
        if first_seq is not None:
            events.add(connection, job, first_seq, [end.event])
            complete(connection, job, end.values)
            close_orphaned_calls(connection, job)


def _without(pattern: str, *, instead: str = "", where: str = "") -> Callable[[str], str]:
    """Rewrite the statements that contain `where`. Raises nothing if none does: the mutant is not found then."""
    found = re.compile(pattern)
    return lambda statement: found.sub(instead, statement) if where in statement else statement


_NOW = r"strftime\('[^']*', 'now'\)"

MUTANTS: Mapping[str, Variant] = MappingProxyType(
    {
        "no fencing": Variant(rewrite=_without(r" AND jobs\.lease_token = :p_token")),
        "notify before commit": Variant(database_type=NotifyingDatabase),
        "recorded replies off": Variant(
            rewrite=_without("ORDER BY", instead="AND 0 ORDER BY", where="ORDER BY calls.status DESC")
        ),
        "lease not renewed": Variant(holder_type=ForgetfulHolder),
        "cancel reads stale rows": Variant(cancel=stale_cancel),
        "no check before a call": Variant(holder_type=CarelessHolder),
        "claim ignores leases": Variant(
            rewrite=_without(
                rf" AND \(jobs\.lease_expires_at IS NULL OR jobs\.lease_expires_at < {_NOW}\)", where=":p_owner"
            )
        ),
        "sweeper finds nothing": Variant(
            rewrite=_without("WHERE", instead="WHERE 0 AND", where="ring_count=(jobs.ring")
        ),
    }
)
