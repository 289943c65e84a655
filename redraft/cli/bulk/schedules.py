"""The commands `redraft runs schedule …`, which start runs at regular times."""

from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output
from redraft.cli.backends import opening
from redraft.cli.bulk import bulk_options

if TYPE_CHECKING:
    from redraft.operations.schedules.run_schedules import Schedule

app = options.Group("Start runs at regular times. The default command is `list`.")

# The fields of a run that its repetitions share
_REPEATED = {"dataset_id", "name", "defaults", "overrides", "repeat", "max_in_flight", "delivery", "webhook"}

ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The id of a schedule.")]


@app.add("list", "redraft runs schedule list --json")
def list_schedules(*, limit: options.Limit = 20, after: options.After = None, as_json: options.AsJson = False) -> None:
    """List schedules, newest first."""
    with opening.opened() as backend:
        found, cursor = backend.list_schedules(after, limit)
    none_yet = 'No schedules yet. Try: redraft runs schedule add latest --cron "0 6 * * mon-fri"'
    bulk_options.show_page("runs schedule", found, cursor, _show_all, none_yet, as_json=as_json)


@app.add(
    "add",
    'redraft runs schedule add latest --cron "0 6 * * mon-fri"',
    'redraft runs schedule add 0199a3 --cron "0 * * * *" --min-pass-rate 0.8 --fail-on-regression --webhook URL',
)
def add(
    *,
    run: bulk_options.RunRef,
    cron: Annotated[
        str,
        typer.Option(
            metavar="WORDS",
            help="Minute, hour, day of the month, month and day of the week, in UTC: '0 6 * * mon-fri'. Quote the "
            "words, because a shell replaces each * by file names.",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Name of the runs (default: the name of RUN).")] = None,
    min_pass_rate: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Gate: fail if the share of accepted items is below this value, 0 to 1."),
    ] = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression", help="Gate: fail if a run is significantly worse than the schedule's last run."
        ),
    ] = False,
    webhook: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="URL that receives `run.finished` and `run.gate_failed` (default: the webhook of RUN)."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Repeat a run at regular times: the same dataset, settings and budget.

    A worker starts one run at each of these times, unless the schedule's last run is still running. After an outage,
    it starts one run for all missed times.
    """
    from redraft.cli.sessions import check
    from redraft.domain.bulk.schedule_requests import CreateSchedule

    with opening.opened_for("run", run) as (backend, run_id):
        like = backend.get_run(run_id)
        body = like.model_dump(include=_REPEATED)
        body["max_cost_usd"] = None if like.max_cost_usd is None else float(like.max_cost_usd)
        body |= {"name": name} if name else {}
        body |= {"webhook": {"url": webhook, "events": ["run.finished", "run.gate_failed"]}} if webhook else {}
        gates = {"min_pass_rate": min_pass_rate, "fail_on_regression": fail_on_regression}
        made = backend.create_schedule(check(CreateSchedule, {"cron": cron, "run": body, "gates": gates}))
    _tell(made, as_json=as_json)


@app.add("show", "redraft runs schedule show sch_…")
def show(*, schedule: ScheduleId, as_json: options.AsJson = False) -> None:
    """Show a schedule with its newest runs and the results of their gates."""
    with opening.opened() as backend:
        found = backend.get_schedule(schedule)
    if as_json:
        output.write_json(found)
        return
    _show_all([found])
    for tick in found.ticks:
        outcome = tick.run_id or (tick.error.detail if tick.error else "the run was deleted")
        output.show(output.one_line(f"  {tick.tick:%Y-%m-%d %H:%M} UTC  {outcome}"))
        for gate in tick.gates or ():
            output.show(output.one_line(f"    {gate.words}"))


@app.add("pause")
def pause(*, schedule: ScheduleId, as_json: options.AsJson = False) -> None:
    """Start no further runs. A run in progress continues."""
    with opening.opened() as backend:
        found = backend.change_schedule(schedule, "pause")
    _tell(found, as_json=as_json)


@app.add("resume")
def resume(*, schedule: ScheduleId, as_json: options.AsJson = False) -> None:
    """Resume a schedule. Runs that were due during the pause are not started."""
    with opening.opened() as backend:
        found = backend.change_schedule(schedule, "resume")
    _tell(found, as_json=as_json)


@app.add("delete")
def delete(*, schedule: ScheduleId, as_json: options.AsJson = False) -> None:
    """Delete a schedule. Its runs are kept. The command asks for no confirmation."""
    with opening.opened() as backend:
        backend.delete_schedule(schedule)
    output.say_deleted(schedule, as_json=as_json)


def _tell(schedule: "Schedule", *, as_json: bool) -> None:
    if as_json:
        output.write_json(schedule)
        return
    _show_all([schedule])


def _show_all(found: "list[Schedule]") -> None:
    for each in found:
        following = f"next {each.next_at:%Y-%m-%d %H:%M} UTC" if each.next_at else "paused"
        output.show(output.one_line(f"{each.id}  {each.cron}  {following}  {each.name}"))
