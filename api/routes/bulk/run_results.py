"""What a bulk run has come to: its items, its results as a file, its report, a comparison."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from api.dependencies import Context, ContextOf, ServicesOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.downloads import disposition, stem_of
from api.http.parameters import Position
from api.http.responses import render
from redraft.datasets.results import csv_lines, jsonl_lines
from redraft.domain.bulk.comparison import Comparison
from redraft.domain.bulk.run_facts import RunReport
from redraft.operations.bulk import run_results, runs
from redraft.operations.bulk.report_tables import comparison_tables, run_tables
from redraft.operations.bulk.run_results import METADATA_COLUMNS_MAX, RESULT_COLUMNS
from redraft.reports.formats import COMPARISON_FORMATS, FORMATS, Format

Tables = TypeVar("Tables")

router = APIRouter(prefix="/v1/runs/{run_id}", tags=["bulk"], route_class=StrictRoute)

ItemStatus = Literal["queued", "running", "succeeded", "failed", "canceled", "invalid"]

_LINES_AT_ONCE = 100
_MEDIA_TYPES = {"jsonl": "application/x-ndjson", "csv": "text/csv"}
_COLUMNS = f"""One line per item, in the dataset's order, with {", ".join(RESULT_COLUMNS)}; in CSV a column
`metadata.NAME` for each name in the metadata, unless there are more than {METADATA_COLUMNS_MAX} of them."""


# A page in one file: its own styles and nothing else
_PAGE = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"


def _written_as(words: str, formats: Mapping[str, Format[Any]]) -> dict[str, Any]:
    """How an answer in several formats is described; that of JSON is the route's model."""
    plain = {each.media_type.partition(";")[0]: {"schema": {"type": "string"}} for each in formats.values()}
    return {"description": words, "content": {**plain, "application/json": {}}}


class RunItem(BaseModel):
    """One row of the dataset in one of its repeats, and what it has come to."""

    number: int
    custom_id: str
    repeat: int
    line: int
    status: ItemStatus
    stop_reason: str | None
    success: bool | None = Field(description="Whether it was accepted; null before the end, or without a verdict.")
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
    output_tokens: int
    cost_usd: str | None
    seconds: float | None
    human_score: float | None
    human_pass: bool | None
    evaluation_reasoning: str | None = Field(description="Of the returned answer, as the next.")
    improvement_suggestions: list[str] | None
    error_code: str | None
    error: str | None
    instruct: str | None = Field(description="What the row says, where there is no job; so the next two.")
    reference: str | None
    metadata: dict[str, str]
    job_id: str | None


class RunItemPage(BaseModel):
    """Items in order; `next_cursor` is the next page's `after`, null on the last."""

    data: list[RunItem]
    next_cursor: str | None


@router.get("/items", response_model=RunItemPage, responses=answers(404, 422))
def list_run_items(
    services: ServicesOf,
    run_id: str,
    status: Annotated[list[ItemStatus], Query(max_length=6, description="Repeat it for several.")] = [],  # noqa: B006
    after: Annotated[Position | None, Query(description="`next_cursor` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Items with their results so far."""
    found = run_results.list_items(services, run_id, after=after or 0, limit=limit + 1, statuses=status)
    page = [RunItem.model_validate(each) for each in found[:limit]]
    return render(RunItemPage(data=page, next_cursor=str(page[-1].number) if len(found) > limit else None))


@router.get(
    "/results",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": _COLUMNS,
            "content": {media_type: {"schema": {"type": "string"}} for media_type in _MEDIA_TYPES.values()},
        },
        **answers(404, 422),
    },
)
def export_run_results(
    services: ServicesOf,
    run_id: str,
    format: Annotated[  # noqa: A002 - so it is called in the address
        Literal["jsonl", "csv"], Query(description="csv: no cell is one that a spreadsheet computes.")
    ] = "jsonl",
    bom: Annotated[  # noqa: FBT002 - a query parameter
        bool, Query(description="Begin CSV with the byte order mark by which Excel knows UTF-8.")
    ] = False,
) -> Response:
    """All results as a file, also while the run goes on: items that have not ended have no answer yet."""
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


@router.get(
    "/report",
    response_model=RunReport,
    responses={
        200: _written_as("All figures, and with them `object`, `run` and `gates`.", FORMATS),
        **answers(404, 422),
    },
)
async def get_run_report(
    context: ContextOf,
    run_id: str,
    format: Annotated[Literal["json", "html", "markdown", "junit", "text"], Query()] = "json",  # noqa: A002
) -> Response:
    """All figures of a run, as far as it has come; null where one cannot be told."""
    tables = await to_thread.run_sync(run_tables, context.services, run_id, limiter=context.reports)
    return await _written(context, FORMATS[format], tables, _File(tables.facts.name, run_id, "report"))


@router.get(
    "/compare",
    response_model=Comparison,
    responses={
        200: _written_as("The comparison, and with it `object`, `baseline`, `new` and `gates`.", COMPARISON_FORMATS),
        **answers(404, 422),
    },
)
async def compare_runs(
    context: ContextOf,
    run_id: str,
    baseline: Annotated[str, Query(max_length=40, description="The id of the run to compare with.")],
    format: Annotated[Literal["json", "html", "markdown", "text"], Query()] = "json",  # noqa: A002
) -> Response:
    """This run beside a baseline, row by row: differences are this run less the baseline."""
    given = (context.services, baseline, run_id)
    tables = await to_thread.run_sync(comparison_tables, *given, limiter=context.reports)
    return await _written(context, COMPARISON_FORMATS[format], tables, _File(tables.new.name, run_id, "comparison"))


class _File(NamedTuple):
    """What a report is saved as: its run, and what it is of it."""

    run_name: str
    run_id: str
    what: str

    def disposition(self, suffix: str) -> str:
        return disposition(stem_of(self.run_name), self.run_id, f" {self.what}{suffix}", kind="inline")


async def _written(context: Context, written: Format[Tables], tables: Tables, file: _File) -> Response:
    text = await to_thread.run_sync(written.render, tables, limiter=context.reports)
    headers = {"Content-Disposition": file.disposition(written.suffix)}
    if written.suffix == ".html":
        headers["Content-Security-Policy"] = _PAGE
    return Response(text, headers=headers, media_type=written.media_type)
