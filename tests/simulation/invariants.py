"""What holds after each schedule: the auditor's invariants, and those that only the simulation can see."""

from collections.abc import Iterator, Sequence

from sqlalchemy import select

from redraft.storage.engine.tables import events, jobs, webhook_deliveries
from tests.chaos.audit.auditor import (
    CHECKS,
    audit_submissions,
    canceled_means_no_more_calls,
    ends_for_a_reason,
    ends_soon_after_its_deadline,
    nobody_asks_for_what_is_there,
    nothing_is_paid_twice,
)
from tests.chaos.audit.rows import JobRows, read_all
from tests.chaos.driver import Submitted
from tests.simulation.site import Site

# A clock that was set makes nonsense of these
_BY_THE_CLOCK = frozenset(
    {
        ends_for_a_reason,
        ends_soon_after_its_deadline,
        nobody_asks_for_what_is_there,
        nothing_is_paid_twice,
        canceled_means_no_more_calls,
    }
)


_LONG_DEADLINE_S = 600.0


def audit_schedule(site: Site, submitted: Sequence[Submitted]) -> list[str]:
    """Everything that is wrong, one line each."""
    found = read_all(site.services.database, site.server.log)
    problems = audit_submissions(submitted, found)
    left_out = {ends_soon_after_its_deadline} if any(each.is_disturbed for each in site.holders.values()) else set()
    left_out |= _BY_THE_CLOCK if site.world.clock_step else set()
    checks = [check for check in CHECKS if check not in left_out]
    for job_id, rows in found.items():
        name = site.observer.names.get(job_id, job_id)
        problems += [f"{name}: {words}" for check in checks for words in check(rows)]
        problems += [
            f"{name}: {words}" for own in (nothing_is_wasted, nobody_is_forgotten) for words in own(site, rows)
        ]
    return [*problems, *webhooks_are_in_the_outbox(site)]


def nothing_is_wasted(site: Site, rows: JobRows) -> Iterator[str]:
    """If a reply is lost or not used, a worker that called for it was killed, suspended or cut off."""
    if site.world.clock_step:
        return
    for slot, made in rows.of_slot().items():
        wasted = [call["status"] for call in made if call["status"] in {"unknown", "dup"}]
        owners = [site.observer.holders[rows.job["id"], call["lease_token"]] for call in made]
        if wasted and not any(site.holders[owner].is_disturbed for owner in owners):
            yield f"calls for slot {slot} were {wasted}, and nothing had happened to their workers"


def nobody_is_forgotten(site: Site, rows: JobRows) -> Iterator[str]:
    """A long deadline never has to end a job: all faults together last for less."""
    has_time = rows.job["request"]["limits"]["deadline_s"] >= _LONG_DEADLINE_S
    if has_time and rows.job["stop_reason"] == "deadline_exceeded" and not site.world.clock_step:
        yield f"nobody went on with step {rows.job['step_no']} until the deadline"


def webhooks_are_in_the_outbox(site: Site) -> Iterator[str]:
    """Each end that a webhook asks for is there once."""
    done = select(events.c.job_id, events.c.seq, jobs.c.request).join(jobs, jobs.c.id == events.c.job_id)
    with site.services.database.read() as connection:
        rows = connection.execute(done.where(events.c.type == "done")).all()
        sent = [tuple(row) for row in connection.execute(select(webhook_deliveries.c.job_id, webhook_deliveries.c.seq))]
    ends = [(row.job_id, row.seq) for row in rows if row.request["webhook"]]
    if sorted(sent) != sorted(ends):
        yield f"the ends {sorted(ends)} have the webhooks {sorted(sent)}"
