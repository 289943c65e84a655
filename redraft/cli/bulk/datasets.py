"""`redraft datasets …`: check files of rows, store them, and show stored datasets."""

from typing import Annotated, Any

import typer

from redraft.cli import options, output, sessions
from redraft.cli.bulk import bulk_options
from redraft.cli.jobs import rubrics
from redraft.cli.jobs.job_options import with_job_options

app = typer.Typer(
    help="Check, import, show and delete datasets. Without a command: list them.",
    rich_markup_mode=None,
    invoke_without_command=True,
)

File = Annotated[str, typer.Argument(metavar="FILE", help="A file of rows; '-': stdin.", show_default=False)]


@app.callback()
def main(ctx: typer.Context) -> None:
    """List the datasets when no command is named."""
    if ctx.invoked_subcommand is None:
        list_datasets()


@app.command(
    "check",
    epilog=options.examples(
        "redraft datasets check questions.jsonl", "redraft datasets check rows.csv --map instruct=frage --crit 'Right.'"
    ),
)
@with_job_options
def check_file(  # noqa: PLR0913 - one parameter per option
    *,
    given: dict[str, Any],
    file: File,
    mapped: bulk_options.Mapped = None,
    file_format: bulk_options.FileFormat = None,
    check: options.Checks = None,
    schema: options.Schema = None,
    defaults: bulk_options.DefaultsFile = None,
    overrides: bulk_options.Overrides = None,
    as_json: options.AsJson = False,
) -> None:
    """Check the rows of a file, and estimate the cost of a run.

    Stores nothing and calls no model.

    Exit codes: 0 all rows can be used; 2 wrong usage, or no row can be used; 5 no such file; 6 some rows cannot be
    used.
    """
    from redraft.cli.bulk.dataset_files import opened_file
    from redraft.cli.bulk.dataset_pages import show_check
    from redraft.cli.exits import Exit
    from redraft.operations.bulk.dataset_checks import check_dataset, check_resource

    fields = bulk_options.defaults_of(defaults, {**given, "answer_schema": options.schema_of(schema)})
    rubrics.add_checks(fields, check)
    with sessions.opened() as services, opened_file(file) as (stream, name):
        found = check_dataset(
            services,
            stream,
            name,
            file_format=bulk_options.file_format_of(file_format),
            mapping=bulk_options.mapping_of(mapped),
            defaults=fields,
            overrides=bulk_options.overrides_of(overrides),
        )
    checked = check_resource(found)
    if as_json:
        output.write_json(checked.model_dump(mode="json"))
    else:
        show_check(checked)
    found.check_usable()
    raise typer.Exit(Exit.SOME_FAILED if found.bad else Exit.OK)


@app.command("import", epilog=options.examples("redraft datasets import rows.csv --map instruct=frage"))
def import_file(
    *,
    file: File,
    mapped: bulk_options.Mapped = None,
    file_format: bulk_options.FileFormat = None,
    as_json: options.AsJson = False,
) -> None:
    """Store the rows of a file and print the dataset's id. The same rows are stored only once."""
    from redraft.cli.bulk.dataset_files import import_file

    with sessions.opened() as services:
        found, is_new = import_file(
            services,
            file,
            file_format=bulk_options.file_format_of(file_format),
            mapping=bulk_options.mapping_of(mapped),
        )
    if as_json:
        output.write_json(found.model_dump(mode="json"))
    else:
        output.write_data(found.id)
    state = "Stored" if is_new else "Was there already:"
    bad = f", {found.bad_rows:,} of them bad" if found.bad_rows else ""
    output.say(f"{state} {found.rows:,} rows{bad}. Run them with: redraft eval {found.id}", "dim")


@app.command("list", epilog=options.examples("redraft datasets list --json"))
def list_datasets(
    *,
    limit: options.Limit = 20,
    after: options.After = None,
    as_json: options.AsJson = False,
) -> None:
    """List datasets, the newest first."""
    from redraft.cli.bulk.dataset_pages import show_datasets
    from redraft.operations.bulk import datasets

    with sessions.opened() as services:
        page, cursor = datasets.list_datasets(services, cursor=after, limit=limit)
    none_yet = "No datasets yet. `redraft eval FILE` stores its rows; so does: redraft datasets import FILE"
    bulk_options.show_page("datasets", page, cursor, show_datasets, none_yet, as_json=as_json)


@app.command("show", epilog=options.examples("redraft datasets show latest", "redraft datasets show 0199a3 --limit 50"))
def show(
    *,
    dataset: bulk_options.DatasetRef = "latest",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of rows.")] = 10,
    after: Annotated[int, typer.Option(min=-1, help="Only rows after this position; the first row is 0.")] = -1,
    as_json: options.AsJson = False,
) -> None:
    """Show a dataset, its fields and its first rows."""
    from redraft.cli.bulk.dataset_pages import show_dataset, show_rows
    from redraft.operations.bulk import datasets
    from redraft.operations.jobs import references

    with sessions.opened() as services:
        found = datasets.get_dataset(services, references.find_dataset_id(services, dataset))
        rows = datasets.list_items(services, found.id, after=after, limit=limit)
    if as_json:
        items = [row.model_dump(mode="json") for row in rows]
        output.write_json({**found.model_dump(mode="json"), "items": items})
        return
    show_dataset(found)
    show_rows(rows)
    if len(rows) == limit and rows[-1].position + 1 < found.rows:
        output.say(f"There are more: redraft datasets show {found.id} --after {rows[-1].position}", "dim")


@app.command("delete", epilog=options.examples("redraft datasets delete 0199a3"))
def delete(*, dataset: bulk_options.DatasetRef, as_json: options.AsJson = False) -> None:
    """Delete a dataset that no run uses. There is no prompt."""
    from redraft.operations.bulk import removing
    from redraft.operations.jobs import references

    with sessions.opened() as services:
        dataset_id = references.find_dataset_id(services, dataset)
        removing.delete_dataset(services, dataset_id)
    output.say_deleted(dataset_id, as_json=as_json)
