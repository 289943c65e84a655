"""Shows the events of a job."""

from typing import TYPE_CHECKING

from redraft.cli.views.live import View
from redraft.operations.jobs.iterations import Iteration
from redraft.operations.jobs.resources import Event

if TYPE_CHECKING:
    from redraft.cli.backends.opening import Backend


def show_event(backend: "Backend", job_id: str, event: Event, view: View) -> None:
    """Show an event. For an evaluation, also load the grounding of the answer, which the event does not contain."""
    evaluated: Iteration | None = None
    if event.type == "iteration.evaluated":
        found = backend.iterations(job_id, event.data["iteration"])
        evaluated = next((each for each in found if each.candidate == event.data["candidate"]), None)
    view.show(event, evaluated)


def last_event(backend: "Backend", job_id: str) -> int:
    after = 0
    while events := backend.events(job_id, after)[0]:
        after = events[-1].seq
    return after
