"""Prints datasets and the results of file checks on stdout, as tables and pages."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from redraft.cli import output
from redraft.cli.output import NONE
from redraft.datasets.columns import shown
from redraft.domain.bulk.phrases import count, format_names, grouped_lines
from redraft.domain.jobs.requests import GenerateAnswer, dump
from redraft.domain.jobs.rubric_lines import write_rubric
from redraft.operations.bulk.dataset_checks import DatasetCheck
from redraft.operations.bulk.datasets import Dataset, DatasetItem


def show_datasets(page: Sequence[Dataset]) -> None:
    output.show_list(
        page,
        {
            "rows": lambda dataset: f"{dataset.rows:,}",
            "bad rows": lambda dataset: f"{dataset.bad_rows:,}",
            "format": lambda dataset: dataset.format,
            "age": lambda dataset: output.age(dataset.created_at),
            "name": lambda dataset: output.one_line(dataset.name, 200),
        },
        ("age", "format"),
    )


def show_dataset(dataset: Dataset) -> None:
    bad = f", {dataset.bad_rows:,} of them bad" if dataset.bad_rows else ""
    facts = [
        ("dataset", dataset.id),
        ("name", output.one_line(dataset.name, 200)),
        ("rows", f"{dataset.rows:,}{bad}"),
        ("format", dataset.format),
        ("version", dataset.version),
        ("fields", _columns(dataset.columns["used"])),
        ("unused columns", ", ".join(map(shown, dataset.columns["unused"]))),
        ("stored", f"{output.age(dataset.created_at)} ago"),
    ]
    output.show_facts(facts, 15)


def show_rows(rows: Sequence[DatasetItem]) -> None:
    if not rows:
        return
    output.show("")
    output.show_table(
        rows,
        {
            "line": lambda row: f"{row.line}",
            "custom_id": lambda row: output.one_line(row.custom_id or NONE, 40),
            "": lambda row: Text("bad", style="red") if row.errors else "",
            "row": _row,
        },
    )


def _row(row: DatasetItem) -> str:
    if row.errors:
        return output.one_line(row.errors[0]["detail"], 200)
    return output.one_line(str((row.fields or {}).get("instruct", "")), 200)


def show_check(found: DatasetCheck) -> None:
    delimiter = "tabs" if found.delimiter == "\t" else repr(found.delimiter)
    repeated = f"{count(found.duplicates, 'row')} with the id of an earlier row" if found.duplicates else ""
    braces = f"{count(found.literal, 'row')} with braces and no vars; the braces are sent unchanged"
    facts = [
        ("format", found.format + (f", cells separated by {delimiter}" if found.delimiter else "")),
        ("rows", f"{found.rows:,}: {found.good:,} good, {found.bad:,} bad"),
        ("jobs", ", ".join(f"{number:,} {kind}" for kind, number in found.kinds.items())),
        ("fields", _columns(found.mapping)),
        ("unused columns", "; ".join(_unused(each.name, each.rows, each.meant) for each in found.unused)),
        ("", ways_to_use(found.unused[0].name) if found.unused else ""),
        ("missing columns", ", ".join(map(shown, found.never_seen))),
        ("duplicates", repeated),
        ("empty", ", ".join(f"{field} in {count(rows, 'row')}" for field, rows in found.blank.items())),
        ("templates", braces if found.literal else ""),
        ("calls", f"at most {found.calls_max:,}, without retries after failures"),
        ("cost", _cost(found)),
    ]
    output.show_facts(facts, 15)
    for sample in found.samples:
        output.show_section(f"Line {sample['line']} as a request", _sample(sample))
    # If no row is good, the command ends with these errors
    if found.errors and found.good:
        more = f", the first {len(found.errors)}" if found.bad > len(found.errors) else ""
        errors = grouped_lines((row.line, field_error.detail) for row in found.errors for field_error in row.errors)
        lines = [(f"  {places}: {output.one_line(detail)}", "") for places, detail in errors]
        output.show_section(f"Rows that cannot be used{more}", lines)


def _cost(found: DatasetCheck) -> str:
    if found.cost_max_usd is not None:
        return f"at most ${found.cost_max_usd}"
    if found.unpriced_models:
        return f"unknown: the price of {format_names(found.unpriced_models)} is unknown; set it in REDRAFT_PRICES"
    return "unknown, because a model that rows name is not configured"


def _columns(used: Mapping[str, str]) -> str:
    return ", ".join(field if field == column else f"{field} = {shown(column)}" for field, column in used.items())


def _unused(name: str, rows: int, meant: str | None) -> str:
    words = f"{shown(name)} in {count(rows, 'row')}"
    return f"{words} (if it contains {meant}: --map {meant}={name})" if meant else words


def ways_to_use(column: str) -> str:
    """Return options that map an unused column."""
    fill, keep = (shlex.quote(f"{target}={column}") for target in ("FIELD", f"metadata.{column}"))
    return output.one_line(f"To fill a field: --map {fill}. To keep the column in the results: --map {keep}")


def _sample(sample: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields that the row or the run sets, except fields with their default value."""
    usual = dump(GenerateAnswer(instruct="-", eval_crit="-"))
    for field, value in sample.items():
        if field == "line" or value is None or value == usual.get(field):
            continue
        if field == "rubric":
            yield "  rubric (! required, #id, *weight):", ""
            yield from ((f"    {output.one_line(line, 160)}", "") for line in write_rubric(value).splitlines())
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"  {field}: {output.one_line(text, 160)}", ""
