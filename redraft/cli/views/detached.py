"""What is said of a job that is left to a worker."""

from redraft.cli import output, sessions
from redraft.cli.views.outcomes import job_data
from redraft.operations.jobs import queries
from redraft.operations.services import Services


def print_detached(services: Services, job_id: str, *, as_json: bool) -> None:
    """The id on stdout; on stderr how to see more, and whether anybody works on it."""
    if as_json:
        output.write_json(job_data(queries.get_job(services, job_id)))
    else:
        output.write_data(job_id)
    if sessions.is_worker_alive(services):
        output.say(f"A worker takes it up; watch it with: redraft jobs watch {job_id}", "dim")
        return
    starter = "redraft serve" if services.settings.is_embedded_broker else "redraft worker"
    words = f"No worker is alive. It begins with `{starter}`, or with: redraft jobs watch {job_id}"
    output.say(words, "yellow")
