"""The report of `datasets check`: what a run would do with a file and cost at most."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from redraft.datasets.columns import suggestion
from redraft.datasets.formats import Format
from redraft.datasets.items import Item, ItemRequest, Merger
from redraft.datasets.rows import BadRow, Row, RowReader
from redraft.domain.jobs.requests import dump
from redraft.errors import FieldError, Invalid

SAMPLES = 3
ERRORS_SHOWN = 20
_LACKS = frozenset({"missing", "nothing_to_evaluate_by"})


@dataclass(frozen=True, slots=True)
class Cost:
    """The most that something can cost, in USD; None when it cannot be told, as when models have no known price."""

    usd: Decimal | None
    unpriced_models: tuple[str, ...] = ()


CallsOf = Callable[[ItemRequest], int]
CostOf = Callable[[ItemRequest], Cost]


@dataclass(frozen=True, slots=True)
class UnusedColumn:
    """A column that fills no field; `meant` is the field that it may have been meant for."""

    name: str
    rows: int
    meant: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """A dataset as a run would see it.

    Attributes:
        format: as given or found out; `delimiter` is a table's.
        digest: the dataset's version.
        rows: how many there are: the good and the bad ones.
        kinds: how many good rows become jobs of each kind.
        mapping: by field, the column that fills it.
        never_seen: columns that the mapping names and no row has.
        unused: columns that are kept aside.
        samples: the first good rows as normal requests.
        duplicates: rows with an id that was there before; they are among the bad ones.
        blank: by field, in how many rows its column is there and empty.
        literal: rows that look like templates and have no `vars`: their braces are sent as they are.
        errors: the first bad rows.
        calls_max: the most model calls that the good rows can take, retries aside.
        cost_max_usd: what they can cost at most; None when any price is unknown.
        unpriced_models: those of which no price is known.
    """

    format: Format
    delimiter: str | None
    digest: str
    rows: int
    good: int
    bad: int
    kinds: Mapping[str, int]
    mapping: Mapping[str, str]
    never_seen: list[str]
    unused: list[UnusedColumn]
    samples: list[dict[str, Any]]
    duplicates: int
    blank: Mapping[str, int]
    literal: int
    errors: list[BadRow]
    calls_max: int
    cost_max_usd: Decimal | None
    unpriced_models: list[str]

    def check_usable(self) -> None:
        """See to it that there is something to run.

        Raises:
            Invalid: no row is good (code `no_good_rows`); its errors tell of the first ones.
        """
        if not self.good:
            raise no_good_rows(self.errors)


def no_good_rows(bad: Sequence[BadRow]) -> Invalid:
    """The error for a file without a good row: the fields that all rows lack, else the errors by line."""
    lacking = [error for error in bad[0].errors if _is_lack(error) and all(error in each.errors for each in bad)]
    errors = [
        replace(error, pointer=f"/defaults{error.pointer}", detail=f"No row can be used: {_without_field(error)}")
        for error in lacking
    ] or [replace(error, detail=f"Line {row.line}: {error.detail}") for row in bad for error in row.errors]
    words = errors[0].detail if lacking else f"No row can be used. {errors[0].detail}"
    return Invalid(words, tuple(errors), code="no_good_rows")


def _without_field(error: FieldError) -> str:
    """The detail without the field's name: the pointer names it."""
    return error.detail.removeprefix(f"{error.pointer[1:]}: ")


def _is_lack(error: FieldError) -> bool:
    return error.code in _LACKS and error.pointer.count("/") == 1


@dataclass(slots=True)
class _Tally:
    calls_of: CallsOf
    cost_of: CostOf
    errors_max: int
    kinds: Counter[str] = field(default_factory=Counter[str])
    samples: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    errors: list[BadRow] = field(default_factory=list[BadRow])
    calls: int = 0
    cost: Decimal | None = Decimal(0)
    unpriced: set[str] = field(default_factory=set[str])
    literal: int = 0

    def add(self, item: Item | BadRow) -> None:
        if isinstance(item, BadRow):
            if len(self.errors) < self.errors_max:
                self.errors.append(item)
            return
        self.kinds[item.kind.value] += 1
        self.calls += self.calls_of(item.request)
        cost = self.cost_of(item.request)
        self.cost = None if self.cost is None or cost.usd is None else self.cost + cost.usd
        self.unpriced.update(cost.unpriced_models)
        if len(self.samples) < SAMPLES:
            self.samples.append(self._sample(item))

    @staticmethod
    def _sample(item: Item) -> dict[str, Any]:
        return {"line": item.line, "custom_id": item.custom_id, "kind": item.kind.value, **dump(item.request)}


def check(
    reader: RowReader, merger: Merger, *, calls_of: CallsOf, cost_of: CostOf, errors_max: int = ERRORS_SHOWN
) -> Report:
    """Go through a dataset once and tell what a run would make of it.

    Args:
        reader: the file, not yet gone through.
        merger: the run's defaults and overrides.
        calls_of: the most model calls that one request can take.
        cost_of: the most that one request can cost.
        errors_max: of so many bad rows the report tells; at least one.

    Raises:
        Invalid: the file as a whole cannot be read, or holds no rows.
    """
    tally = _Tally(calls_of, cost_of, max(1, errors_max))
    for row in reader:
        if isinstance(row, Row):
            tally.literal += merger.takes_literally(row)
            tally.add(merger.item(row))
        else:
            tally.add(row)
    columns = reader.columns
    good = tally.kinds.total()
    return Report(
        format=reader.format,
        delimiter=reader.delimiter,
        digest=reader.digest,
        rows=reader.seen,
        good=good,
        bad=reader.seen - good,
        kinds=tally.kinds,
        mapping=columns.used,
        never_seen=columns.never_seen(),
        unused=[UnusedColumn(name, count, suggestion(name)) for name, count in columns.unused.items()],
        samples=tally.samples,
        duplicates=reader.duplicates,
        blank=columns.blank,
        literal=tally.literal,
        errors=tally.errors,
        calls_max=tally.calls,
        cost_max_usd=tally.cost,
        unpriced_models=sorted(tally.unpriced),
    )
