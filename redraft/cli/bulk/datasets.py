"""The commands `redraft datasets …`, which check files of rows, and import, show and delete datasets."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import options, output
from redraft.cli.backends import opening
from redraft.cli.bulk import bulk_options
from redraft.cli.jobs import request_bodies
from redraft.domain.bulk.phrases import count
from redraft.errors import FieldError

if TYPE_CHECKING:
    from redraft.datasets.rows import BadRow
    from redraft.operations.bulk.dataset_checks import BadRowReport

app = options.Group("List, check, import, show and delete datasets. The default command is `list`.")

File = Annotated[str, typer.Argument(metavar="FILE", help="File of rows; '-' for stdin.", show_default=False)]


@app.add("list", "redraft datasets list --json")
def list_datasets(*, limit: options.Limit = 20, after: options.After = None, as_json: options.AsJson = False) -> None:
    """List datasets, newest first."""
    from redraft.cli.bulk.dataset_pages import show_datasets

    with opening.opened() as backend:
        page, cursor = backend.list_datasets(after, limit)
    none_yet = "No datasets yet. To store one: redraft datasets import FILE, or redraft eval FILE"
    bulk_options.show_page("datasets", page, cursor, show_datasets, none_yet, as_json=as_json)


@app.add(
    "check",
    "redraft datasets check questions.jsonl",
    "redraft datasets check rows.csv --map instruct=frage --crit 'Right.'",
)
@options.with_job_options
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
    """Check the rows of a file, and estimate the maximum cost of a run.

    The command stores nothing and calls no model.

    Exit codes: 0 all rows can be used; 2 wrong usage, the file cannot be read, or no row can be used; 5 there is no
    such file; 6 some rows cannot be used.
    """
    from redraft.cli.bulk.dataset_files import folder_of, opened_file
    from redraft.cli.bulk.dataset_pages import show_check
    from redraft.cli.exit_codes import Exit
    from redraft.datasets.reports import no_good_rows

    fields = bulk_options.defaults_of(defaults, {**given, "answer_schema": options.schema_of(schema)})
    request_bodies.add_checks(fields, check)
    with opening.opened() as backend, opened_file(file) as (stream, name):
        layers = {"defaults": fields, "overrides": bulk_options.overrides_of(overrides)}
        mapping = bulk_options.mapping_of(mapped)
        found = backend.check_dataset(stream, name, folder_of(file), file_format, mapping, layers)
    if as_json:
        output.write_json(found)
    else:
        show_check(found)
    if not found.good:
        raise no_good_rows([_bad_row(each) for each in found.errors])
    raise typer.Exit(Exit.SOME_FAILED if found.bad else Exit.OK)


def _bad_row(row: "BadRowReport") -> "BadRow":
    from redraft.datasets.rows import BadRow

    errors = tuple(FieldError(each.pointer, each.detail, each.code) for each in row.errors)
    return BadRow(row.line, row.last_line, row.custom_id, errors, digest="")


@app.add("import", "redraft datasets import rows.csv --map instruct=frage")
def import_file(
    *,
    file: File,
    mapped: bulk_options.Mapped = None,
    file_format: bulk_options.FileFormat = None,
    as_json: options.AsJson = False,
) -> None:
    """Store the rows of a file as a dataset, and print its id. A second import of the same rows stores nothing."""
    from redraft.cli.bulk.dataset_files import import_file

    with opening.opened() as backend:
        found, is_new = import_file(backend, file, file_format=file_format, mapping=bulk_options.mapping_of(mapped))
    if as_json:
        output.write_json(found)
    else:
        output.write_data(found.id)
    state = "Stored" if is_new else "Already stored:"
    bad = f", {found.bad_rows:,} of them bad" if found.bad_rows else ""
    output.say(f"{state} {count(found.rows, 'row')}{bad}. Run them with: redraft eval {found.id}", "dim")


@app.add("show", "redraft datasets show latest", "redraft datasets show 0199a3 --limit 50")
def show(
    *,
    dataset: bulk_options.DatasetRef = "latest",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of listed rows.")] = 10,
    after: Annotated[
        int, typer.Option(min=-1, help="List only rows after this position. The first row has position 0.")
    ] = -1,
    as_json: options.AsJson = False,
) -> None:
    """Show a dataset, its fields and its first rows."""
    from redraft.cli.bulk.dataset_pages import show_dataset, show_rows

    with opening.opened_for("dataset", dataset) as (backend, dataset_id):
        found = backend.get_dataset(dataset_id)
        rows = backend.list_rows(found.id, after, limit)
    if as_json:
        output.write_json({**found.model_dump(mode="json"), "items": rows})
        return
    show_dataset(found)
    show_rows(rows)
    if len(rows) == limit and rows[-1].position + 1 < found.rows:
        output.say_more(f"redraft datasets show {found.id}", rows[-1].position)


@app.add("delete", "redraft datasets delete 0199a3")
def delete(*, dataset: bulk_options.DatasetRef, as_json: options.AsJson = False) -> None:
    """Delete a dataset that no run uses. The command asks for no confirmation."""
    with opening.opened_for("dataset", dataset) as (backend, dataset_id):
        backend.delete_dataset(dataset_id)
    output.say_deleted(dataset_id, as_json=as_json)
