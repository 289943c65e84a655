"""Checks the rows of a file as a run would read them. Nothing is stored, and no model is called."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from pydantic import Field

from redraft.datasets.formats import Format
from redraft.datasets.items import Merger
from redraft.datasets.reports import Report, UnusedColumn, check
from redraft.datasets.rows import RowReader
from redraft.domain.bodies.fields import As
from redraft.domain.jobs.requests import AnyRequest, JobFields
from redraft.domain.jobs.states import JobKind
from redraft.errors import Invalid
from redraft.operations.bulk.datasets import attached_files
from redraft.operations.bulk.deliveries import check_batches
from redraft.operations.jobs.cost_estimates import calls_max, cost_max
from redraft.operations.jobs.submit import normalise
from redraft.operations.resource_base import NANO, Resource, RowError, cost_usd
from redraft.operations.services import Services


class BadRowReport(Resource):
    """A row that cannot become a job."""

    line: int
    last_line: int
    custom_id: str | None
    errors: list[RowError]


class SampleRow(JobFields):
    """A row as a normalised request."""

    line: int = Field(description="The line of the file where the row begins.")
    custom_id: str
    kind: JobKind
    answer: str = Field(description="The answer to evaluate, if the row has an answer.")


class DatasetCheck(Resource):
    """The result of a check: the rows of a file as a run would read them."""

    format: str
    delimiter: str | None
    version: str
    rows: int = Field(description="The number of good and bad rows.")
    good: int
    bad: int
    kinds: dict[str, int] = Field(description="The number of good rows for each kind of job.")
    mapping: dict[str, str] = Field(description="The column that fills each field.")
    never_seen: list[str] = Field(description="Columns that the mapping names and no row has.")
    unused: list[UnusedColumn]
    samples: Annotated[list[dict[str, Any]], As(list[SampleRow])] = Field(
        description="The first good rows as normalised requests."
    )
    duplicates: int = Field(description="Bad rows that have the custom_id of an earlier row.")
    blank: dict[str, int] = Field(description="By field, the number of rows in which the column of the field is empty.")
    literal: int = Field(description="Rows that look like templates and have no vars.")
    errors: list[BadRowReport] = Field(description="The first bad rows.")
    calls_max: int = Field(description="The maximum of model calls, without retries after failures.")
    cost_max_usd: str | None = Field(
        description="The maximum cost of these calls, with 8192 output tokens for a call without an output limit; "
        "null if a price is unknown."
    )
    unpriced_models: list[str] = Field(description="Models without a known price; REDRAFT_PRICES sets prices.")


def check_dataset(  # noqa: PLR0913 - one parameter per option
    services: Services,
    stream: BinaryIO,
    name: str = "",
    *,
    file_format: Format | None = None,
    mapping: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    delivery: str = "live",
) -> Report:
    """Read a file once, as a run with these defaults and overrides would read it.

    Files that rows attach by a path are read from `folder`; without a folder, rows with such a path are bad. With the
    delivery `batch`, the cost is computed with the prices of batches.

    Raises Invalid if the file cannot be read, the defaults or overrides are not valid, or the delivery is `batch` and a
    model has no batch endpoint.
    """
    is_batch = delivery == "batch"
    merger = Merger(defaults, overrides)
    attached = attached_files(services, folder)
    reader = RowReader(stream, name, file_format=file_format, mapping=mapping, attached=attached)

    def calls_of(request: AnyRequest) -> int:
        if is_batch:
            _ensure_batches(services, request)
        return calls_max(services, request).total

    return check(reader, merger, calls_of=calls_of, cost_of=partial(cost_max, services, is_batch=is_batch))


def _ensure_batches(services: Services, request: AnyRequest) -> None:
    """Raise Invalid if a model has no batch endpoint."""
    try:
        normal = normalise(services, request, is_row=True)
    except Invalid:  # The cost of this request is unknown, as in a live run
        return
    check_batches(services, normal)


def check_resource(report: Report) -> DatasetCheck:
    known = {**asdict(report), "kinds": dict(report.kinds), "blank": dict(report.blank)}
    cost = report.cost_max_usd
    known |= {"version": known.pop("digest"), "cost_max_usd": None if cost is None else cost_usd(int(cost * NANO))}
    return DatasetCheck.model_validate(known)
