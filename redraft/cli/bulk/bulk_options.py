"""Defines the options that the commands for runs and datasets share."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from redraft.cli import options, output
from redraft.cli.files import read_object
from redraft.cli.jobs.request_bodies import put

RunRef = Annotated[
    str, typer.Argument(metavar="RUN", help="The run: its id, a unique prefix of its id, its name, or 'latest'.")
]
DatasetRef = Annotated[
    str,
    typer.Argument(metavar="DATASET", help="The dataset: its id, a unique prefix of its id, its name, or 'latest'."),
]
Mapped = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Read a field from a column with another name, such as instruct=question; repeatable.",
    ),
]
FileFormat = Annotated[
    Literal["jsonl", "json", "csv", "tsv", "parquet"] | None,
    typer.Option(
        metavar="jsonl|json|csv|tsv|parquet", help="Format of the file (default: detected from its name and content)."
    ),
]
DefaultsFile = Annotated[
    str | None,
    typer.Option(
        "--defaults",
        metavar="FILE|JSON",
        help="Request fields for rows that do not set them: a JSON file, or the JSON itself. Options such as --crit "
        "override these values.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Set a request field for all rows, such as iter_max=2 or limits.max_tokens=4000; repeatable.",
    ),
]
Delivery = Annotated[
    Literal["live", "batch", "auto"] | None,
    typer.Option(
        "--delivery",
        metavar="live|batch|auto",
        help="batch: use the batch endpoints of the providers, at half the price; each round of calls may take up to "
        "24 hours. auto: batch for a large run if all its models have such an endpoint (default: live).",
    ),
]
RetryErrors = Annotated[
    bool, typer.Option("--retry-errors", help="Also execute the failed items of the resumed run again.")
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Execute only the failed items again, not the canceled ones.")
]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        dir_okay=False,
        help="Write the results, one line per item, to a .jsonl or .csv file; repeatable.",
    ),
]
Reports = Annotated[
    list[Path] | None,
    typer.Option(
        "--report",
        metavar="FILE",
        dir_okay=False,
        help="Write the report to a .html, .md, .json, .txt or .xml (JUnit) file; repeatable. With --baseline, all but "
        "JUnit contain the comparison.",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="RUN|latest",
        help="Compare the run with this earlier run. 'latest' is the newest earlier run of the same dataset that "
        "succeeded.",
    ),
]
MinPassRate = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Gate: exit with 3 if the share of accepted items is below this value, 0 to 1. `compare` applies it to "
        "the run NEW.",
    ),
]
FailOnRegression = Annotated[
    bool,
    typer.Option("--fail-on-regression", help="Gate: exit with 3 if the run is significantly worse than the baseline."),
]


def show_page(
    noun: str, page: Sequence[Any], cursor: str | None, show: Callable[[Any], None], none_yet: str, *, as_json: bool
) -> None:
    """Print one page of a list as JSON, or as a table that is followed by the command for the next page."""
    if as_json:
        output.write_json({"data": page, "next_cursor": cursor})
        return
    if page:
        show(page)
    else:
        output.say(none_yet)
    if cursor:
        output.say_more(f"redraft {noun} list", cursor)


def mapping_of(values: Sequence[str] | None) -> dict[str, str]:
    """Return the values of --map as a dictionary of fields and the columns that fill them."""
    return dict(options.pair(each, "--map", "FIELD=COLUMN") for each in values or ())


def overrides_of(values: Sequence[str] | None) -> dict[str, Any]:
    """Return the values of --set, nested as in a request, and converted to the types of their fields."""
    found: dict[str, Any] = {}
    for each in values or ():
        field, text = options.pair(each, "--set", "FIELD=VALUE")
        put(found, _path(field), _value(field, text))
    return found


def defaults_of(file: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request fields in a file, overridden by options. None means that an option is not given."""
    found = read_object(file, "--defaults") if file else {}
    for field, value in given.items():
        if value is not None:
            put(found, field.split("."), value)
    return found


def _path(field: str) -> list[str]:
    from redraft.datasets.fields import OPEN

    head, _, tail = field.partition(".")
    # The keys of metadata and variables can contain dots
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
