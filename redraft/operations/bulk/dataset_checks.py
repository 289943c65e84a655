"""What a dataset would be as a run, before anything is stored or paid for."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, BinaryIO

from pydantic import Field
from pydantic_core import to_json

from redraft.datasets.formats import Format
from redraft.datasets.items import ItemRequest, Merger
from redraft.datasets.reports import Cost, Report, check
from redraft.datasets.rows import RowReader
from redraft.domain.bodies.fields import As
from redraft.domain.calls.models import parse_model
from redraft.domain.evaluation.aggregation import groups_of
from redraft.domain.jobs.requests import AnyRequest, GenerateAnswer, JobFields, dump, ladder
from redraft.domain.jobs.states import JobKind
from redraft.errors import Invalid
from redraft.operations.calls.budgets import BYTES_PER_TOKEN, OUTPUT_BOUND
from redraft.operations.jobs import submit
from redraft.operations.jobs.request_views import judges_of, schema_of
from redraft.operations.services import Services
from redraft.operations.shapes import Resource, RowFlaw, cost_usd
from redraft.providers.shared.protocol import Usage

_NANO = Decimal(10) ** 9
_WORDS_OF_OURS = 4000
"""Tokens of a prompt beside what the request brings and what models wrote: the templates and the reply's schema."""


class UnusedColumn(Resource):
    """A column that fills no field."""

    name: str
    rows: int
    meant: str | None = Field(description="The field that it may have been meant for.")


class UnfitRow(Resource):
    """A row that cannot become a job."""

    line: int
    last_line: int
    custom_id: str | None
    errors: list[RowFlaw]


class SampleRow(JobFields):
    """A row as a normal request."""

    custom_id: str
    kind: JobKind
    answer: str = Field(description="Of a row whose answer is judged.")


class DatasetCheck(Resource):
    """What a run would make of a file; nothing is stored."""

    format: str
    delimiter: str | None
    version: str
    rows: int = Field(description="Good and bad ones.")
    good: int
    bad: int
    kinds: dict[str, int] = Field(description="How many good rows become jobs of each kind.")
    mapping: dict[str, str] = Field(description="By field, the column that fills it.")
    never_seen: list[str] = Field(description="Columns that the mapping names and no row has.")
    unused: list[UnusedColumn]
    samples: Annotated[list[dict[str, Any]], As(list[SampleRow])] = Field(
        description="The first good rows as normal requests."
    )
    duplicates: int = Field(description="Rows with the id of an earlier one; they are bad.")
    blank: dict[str, int] = Field(description="By field, in how many rows its column is empty.")
    literal: int = Field(description="Rows that look like templates and have no vars.")
    errors: list[UnfitRow] = Field(description="The first bad rows.")
    calls_max: int = Field(description="The most model calls that it can take, retries after failures aside.")
    cost_max_usd: str | None = Field(
        description="What they can cost at most, a call without an output limit counted with 8192 tokens; "
        "null when a price is unknown."
    )
    unpriced_models: list[str] = Field(description="Those of which no price is known: REDRAFT_PRICES sets it.")


def check_dataset(
    services: Services,
    stream: BinaryIO,
    name: str = "",
    *,
    file_format: Format | None = None,
    mapping: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Report:
    """Go through a file once, as a run with these defaults and overrides would.

    Raises:
        Invalid: the file as a whole cannot be read, or the defaults or overrides cannot be used.
    """
    merger = Merger(defaults, overrides)
    reader = RowReader(stream, name, file_format=file_format, mapping=mapping)
    return check(reader, merger, calls_of=partial(submit.calls_max, services), cost_of=partial(cost_max, services))


def check_resource(report: Report) -> DatasetCheck:
    known = {**asdict(report), "kinds": dict(report.kinds), "blank": dict(report.blank)}
    cost = report.cost_max_usd
    known |= {"version": known.pop("digest"), "cost_max_usd": None if cost is None else cost_usd(int(cost * _NANO))}
    return DatasetCheck.model_validate(known)


def cost_max(services: Services, request: ItemRequest) -> Cost:
    """The most that a request can cost, retries after failures aside.

    As many calls as `submit.calls_max` counts, each with the longest prompt and reply that its limits allow. Models of
    which no price is known, or that cannot be called here, have no bound.
    """
    try:
        normal = submit.normalise(services, request)
    except Invalid:
        return Cost(None)
    prices = [(each[0], _price(services, *each)) for each in _worst_calls(services, normal)]
    known = [price for _, price in prices if price is not None]
    if len(known) == len(prices):
        return Cost(sum(known, Decimal(0)))
    return Cost(None, tuple(dict.fromkeys(model for model, price in prices if price is None)))


def dearest_call(services: Services, request: ItemRequest) -> Decimal:
    """The most that a single call of a request can cost, in USD; 0 when that cannot be told."""
    try:
        normal = submit.normalise(services, request)
    except Invalid:
        return Decimal(0)
    return max(_price(services, model, usage, 1) or Decimal(0) for model, usage, _ in _worst_calls(services, normal))


def _price(services: Services, model: str, usage: Usage, times: int) -> Decimal | None:
    nano = services.providers.price(parse_model(model), usage)
    return None if nano is None else Decimal(nano) * times / _NANO


def _worst_calls(services: Services, request: AnyRequest) -> list[tuple[str, Usage, int]]:
    """Whom a normal request asks, with how many tokens at most, and how often."""
    given = _tokens(dump(request)) + _tokens(_told_twice(request)) + _WORDS_OF_OURS
    said = services.settings.evaluator_max_output_tokens
    groups = len(groups_of(request.rubric, services.settings.criteria_per_call))
    answers, rounds = 1, 1
    written = 0
    found: list[tuple[str, Usage, int]] = []
    if isinstance(request, GenerateAnswer):
        written = request.sampling.max_output_tokens or OUTPUT_BOUND
        answers, rounds = request.iter_max * request.candidates, 2
        # An earlier answer and what all judges said of it, or one that did not fit its schema
        heard = written + 2 * said * groups * len(judges_of(request)) * request.evaluation.samples
        found += _writing(request, Usage(input_tokens=given + heard, output_tokens=written))
    times = groups * request.evaluation.samples * answers
    for judge in judges_of(request):
        found += _judging(judge, given + written, said, times)
    if request.evaluation.audit:
        found += _judging(request.evaluation.audit, given + written, said, groups * rounds)
    return found


def _tokens(value: Any) -> int:
    return len(to_json(value)) // BYTES_PER_TOKEN


def _told_twice(request: AnyRequest) -> dict[str, Any]:
    """In the prompt, and in the schema that goes with it."""
    return {**dump(request.model_copy(update={"sources": []})), "schema": schema_of(request)}


def _writing(request: GenerateAnswer, usage: Usage) -> list[tuple[str, Usage, int]]:
    models: Sequence[str] = ladder(request)
    askings = request.candidates * (2 if schema_of(request) else 1)
    return [(models[min(at, len(models) - 1)], usage, askings) for at in range(request.iter_max)]


def _judging(model: str, tokens: int, said: int, times: int) -> list[tuple[str, Usage, int]]:
    """Each is asked once more if its reply is of no use, for twice as long a one."""
    second = Usage(input_tokens=tokens + said, output_tokens=2 * said)
    return [(model, Usage(input_tokens=tokens, output_tokens=said), times), (model, second, times)]
