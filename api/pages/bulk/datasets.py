"""The pages for datasets: the list, a dataset with its rows, and a form to add a dataset."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import islice
from typing import Annotated, Any, Literal, cast, get_args

from anyio import to_thread
from fastapi import Query, Request, Response
from markupsafe import Markup

from api.dependencies import Context, ContextOf, ServicesOf
from api.http.parameters import NUMBER_MAX
from api.pages.bulk.run_forms import filled_rows
from api.pages.parts.forms import Filled, Form, FormOf
from api.pages.parts.rendering import address, page, pages_router, see_other
from api.pages.parts.trend_charts import Column, draw_shares
from api.routes.bulk.datasets import UploadQuery
from redraft.datasets.formats import Format
from redraft.errors import Conflict, Invalid
from redraft.operations.bulk import datasets, deletion, run_listing
from redraft.operations.bulk.datasets import Dataset, DatasetItem
from redraft.operations.bulk.run_listing import RunLine

router = pages_router("/datasets")

_PAGE = 20
_ROWS = 20
_CELLS = 20
_RUNS = 20
# The part of the body limit that is reserved for the other fields of the form
_OTHER_FIELDS_BYTES = 20_000
# Rows are typed or pasted as text, and Parquet is binary
_FORMATS = tuple(each for each in get_args(Format) if each != "parquet")


@router.get("")
def list_datasets(
    request: Request, services: ServicesOf, after: Annotated[str | None, Query(max_length=500)] = None
) -> Response:
    found, cursor = datasets.list_datasets(services, cursor=after, limit=_PAGE)
    following = address(request, after=cursor) if cursor else None
    return page(request, "datasets/list.html", datasets=found, next_address=following, is_first=after is None)


@router.get("/new")
def show_new_dataset(request: Request, context: ContextOf) -> Response:
    return _new_dataset(request, context, Filled())


@router.post("/new")
async def add_dataset(request: Request, context: ContextOf, form: FormOf) -> Response:
    try:
        dataset, is_new = await _stored(context, form)
    except Invalid as error:
        return _new_dataset(request, context, filled_rows(form, error), 422)
    if "instruct" not in dataset.columns.get("used", {}):
        return see_other(f"/datasets/{dataset.id}")  # The page of the dataset explains which field is missing
    return see_other(f"/datasets/{dataset.id}", notice="dataset_added" if is_new else "dataset_known")


def _new_dataset(request: Request, context: Context, form: Filled, status: int = 200) -> Response:
    most = context.settings.max_body_bytes - _OTHER_FIELDS_BYTES
    return page(request, "datasets/new.html", status, form=form, formats=_FORMATS, bytes=max(0, most))


async def _stored(context: Context, form: Form) -> tuple[Dataset, bool]:
    pairs = [line.strip() for line in form.text("mapping").splitlines() if line.strip()]
    mapping = UploadQuery.model_construct(map=pairs).mapping()
    written = form.text("format")
    file_format = cast("Format", written) if written in _FORMATS else None
    rows = BytesIO(form.text("rows").encode("utf-8", "replace"))
    work = partial(datasets.import_dataset, context.services, rows, form.text("name"), mapping=mapping)
    return await to_thread.run_sync(partial(work, file_format=file_format), limiter=context.uploads)


@router.get("/{dataset_id}")
def show_dataset(
    request: Request,
    services: ServicesOf,
    dataset_id: str,
    after: Annotated[int, Query(ge=-1, le=NUMBER_MAX)] = -1,
    bad: Literal["1"] | None = None,
) -> Response:
    dataset = datasets.get_dataset(services, dataset_id)
    listed = run_listing.list_bad_rows if bad else datasets.list_items
    rows = listed(services, dataset_id, after=after, limit=_ROWS + 1)
    following = address(request, after=rows[_ROWS - 1].position) if len(rows) > _ROWS else None
    of_dataset = run_listing.list_runs_of_dataset(services, dataset_id, limit=_RUNS)
    shown: dict[str, Any] = {
        "runs": of_dataset,
        "trend": _draw_trend(of_dataset[::-1]),
        "rows": [(row, _cells(row)) for row in rows[:_ROWS]],
        "next_address": following,
        "is_first": after < 0,
        "is_bad_only": bad is not None,
    }
    return page(request, "datasets/dataset.html", dataset=dataset, **shown)


def _draw_trend(oldest_first: Sequence[RunLine]) -> Markup | None:
    """Draw the pass rate of each run. None if fewer than two runs have answers."""
    columns = [
        Column(
            run.created_at.strftime("%m-%d"),
            f"{run.counts.accepted} of {run.counts.succeeded} accepted",
            {"accepted": run.counts.accepted / run.counts.succeeded},
        )
        for run in oldest_first
        if run.counts.succeeded
    ]
    return draw_shares("trend", "Pass rate of the runs", columns, "accepted") if len(columns) > 1 else None


@router.get("/{dataset_id}/delete")
def ask_to_delete(request: Request, services: ServicesOf, dataset_id: str) -> Response:
    return page(request, "datasets/delete.html", dataset=datasets.get_dataset(services, dataset_id), trouble=None)


@router.post("/{dataset_id}/delete")
def delete_dataset(request: Request, services: ServicesOf, dataset_id: str) -> Response:
    try:
        deletion.delete_dataset(services, dataset_id)
    except Conflict as error:
        dataset = datasets.get_dataset(services, dataset_id)
        return page(request, "datasets/delete.html", 409, dataset=dataset, trouble=error.message)
    return see_other("/datasets", notice="deleted")


def _cells(row: DatasetItem) -> list[tuple[str, str]]:
    given: Mapping[str, Any] = {
        **(row.fields or {}),
        **{f"vars.{name}": value for name, value in (row.vars or {}).items()},
        **{name: value for name in ("human_score", "human_pass") if (value := getattr(row, name)) is not None},
    }
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in islice(given.items(), _CELLS)
    ]
