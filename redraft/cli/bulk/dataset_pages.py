"""Prints datasets and checked files, as tables and pages on stdout."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from redraft.cli import output
from redraft.datasets.columns import shown
from redraft.domain.bulk.phrases import count, say_names
from redraft.domain.jobs.requests import GenerateAnswer, dump
from redraft.operations.bulk.dataset_checks import DatasetCheck
from redraft.operations.bulk.datasets import Dataset, DatasetItem

NONE = "-"
_LABEL_WIDTH = 14


def show_datasets(page: Sequence[Dataset]) -> None:
    """One line per dataset."""
    ids = output.short_ids([dataset.id for dataset in page])
    rows = [
        (
            short,
            f"{dataset.rows:,}",
            f"{dataset.bad_rows:,}",
            dataset.format,
            output.age(dataset.created_at),
            output.one_line(dataset.name, 200),
        )
        for short, dataset in zip(ids, page, strict=True)
    ]
    output.show_table(("id", "rows", "bad rows", "format", "age", "name"), rows, ("age", "format"))


def show_dataset(dataset: Dataset) -> None:
    """A dataset's facts, one on a line."""
    _fact("dataset", dataset.id)
    _fact("name", output.one_line(dataset.name, 200))
    _fact("rows", f"{dataset.rows:,}" + (f", {dataset.bad_rows:,} of them bad" if dataset.bad_rows else ""))
    _fact("format", dataset.format)
    _fact("version", dataset.version)
    _columns(dataset.columns["used"])
    _fact("unused columns", ", ".join(map(shown, dataset.columns["unused"])))
    _fact("stored", f"{output.age(dataset.created_at)} ago")


def show_rows(rows: Sequence[DatasetItem]) -> None:
    """One line per row; what is wrong with a bad one."""
    if not rows:
        return
    cells = [
        (
            f"{row.line}",
            output.one_line(row.custom_id or NONE, 40),
            Text("bad", style="red") if row.errors else "",
            _row(row),
        )
        for row in rows
    ]
    output.show("")
    output.show_table(("line", "custom_id", "", "row"), cells)


def _row(row: DatasetItem) -> str:
    if row.errors:
        return output.one_line(row.errors[0]["detail"], 200)
    return output.one_line(str((row.fields or {}).get("instruct", "")), 200)


def show_check(found: DatasetCheck) -> None:
    """Print the result of `datasets check`."""
    cells = f", cells apart by {_delimiter(found.delimiter)}" if found.delimiter else ""
    _fact("format", f"{found.format}{cells}")
    _fact("rows", f"{found.rows:,}: {found.good:,} good, {found.bad:,} bad")
    _fact("jobs", ", ".join(f"{number:,} {kind}" for kind, number in found.kinds.items()))
    _columns(found.mapping)
    _fact("unused columns", "; ".join(_unused(each.name, each.rows, each.meant) for each in found.unused))
    _fact("never seen", ", ".join(map(shown, found.never_seen)))
    _fact(
        "duplicates", f"{count(found.duplicates, 'row')} with an id that was there before" if found.duplicates else ""
    )
    _fact("empty", ", ".join(f"{field} in {count(rows, 'row')}" for field, rows in found.blank.items()))
    if found.literal:
        _fact("templates", f"{count(found.literal, 'row')} with braces and no vars: the braces are sent as they are")
    _fact("calls", f"at most {found.calls_max:,}, retries after failures aside")
    _fact("cost", _cost(found))
    for sample in found.samples:
        _section(f"Line {sample['line']} as a request", _sample(sample))
    if found.errors:
        more = f", the first {len(found.errors)}" if found.bad > len(found.errors) else ""
        _section(f"Rows that cannot be used{more}", _field_errors(found))


def _cost(found: DatasetCheck) -> str:
    if found.cost_max_usd is not None:
        return f"at most ${found.cost_max_usd}"
    if found.unpriced_models:
        return f"unknown: no price is known of {say_names(found.unpriced_models)}; REDRAFT_PRICES sets it"
    return "unknown: a model that rows name cannot be called from here"


def _columns(used: Mapping[str, str]) -> None:
    renamed = [field if field == column else f"{field} = {shown(column)}" for field, column in used.items()]
    _fact("fields", ", ".join(renamed))


def _unused(name: str, rows: int, meant: str | None) -> str:
    words = f"{shown(name)} in {count(rows, 'row')}"
    return f"{words} (if it is {meant}: --map {meant}={name})" if meant else words


def _sample(sample: Mapping[str, Any]) -> Iterator[str]:
    """The fields that the row or the run sets; defaults of every request are left out."""
    usual = dump(GenerateAnswer(instruct="-", eval_crit="-"))
    for field, value in sample.items():
        if field != "line" and value is not None and value != usual.get(field):
            yield f"  {field}: {output.one_line(str(value), 160)}"


def _field_errors(found: DatasetCheck) -> Iterator[str]:
    for row in found.errors:
        for error in row.errors:
            yield f"  line {row.line}: {output.one_line(error.detail)}"


def _delimiter(delimiter: str) -> str:
    return "tabs" if delimiter == "\t" else repr(delimiter)


def _fact(name: str, value: str) -> None:
    if value:
        output.show(Text.assemble((f"{name:<{_LABEL_WIDTH}}", "dim"), " ", output.styled(value)))


def _section(title: str, lines: Iterator[str]) -> None:
    output.show("")
    output.show(title, "bold")
    for line in lines:
        output.show(line)
