"""Builds the report of `datasets check`: the jobs of a run over a file, and their highest possible cost."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from redraft.datasets.columns import suggestion
from redraft.datasets.formats import Format
from redraft.datasets.items import Item, ItemRequest, Merger
from redraft.datasets.rows import BadRow, Row, RowReader
from redraft.domain.bulk.phrases import grouped_lines
from redraft.domain.jobs.attachments import Attachment
from redraft.domain.jobs.requests import dump
from redraft.errors import FieldError, Invalid

SAMPLES = 3
ERRORS_SHOWN = 20
_LACKS = frozenset({"missing", "nothing_to_evaluate_by"})


@dataclass(frozen=True, slots=True)
class Cost:
    """The highest possible cost of a request in USD, or None if it is unknown, as for a model without a price."""

    usd: Decimal | None
    unpriced_models: tuple[str, ...] = ()


# Functions that return the highest possible number of model calls of a request, and its highest possible cost
CallsOf = Callable[[ItemRequest], int]
CostOf = Callable[[ItemRequest], Cost]


@dataclass(frozen=True, slots=True)
class UnusedColumn:
    """A column that fills no field. `meant` is a field with a similar name, or None."""

    name: str
    rows: int
    meant: str | None


@dataclass(slots=True)
class Report:
    """The result of a check, which reads a dataset in the same way as a run.

    Attributes:
        kinds: the number of jobs of each kind.
        mapping: the column that fills each field.
        never_seen: the mapped columns that no row has.
        samples: the first valid rows as complete requests.
        duplicates: the number of rows that have the id of an earlier row.
        blank: the number of rows with an empty column, by field.
        literal: the number of rows that have template braces but no `vars`. The braces are sent unchanged.
        calls_max: the highest possible number of model calls without retries.
        cost_max_usd: the highest possible cost of these calls; None if a price is unknown.
    """

    format: Format
    delimiter: str | None
    digest: str = ""
    rows: int = 0
    good: int = 0
    bad: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    mapping: Mapping[str, str] = field(default_factory=dict[str, str])
    never_seen: list[str] = field(default_factory=list[str])
    unused: list[UnusedColumn] = field(default_factory=list[UnusedColumn])
    samples: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    duplicates: int = 0
    blank: Mapping[str, int] = field(default_factory=dict[str, int])
    literal: int = 0
    errors: list[BadRow] = field(default_factory=list[BadRow])
    calls_max: int = 0
    cost_max_usd: Decimal | None = Decimal(0)
    unpriced_models: list[str] = field(default_factory=list[str])

    def add(self, item: Item, calls: int, cost: Cost) -> None:
        self.good += 1
        self.kinds[item.kind.value] += 1
        self.calls_max += calls
        self.cost_max_usd = None if self.cost_max_usd is None or cost.usd is None else self.cost_max_usd + cost.usd
        self.unpriced_models = sorted({*self.unpriced_models, *cost.unpriced_models})
        if len(self.samples) < SAMPLES:
            own = {"line": item.line, "custom_id": item.custom_id, "kind": item.kind.value}
            # The data of files can have megabytes, so the sample omits them
            files = [each.stored if isinstance(each, Attachment) else each for each in item.request.attachments]
            self.samples.append({**own, **dump(item.request.model_copy(update={"attachments": files}))})


def no_good_rows(bad: Sequence[BadRow]) -> Invalid:
    """Return the error of a file without a valid row: the fields that all rows lack, or the errors by line."""
    lacks = (error for error in bad[0].errors if error.code in _LACKS and error.pointer.count("/") == 1)
    lacking = [error for error in lacks if all(error in each.errors for each in bad)]
    errors = [
        replace(error, pointer=f"/defaults{error.pointer}", detail=f"No row can be used: {_without_field(error)}")
        for error in lacking
    ]
    if not lacking:
        by_detail = {error.detail: error for row in reversed(bad) for error in reversed(row.errors)}
        found = grouped_lines((row.line, error.detail) for row in bad for error in row.errors)
        errors = [replace(by_detail[detail], detail=f"{lines.capitalize()}: {detail}") for lines, detail in found]
    words = errors[0].detail if lacking else f"No row can be used. {errors[0].detail}"
    return Invalid(words, tuple(errors), code="no_good_rows")


def _without_field(error: FieldError) -> str:
    """Return the detail of an error without the name of the field, which the pointer has."""
    return error.detail.removeprefix(f"{error.pointer[1:]}: ")


def check(reader: RowReader, merger: Merger, *, calls_of: CallsOf, cost_of: CostOf) -> Report:
    """Read a dataset once, and report the jobs of a run over it. The report has the first invalid rows.

    Raises Invalid if the file as a whole is not readable, or has no rows.
    """
    report = Report(reader.format, reader.delimiter)
    for row in reader:
        item = row
        if isinstance(row, Row):
            report.literal += merger.takes_literally(row)
            item = merger.item(row)
        if isinstance(item, Item):
            report.add(item, calls_of(item.request), cost_of(item.request))
        elif isinstance(item, BadRow) and len(report.errors) < ERRORS_SHOWN:
            report.errors.append(item)
    columns = reader.columns
    report.digest, report.rows, report.duplicates = reader.digest, reader.seen, reader.duplicates
    report.bad = report.rows - report.good
    report.mapping, report.never_seen, report.blank = columns.used, columns.never_seen(), columns.blank
    report.unused = [UnusedColumn(name, count, suggestion(name)) for name, count in columns.unused.items()]
    return report
