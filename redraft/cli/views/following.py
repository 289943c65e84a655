"""Follows a job's events until it ends."""

import time
from collections.abc import Callable, Iterator

from redraft.cli.views.wakeups import Wakeups
from redraft.errors import RedraftError
from redraft.jobs import Delta
from redraft.operations.jobs import queries
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Event
from redraft.operations.services import Services

_POLL_EVERY_S = 1.5
_DEADLINE_SLACK_S = 15.0


def follow(
    services: Services,
    job_id: str,
    after: int,
    keep_alive: Callable[[], None],
    deadline_s: float | None = None,
    on_delta: Callable[[Delta], None] | None = None,
) -> Iterator[Event]:
    """Yield the events newer than `after` as they come; end with the job.

    In between, `on_delta` is called with what is being written.

    Raises:
        RedraftError: nobody has ended the job though its deadline has passed (code `deadline_exceeded`).
    """
    give_up_at = None if deadline_s is None else time.monotonic() + deadline_s + _DEADLINE_SLACK_S
    with Wakeups(services.settings, job_id, on_delta) as wakeups:
        while True:
            events, is_over = queries.list_events(services, job_id, after)
            yield from events
            if is_over:
                return
            after = events[-1].seq if events else after
            if give_up_at is not None and time.monotonic() > give_up_at:
                words = f"The deadline has passed, but no worker is there to end job {job_id}."
                raise RedraftError(words, code="deadline_exceeded")
            keep_alive()
            wakeups.wait(_POLL_EVERY_S)


def evaluated_in(services: Services, job_id: str, event: Event) -> Iteration | None:
    """The evaluated answer of an event, with its citations, which the event itself does not hold."""
    if event.type != "iteration.evaluated":
        return None
    found = queries.list_iterations(services, job_id, event.data["iteration"])
    return next((each for each in found if each.candidate == event.data["candidate"]), None)


def last_event(services: Services, job_id: str) -> int:
    """The number of the newest event."""
    after = 0
    while True:
        events, _ = queries.list_events(services, job_id, after)
        if not events:
            return after
        after = events[-1].seq
