"""The commands `redraft db …`, which upgrade, back up and prune the database."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.cli.exit_codes import Exit

if TYPE_CHECKING:
    from redraft.storage.engine.schema import SchemaState

app = options.Group("Upgrade, back up and prune the database. The default command is `current`.")

_REPORT_EVERY_S = 2.0


@app.add("current")
def current(*, as_json: options.AsJson = False) -> None:
    """Print the version of the database schema.

    Exit codes: 0 this program can use the schema; 1 it cannot use the schema, or there is no schema.
    """
    from redraft.storage.engine import schema

    # `sessions.opened` would upgrade the schema, which this command must only show
    with sessions.connected() as services:
        found = schema.schema_state(services.database)
    if as_json:
        output.write_json({"current": found.current, "head": found.head})
    elif found.current:
        output.write_data(found.current)
    if found.is_newer:
        _say_newer(found)
    elif not found.is_usable:
        output.say(found.remedy, "yellow")
        raise typer.Exit(Exit.ERROR)


@app.add("upgrade", "REDRAFT_DATABASE_URL=postgresql://… redraft db upgrade")
def upgrade(*, as_json: options.AsJson = False) -> None:
    """Upgrade the schema to the version of this program.

    The upgrade needs no downtime. Concurrent upgrades are safe.
    """
    from redraft.storage.engine import schema

    with sessions.connected() as services:
        before = schema.current(services.database)
        schema.upgrade(services.database)
        after = schema.schema_state(services.database)
    if as_json:
        output.write_json({"before": before, "current": after.current})
    if after.is_newer:
        _say_newer(after)
    elif before == after.current:
        output.say(f"The schema is already at version {before}.")
    else:
        output.say(f"Upgraded the schema from {before or 'an empty database'} to {after.current}.")


def _say_newer(found: "SchemaState") -> None:
    output.say(
        f"The schema is at version {found.current}, which is newer than version {found.head} of this program."
        " This program can use it.",
        "yellow",
    )


@app.add("backup", "redraft db backup redraft-$(date +%F).backup")
def backup(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Copy the whole database into one file, without downtime.

    The copy of an SQLite database is an SQLite database. The copy of a PostgreSQL database is an archive of pg_dump,
    for pg_restore. docs/operations.md describes how to restore both.
    """
    from redraft.operations.admin import backups

    report = _Progress()

    def show(share: float | None, size: int) -> None:
        report(f"Copied {size / 1e6:,.0f} MB{'' if share is None else f', {share:.0%}'}.")

    with sessions.connected() as services:
        made = backups.back_up(services, file, may_replace=force, on_progress=show)
    if as_json:
        output.write_json({"file": str(made.file), "kind": made.kind, "schema": made.schema, "bytes": made.size})
    output.say(
        f"Wrote and checked {made.file}, {made.size / 1e6:,.1f} MB. It contains all tasks and answers: keep it safe."
    )


@app.add("prune", "redraft db prune --older 30d --dry-run", "redraft db prune --older 2w")
def prune(
    *,
    older: Annotated[
        float,
        typer.Option(
            metavar="AGE",
            parser=options.read_span_s,
            help="Minimum time since a job ended, such as 90min, 12h, 30d or 2w. 0d removes all jobs that have ended.",
        ),
    ],
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="succeeded|failed|canceled",
            parser=options.one_of("succeeded", "failed", "canceled"),
            help="Remove only jobs with this status; repeatable (default: all jobs that have ended).",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the jobs, and remove nothing.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove old jobs that have ended, with all their data.

    The command also removes old model calls of `redraft refine`. It deletes in small batches, so workers and requests
    can continue. If it is interrupted, it can be run again.
    """
    from redraft.operations.admin import retention

    report = _Progress()
    with sessions.opened() as services:
        what = retention.too_old(services, older, status or ())
        if dry_run:
            counts, drafts = retention.count(services, what), retention.count_drafts(services, what)
        else:
            counts = retention.prune(services, what, lambda done, of: report(f"Removed jobs: {done:,} of {of:,}."))
            drafts = retention.prune_drafts(services, what)
    if as_json:
        output.write_json({"before": what.before, "dry_run": dry_run, "jobs": counts, "draft_calls": drafts})
    named = sorted(counts.items())
    if drafts:
        named.append(("call of a draft" if drafts == 1 else "calls of drafts", drafts))
    listed = ", ".join(f"{count:,} {name}" for name, count in named) or "none"
    output.say(f"{'To remove' if dry_run else 'Removed'}: {listed}; ended before {what.before:%Y-%m-%d %H:%M} UTC.")


class _Progress:
    """Prints progress every two seconds, so a short operation prints no progress."""

    def __init__(self) -> None:
        self._next_at = time.monotonic() + _REPORT_EVERY_S

    def __call__(self, text: str) -> None:
        if time.monotonic() >= self._next_at:
            output.say(text, "dim")
            self._next_at = time.monotonic() + _REPORT_EVERY_S
