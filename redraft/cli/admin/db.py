"""`redraft db …`: the schema of the database, copies of it, and what may be forgotten."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redraft.cli import options, output, sessions
from redraft.cli.exits import Exit
from redraft.cli.spans import read_span_s

if TYPE_CHECKING:
    from redraft.storage.engine.schema import Standing

app = typer.Typer(
    help="Upgrade, back up and prune the database. Without a command: print the schema's version.",
    rich_markup_mode=None,
    invoke_without_command=True,
)

_REPORT_EVERY_S = 2.0


@app.callback()
def main(ctx: typer.Context) -> None:
    """Print the schema's version when no command is named."""
    if ctx.invoked_subcommand is None:
        current()


@app.command("upgrade", epilog=options.examples("REDRAFT_DATABASE_URL=postgresql://… redraft db upgrade"))
def upgrade(*, as_json: options.AsJson = False) -> None:
    """Bring the schema to this version's, while workers and APIs go on. Harmless when two do it at once."""
    from redraft.storage.engine import schema

    with sessions.opened(needs_schema=False) as services:
        before = schema.current(services.database)
        schema.upgrade(services.database)
        after = schema.standing(services.database)
    if as_json:
        output.write_json({"before": before, "current": after.current})
    if after.is_newer:
        _say_newer(after)
    elif before == after.current:
        output.say(f"The schema is at {before} already.")
    else:
        output.say(f"Upgraded the schema from {before or 'nothing'} to {after.current}.")


@app.command("current")
def current(*, as_json: options.AsJson = False) -> None:
    """Print the schema's version, and say whether it is this program's.

    Exit codes: 0 this program can work with it; 1 it cannot, or there is no schema.
    """
    from redraft.storage.engine import schema

    with sessions.opened(needs_schema=False) as services:
        found = schema.standing(services.database)
    if as_json:
        output.write_json({"current": found.current, "head": found.head})
    elif found.current:
        output.write_data(found.current)
    if found.is_newer:
        _say_newer(found)
    elif not found.is_usable:
        output.say(found.remedy, "yellow")
        raise typer.Exit(Exit.ERROR)


def _say_newer(found: "Standing") -> None:
    output.say(f"The schema is at {found.current}, newer than this program's {found.head}; it works with it.", "yellow")


@app.command("backup", epilog=options.examples("redraft db backup redraft-$(date +%F).backup"))
def backup(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the copy.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Copy the whole database into one file, without downtime. docs/operations.md says how to restore it.

    SQLite's copy is a database; PostgreSQL's an archive for pg_restore, made by pg_dump.
    """
    from redraft.operations.admin import backups

    tell = _Progress()
    with sessions.opened(needs_schema=False) as services:
        made = backups.back_up(
            services,
            file,
            may_replace=force,
            on_progress=lambda share, size: tell(
                f"Copied {size / 1e6:,.0f} MB{'' if share is None else f', {share:.0%}'}."
            ),
        )
    if as_json:
        output.write_json({"file": str(made.file), "kind": made.kind, "schema": made.schema, "bytes": made.size})
    output.say(f"Wrote {made.file}: {made.size / 1e6:,.1f} MB, checked. It holds all tasks and answers: keep it safe.")


@app.command("prune", epilog=options.examples("redraft db prune --older 30d --dry-run", "redraft db prune --older 2w"))
def prune(
    *,
    older: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Minimum age since the job ended: 30d, 12h, 2w, 90min; 0d removes all that have ended."
        ),
    ],
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="succeeded|failed|canceled",
            help="Only jobs with this status; repeatable (default: all ended jobs).",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove jobs that ended long ago, with all their data. Old calls of drafts are removed too.

    Live jobs stay. It works in small batches beside workers and requests, and may be broken off and run again.
    """
    from redraft.operations.admin import retention

    tell = _Progress()
    with sessions.opened() as services:
        what = retention.too_old(services, read_span_s(older, "--older", may_be_zero=True), status or ())
        if dry_run:
            counts, drafts = retention.count(services, what), retention.count_drafts(services, what)
        else:
            counts = retention.prune(services, what, lambda done, of: tell(f"Removed {done:,} of {of:,} jobs."))
            drafts = retention.prune_drafts(services, what)
    if as_json:
        output.write_json({"before": what.before, "dry_run": dry_run, "jobs": counts, "draft_calls": drafts})
    named = sorted(counts.items())
    if drafts:
        named.append(("call of a draft" if drafts == 1 else "calls of drafts", drafts))
    listed = ", ".join(f"{count:,} {name}" for name, count in named) or "none"
    output.say(f"{'To remove' if dry_run else 'Removed'}: {listed}; ended before {what.before:%Y-%m-%d %H:%M} UTC.")


class _Progress:
    """Says how far something is, every other second: what is soon over says nothing."""

    def __init__(self) -> None:
        self._next_at = time.monotonic() + _REPORT_EVERY_S

    def __call__(self, text: str) -> None:
        if time.monotonic() >= self._next_at:
            output.say(text, "dim")
            self._next_at = time.monotonic() + _REPORT_EVERY_S
