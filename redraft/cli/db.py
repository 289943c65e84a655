"""`redraft db …`: the schema of the database."""

import typer

from redraft.cli import options, output, sessions

app = typer.Typer(help="See and upgrade the database's schema.", rich_markup_mode="rich", no_args_is_help=True)


@app.command("upgrade", epilog=options.examples("REDRAFT_DATABASE_URL=postgresql://… redraft db upgrade"))
def upgrade(*, as_json: options.AsJson = False) -> None:
    """Bring the schema to this version's. Harmless when it is there already, or when two do it at once."""
    from redraft.storage import schema

    with sessions.opened(needs_schema=False) as services:
        before = schema.current(services.database)
        schema.upgrade(services.database)
        after = schema.current(services.database)
    if as_json:
        output.write_json({"before": before, "current": after})
    if before == after:
        output.say(f"The schema is at {after} already.")
    else:
        output.say(f"Upgraded the schema from {before or 'nothing'} to {after}.")


@app.command("current")
def current(*, as_json: options.AsJson = False) -> None:
    """Print the schema's version, and say whether it is this program's."""
    from redraft.storage import schema

    with sessions.opened(needs_schema=False) as services:
        found, head = schema.current(services.database), schema.head()
    if as_json:
        output.write_json({"current": found, "head": head})
    elif found:
        output.write_data(found)
    if found != head:
        output.say(f"The schema is at {found or 'nothing'}, not at {head}: run `redraft db upgrade`.", "yellow")
