"""The options that the commands about runs and datasets share."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from redraft.cli import output
from redraft.cli.files import read_object
from redraft.cli.jobs.request_bodies import put

if TYPE_CHECKING:
    from redraft.datasets.formats import Format

RunRef = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="The run's id, a unique beginning of it, its name, or 'latest'.", show_default=False
    ),
]
DatasetRef = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", help="The dataset's id, a unique beginning of it, its name, or 'latest'.", show_default=False
    ),
]
Mapped = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="FIELD=COLUMN", help="The column that fills a field: instruct=question; repeatable."),
]
FileFormat = Annotated[
    str | None,
    typer.Option(metavar="jsonl|json|csv|tsv|parquet", help="Format of the file (default: by its name and content)."),
]
DefaultsFile = Annotated[
    str | None,
    typer.Option(
        "--defaults",
        metavar="FILE|JSON",
        help="Fields for rows that lack them: a JSON file, or the JSON itself. Options win over it.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Override what rows say: iter_max=2, limits.max_tokens=4000; repeatable."
    ),
]
RetryErrors = Annotated[bool, typer.Option("--retry-errors", help="Also retry failed items.")]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        dir_okay=False,
        help="Write one line per item to a .jsonl or .csv file; repeatable.",
    ),
]
Reports = Annotated[
    list[Path] | None,
    typer.Option(
        "--report",
        metavar="FILE",
        dir_okay=False,
        help="Write the report to a .html, .md, .json, .txt or .xml (JUnit) file; repeatable.",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="RUN|latest",
        help="Compare with this run. 'latest' is the newest earlier run on the same dataset that succeeded.",
    ),
]
MinPassRate = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Gate: exit with 3 unless this share of all items is accepted."),
]
FailOnRegression = Annotated[
    bool,
    typer.Option("--fail-on-regression", help="Gate: exit with 3 if the run is significantly worse than the baseline."),
]


def show_page(
    noun: str, page: Sequence[Any], cursor: str | None, show: Callable[[Any], None], none_yet: str, *, as_json: bool
) -> None:
    """Print one page of a list: as JSON, or as a table with the command for the next page."""
    if as_json:
        output.write_json({"data": [each.model_dump(mode="json") for each in page], "next_cursor": cursor})
        return
    if page:
        show(page)
    else:
        output.say(none_yet)
    if cursor:
        output.say(f"There are more: redraft {noun} list --after {cursor}", "dim")


def mapping_of(values: Sequence[str] | None) -> dict[str, str]:
    """By field, the column that fills it."""
    return dict(_pair(each, "--map", "FIELD=COLUMN") for each in values or ())


def overrides_of(values: Sequence[str] | None) -> dict[str, Any]:
    """Fields by what `--set` says, nested as in a request, each value of its field's type."""
    found: dict[str, Any] = {}
    for each in values or ():
        field, text = _pair(each, "--set", "FIELD=VALUE")
        put(found, _parts(field), _value(field, text))
    return found


def defaults_of(file: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a file, over them those of the options, by dotted name; None = not given."""
    found = read_object(file, "--defaults") if file else {}
    for field, value in options.items():
        if value is not None:
            put(found, field.split("."), value)
    return found


def file_format_of(text: str | None) -> "Format | None":
    """The format that an option names."""
    from redraft.datasets.formats import FORMATS

    if text is not None and text not in FORMATS:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(FORMATS)}.", param_hint="--file-format")
    return text


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.strip()):
        raise typer.BadParameter(f"{text!r} is not {form}.", param_hint=option)
    return name.strip(), value


def _parts(field: str) -> list[str]:
    """Labels and variables may have points in their names."""
    from redraft.datasets.fields import OPEN

    head, _, tail = field.partition(".")
    return [head, tail] if head in OPEN and tail else field.split(".")


def _value(field: str, text: str) -> Any:
    from redraft.datasets.columns import no_field
    from redraft.datasets.fields import kind_of, read_cell

    kind = kind_of(field)
    if kind is None:
        raise typer.BadParameter(no_field(field), param_hint="--set")
    try:
        return read_cell(text, kind)
    except ValueError as error:
        raise typer.BadParameter(f"{field} {error}.", param_hint="--set") from error
