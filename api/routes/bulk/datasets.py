"""Datasets: upload, check, list, look, delete."""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from api.dependencies import Context, ContextOf, ServicesOf
from api.description import answers
from api.http import uploads
from api.http.bodies import StrictRoute, parse_json
from api.http.parameters import Position
from api.http.problems import HttpProblem
from api.http.responses import render
from redraft.datasets.formats import Format
from redraft.errors import Invalid
from redraft.operations.bulk import datasets, removing
from redraft.operations.bulk.dataset_checks import DatasetCheck, check_dataset, check_resource
from redraft.operations.bulk.datasets import Dataset, DatasetItem

router = APIRouter(prefix="/v1/datasets", tags=["bulk"], route_class=StrictRoute)

_FILE: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_ROWS: dict[str, Any] = {"schema": {"type": "array", "items": {"type": "object", "additionalProperties": True}}}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "The file itself: JSON lines, a JSON array of objects, CSV, TSV or Parquet. Its own media type"
        f" is taken as well: {', '.join(sorted(filter(None, uploads.MEDIA_TYPES)))}.",
        # Those that generators of clients know.
        "content": {"application/octet-stream": _FILE, "application/json": _ROWS},
    }
}


class DatasetPage(BaseModel):
    """One page of datasets; `next_cursor` is the next one's `after`, null on the last."""

    data: list[Dataset]
    next_cursor: str | None


class DatasetItemPage(BaseModel):
    """Rows in the file's order; `next_cursor` is the next page's `after`, null on the last."""

    data: list[DatasetItem]
    next_cursor: str | None


class PageQuery(BaseModel):
    """Which page of a list."""

    limit: int = Field(20, ge=1, le=100)
    after: str | None = Field(None, max_length=500, description="`next_cursor` of the page before.")


class UploadQuery(BaseModel):
    """How a file is read."""

    name: str = Field("", max_length=200, description="The file's name: people know the dataset by it.")
    format: Format | None = Field(None, description="Otherwise the Content-Type, the name or the content tells.")
    map: list[str] = Field(
        [],
        max_length=100,
        description="FIELD=COLUMN: which column fills a field, as in `instruct=question`; repeatable.",
    )
    validate_only: bool = Field(False, description="Tell what a run would make of the file, and store nothing.")
    defaults: str | None = Field(
        None, max_length=100_000, description="With `validate_only`: a run's `defaults`, as JSON."
    )
    overrides: str | None = Field(
        None, max_length=100_000, description="With `validate_only`: a run's `overrides`, as JSON."
    )

    def mapping(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.map:
            target, _, column = each.partition("=")
            if not target or not column or target in found:
                words = "map needs FIELD=COLUMN, as in instruct=question, and each field once."
                raise Invalid.at("/mapping", words, "invalid_mapping")
            found[target] = column
        return found

    def layer(self, name: str) -> dict[str, Any]:
        """The run's defaults or overrides that a check goes by."""
        text: str | None = getattr(self, name)
        if text is not None and not self.validate_only:
            raise Invalid.at(f"/{name}", f"{name} belong to a run: send them to POST /v1/runs.", "misplaced")
        try:
            value: Any = {} if text is None else parse_json(text.encode())
        except HttpProblem as problem:
            raise Invalid.at(f"/{name}", problem.detail.replace("The body", name), "invalid_json") from None
        if not isinstance(value, dict):
            raise Invalid.at(f"/{name}", f"{name} must be a JSON object.", "dict_type")
        return cast("dict[str, Any]", value)


class Upload:
    """A file, and what is to be done with it."""

    def __init__(self, request: Request, context: ContextOf, query: Annotated[UploadQuery, Query()]) -> None:
        self._request = request
        self._context: Context = context
        self._query = query

    async def answer(self) -> Response:
        query, context = self._query, self._context
        told = uploads.format_of(self._request)
        options: dict[str, Any] = {"file_format": query.format or told}
        with _pointing_into_the_query():
            options["mapping"] = query.mapping()
            layers = {name: query.layer(name) for name in ("defaults", "overrides")}
        async with uploads.received(self._request, context.settings.data_dir) as file:
            if query.validate_only:
                options |= layers
            work = partial(self._check if query.validate_only else self._store, file, query.name, **options)
            return await to_thread.run_sync(work, limiter=context.uploads)

    def _check(self, *given: Any, **options: Any) -> Response:
        with _pointing_into_the_query():
            return render(check_resource(check_dataset(self._context.services, *given, **options)))

    def _store(self, *given: Any, **options: Any) -> Response:
        with _pointing_into_the_query():
            dataset, is_new = datasets.import_dataset(self._context.services, *given, **options)
        response = render(dataset, 201 if is_new else 200)
        response.headers["Location"] = dataset.urls["self"]
        return response


_PLACES: Mapping[str, str] = {"mapping": "query/map", "defaults": "query/defaults", "overrides": "query/overrides"}


@contextmanager
def _pointing_into_the_query() -> Any:
    """What is wrong with the options stands in the query, as the body is the file."""
    try:
        yield
    except Invalid as error:
        errors = tuple(replace(field_error, pointer=_place(field_error.pointer)) for field_error in error.errors)
        raise Invalid(error.message, errors, code=error.code) from error


def _place(pointer: str) -> str:
    head, _, rest = pointer.removeprefix("/").partition("/")
    return f"{_PLACES[head]}{'/' if rest else ''}{rest}" if head in _PLACES else pointer


@router.post(
    "",
    status_code=201,
    response_model=Dataset,
    openapi_extra=_BODY,
    responses={
        201: {
            "description": "The rows are stored.",
            "headers": {"Location": {"description": "Where the dataset is.", "schema": {"type": "string"}}},
        },
        200: {
            "description": "The same rows were there before, or the report of `validate_only`.",
            "model": Dataset | DatasetCheck,
        },
        **answers(400, 413, 415, 422),
    },
)
async def add_dataset(upload: Annotated[Upload, Depends()]) -> Response:
    """Upload a file of rows. Rows that cannot be used are kept with what is wrong with them, and stop nothing."""
    return await upload.answer()


@router.get("", response_model=DatasetPage, responses=answers(422))
def list_datasets(services: ServicesOf, query: Annotated[PageQuery, Query()]) -> Response:
    """A page of datasets, newest first."""
    data, next_cursor = datasets.list_datasets(services, cursor=query.after, limit=query.limit)
    return render(DatasetPage(data=data, next_cursor=next_cursor))


@router.get("/{dataset_id}", response_model=Dataset, responses=answers(404))
def get_dataset(services: ServicesOf, dataset_id: str) -> Response:
    """One dataset: how many rows it has, and which column became which field."""
    return render(datasets.get_dataset(services, dataset_id))


@router.get("/{dataset_id}/items", response_model=DatasetItemPage, responses=answers(404, 422))
def list_dataset_items(
    services: ServicesOf,
    dataset_id: str,
    after: Annotated[Position | None, Query(description="`next_cursor` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Rows as they were read, with their field errors."""
    found = datasets.list_items(services, dataset_id, after=-1 if after is None else after, limit=limit + 1)
    more = len(found) > limit
    page = found[:limit]
    return render(DatasetItemPage(data=page, next_cursor=str(page[-1].position) if more else None))


@router.delete("/{dataset_id}", status_code=204, responses=answers(404, 409))
def delete_dataset(services: ServicesOf, dataset_id: str) -> Response:
    """Remove a dataset that no run uses, with its rows."""
    removing.delete_dataset(services, dataset_id)
    return Response(status_code=204)
