"""Routes for the results of a bulk run: its items, all results as a file, its report, and a comparison."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from api.dependencies import Context, ContextOf, ServicesOf
from api.http.bodies import StrictRoute
from api.http.downloads import disposition, stem_of
from api.http.parameters import Page, PositionQuery
from api.http.responses import render
from api.http.security_headers import REPORT_POLICY
from redraft.datasets.csv_export import csv_lines, jsonl_lines
from redraft.domain.bulk.comparison import Comparison
from redraft.domain.bulk.examples import Examples
from redraft.domain.bulk.outcomes import ItemOutcome
from redraft.domain.bulk.run_statistics import RunReport
from redraft.operations.bulk import run_results, runs
from redraft.operations.bulk.report_tables import comparison_tables, run_tables
from redraft.operations.bulk.run_results import METADATA_COLUMNS_MAX, RESULT_COLUMNS
from redraft.reports.formats import COMPARISON_FORMATS, FORMATS, Format
from redraft.reports.tables import RunFacts

Tables = TypeVar("Tables")

router = APIRouter(prefix="/v1/runs/{run_id}", tags=["bulk"], route_class=StrictRoute)

ItemStatus = Literal["queued", "running", "succeeded", "failed", "canceled", "invalid"]

# Starlette uses a thread for each block of a response, so a block has many lines
_LINES_AT_ONCE = 100
_MEDIA_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv"}
_COLUMNS = f"""One line per item, in the order of the dataset, with {", ".join(RESULT_COLUMNS)}. CSV also has a column
`metadata.NAME` for each name in the metadata, unless there are more than {METADATA_COLUMNS_MAX} names."""


def _answer_in(formats: Mapping[str, Format[Any]], words: str) -> dict[int | str, dict[str, Any]]:
    plain = {each.media_type.partition(";")[0]: {"schema": {"type": "string"}} for each in formats.values()}
    # FastAPI adds the schema of JSON from the response model of the route
    return {200: {"description": words, "content": {**plain, "application/json": {}}}}


class RunItem(BaseModel):
    """One repetition of a row of the dataset, with its result."""

    number: int
    custom_id: str
    repeat: int
    line: int
    status: ItemStatus
    stop_reason: str | None
    success: bool | None = Field(description="Whether the answer was accepted; null if it was not evaluated.")
    final_score: float | None
    final_answer: str | None
    first_score: float | None
    best_iteration: int | None
    iterations: int
    score_threshold: float | None
    model: str | None
    evaluator_model: str | None
    calls: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: str | None
    seconds: float | None
    human_score: float | None
    human_pass: bool | None
    evaluation_reasoning: str | None = Field(description="The reasoning in the evaluation of the final answer.")
    improvement_suggestions: list[str] | None = Field(
        description="The suggestions in the evaluation of the final answer."
    )
    error_code: str | None
    error: str | None
    instruct: str | None = Field(
        description="From the job, or from the row if there is no job. The same holds for `reference` and `metadata`."
    )
    reference: str | None
    metadata: dict[str, str]
    job_id: str | None


class RunItemPage(Page[RunItem]):
    """Items in the order of the dataset."""


class RunItemQuery(PositionQuery):
    status: list[ItemStatus] = Field([], max_length=6, description="Items with this status. Repeatable.")


@router.get("/items", response_model=RunItemPage)
def list_run_items(services: ServicesOf, run_id: str, query: Annotated[RunItemQuery, Query()]) -> Response:
    """List the items of a run with their results so far."""
    limit, after = query.limit, query.after or 0
    found = run_results.list_items(services, run_id, after=after, limit=limit + 1, statuses=query.status)
    page = [RunItem.model_validate(each) for each in found[:limit]]
    return render(RunItemPage(data=page, next_cursor=str(page[-1].number) if len(found) > limit else None))


@router.get(
    "/results",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": _COLUMNS,
            "content": {media_type: {"schema": {"type": "string"}} for media_type in _MEDIA_TYPES.values()},
        }
    },
)
def export_run_results(
    services: ServicesOf,
    run_id: str,
    format: Annotated[  # noqa: A002 - the name of the query parameter
        Literal["jsonl", "csv"],
        Query(description="In CSV, cells that a spreadsheet would execute as formulas are escaped."),
    ] = "jsonl",
    bom: Annotated[  # noqa: FBT002 - a query parameter
        bool, Query(description="Begin a CSV file with a byte order mark, by which Excel detects UTF-8.")
    ] = False,
) -> Response:
    """Get all results of a run as a file. Items that have not ended have no answer."""
    run = runs.get_run(services, run_id)
    if format == "csv":
        columns, rows = run_results.stream_table(services, run_id)
        lines = csv_lines(rows, columns, bom=bom)
    else:
        lines = jsonl_lines(run_results.stream_results(services, run_id), RESULT_COLUMNS)
    headers = {"Content-Disposition": disposition(stem_of(run.name), run_id, f" results.{format}")}
    return StreamingResponse(_blocks(lines), headers=headers, media_type=_MEDIA_TYPES[format])


def _blocks(lines: Iterator[str]) -> Iterator[str]:
    while block := "".join(islice(lines, _LINES_AT_ONCE)):
        yield block


class RunOutcomes(BaseModel):
    """The facts, the outcomes and the examples of a run, from which its reports and comparisons are computed."""

    run: RunFacts
    items: list[ItemOutcome]
    examples: Examples


@router.get("/outcomes", response_model=RunOutcomes)
async def list_run_outcomes(context: ContextOf, run_id: str) -> Response:
    """List the outcomes of all items. Only the few examples have texts. Costs are exact decimal strings."""
    tables = await to_thread.run_sync(run_tables, context.services, run_id, limiter=context.reports)
    return render(RunOutcomes(run=tables.facts, items=list(tables.items), examples=tables.examples))


@router.get(
    "/report",
    response_model=RunReport,
    responses=_answer_in(FORMATS, "All figures of the report, with `object`, `run`, `gates` and `examples`."),
)
async def get_run_report(
    context: ContextOf,
    run_id: str,
    format: Annotated[Literal["json", "html", "markdown", "junit", "text"], Query()] = "json",  # noqa: A002
) -> Response:
    """Get the report of a run, also while it is in progress. A figure that cannot be computed is null."""
    tables = await to_thread.run_sync(run_tables, context.services, run_id, limiter=context.reports)
    return await _written(context, FORMATS[format], tables, (tables.facts.name, run_id, "report"))


@router.get(
    "/compare",
    response_model=Comparison,
    responses=_answer_in(COMPARISON_FORMATS, "The comparison, with `object`, `baseline`, `new` and `gates`."),
)
async def compare_runs(
    context: ContextOf,
    run_id: str,
    baseline: Annotated[str, Query(max_length=40, description="The id of the run to compare with.")],
    format: Annotated[Literal["json", "html", "markdown", "text"], Query()] = "json",  # noqa: A002
) -> Response:
    """Compare a run with a baseline, row by row. Differences are values of the run minus values of the baseline."""
    tables = await to_thread.run_sync(comparison_tables, context.services, baseline, run_id, limiter=context.reports)
    return await _written(context, COMPARISON_FORMATS[format], tables, (tables.new.name, run_id, "comparison"))


async def _written(context: Context, written: Format[Tables], tables: Tables, name: tuple[str, str, str]) -> Response:
    text = await to_thread.run_sync(written.render, tables, limiter=context.reports)
    run_name, run_id, suffix = name
    file = disposition(stem_of(run_name), run_id, f" {suffix}{written.suffix}", kind="inline")
    headers = {"Content-Disposition": file}
    if written.suffix == ".html":
        headers["Content-Security-Policy"] = REPORT_POLICY
    return Response(text, headers=headers, media_type=written.media_type)
