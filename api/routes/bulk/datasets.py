"""Routes that upload, check, list, get and delete datasets."""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field

from api.dependencies import ContextOf, ServicesOf
from api.http import uploads
from api.http.bodies import StrictRoute, parse_object
from api.http.parameters import Page, PageQuery, PositionQuery
from api.http.responses import render
from api.openapi import problems_of
from redraft.datasets.formats import Format
from redraft.errors import Invalid
from redraft.operations.bulk import datasets, deletion
from redraft.operations.bulk.dataset_checks import DatasetCheck, check_dataset, check_resource
from redraft.operations.bulk.datasets import Dataset, DatasetItem

router = APIRouter(prefix="/v1/datasets", tags=["bulk"], route_class=StrictRoute)

_FILE: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_ROWS: dict[str, Any] = {"schema": {"type": "array", "items": {"type": "object", "additionalProperties": True}}}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "The file itself: JSON lines, a JSON array of objects, CSV, TSV or Parquet. These media"
        f" types are accepted: {', '.join(sorted(filter(None, uploads.MEDIA_TYPES)))}.",
        # The generators of API clients support these two media types
        "content": {"application/octet-stream": _FILE, "application/json": _ROWS},
    }
}


class DatasetPage(Page[Dataset]): ...


class DatasetItemPage(Page[DatasetItem]):
    """Rows in the order of the file."""


_Layer = Annotated[
    str | None, Field(max_length=100_000, description="With `validate_only`: this field of POST /v1/runs, as JSON.")
]


_OF_RUN = ("defaults", "overrides", "delivery")


class UploadQuery(BaseModel):
    """The options of an upload."""

    name: str = Field("", max_length=200, description="The name of the file, which is the name of the dataset.")
    format: Format | None = Field(
        None, description="By default detected from the Content-Type, the name or the content."
    )
    map: list[str] = Field(
        [],
        max_length=100,
        description="FIELD=COLUMN: the column that fills a field, such as `instruct=question`. Repeatable.",
    )
    validate_only: bool = Field(False, description="Report how a run reads the file, and store nothing.")
    defaults: _Layer = None
    overrides: _Layer = None
    delivery: Literal["live", "batch"] | None = Field(
        None,
        description="With `validate_only`: report the maximum cost of this delivery. `batch` is refused if a model has "
        "no batch endpoint.",
    )

    def mapping(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.map:
            target, _, column = each.partition("=")
            if not target or not column or target in found:
                words = "Write map as FIELD=COLUMN, such as instruct=question. Each field can occur only once."
                raise Invalid.at("/mapping", words, "invalid_mapping")
            found[target] = column
        return found

    def layer(self, name: str) -> dict[str, Any]:
        """Return the `defaults` or `overrides` of the validation. Raises Invalid if the text is no JSON object."""
        text: str | None = getattr(self, name)
        return {} if text is None else parse_object(text, name)

    def refuse_misplaced(self) -> None:
        """Raise Invalid if the options of a run are given for a file that is stored."""
        given = [name for name in _OF_RUN if getattr(self, name) is not None]
        if given and not self.validate_only:
            words = f"A stored dataset has no {given[0]}. Give {given[0]} in POST /v1/runs, or set validate_only."
            raise Invalid.at(f"/{given[0]}", words, "misplaced")


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload request, whose body is a file to store or to check."""

    request: Request
    context: ContextOf
    query: Annotated[UploadQuery, Query()]

    async def answer(self) -> Response:
        query, context = self.query, self.context
        # The format is checked before the body is read, so that a body of another type is refused at once
        media_format = uploads.format_of(self.request)
        options: dict[str, Any] = {"file_format": query.format or media_format}
        with _pointing_into_the_query():
            options["mapping"] = query.mapping()
            query.refuse_misplaced()
            layers = {name: query.layer(name) for name in ("defaults", "overrides")}
        async with uploads.received(self.request, context.settings.data_dir) as file:
            if query.validate_only:
                options |= {**layers, "delivery": query.delivery or "live"}
            work = partial(self._check if query.validate_only else self._store, file, query.name, **options)
            return await to_thread.run_sync(work, limiter=context.uploads)

    def _check(self, *given: Any, **options: Any) -> Response:
        with _pointing_into_the_query():
            return render(check_resource(check_dataset(self.context.services, *given, **options)))

    def _store(self, *given: Any, **options: Any) -> Response:
        with _pointing_into_the_query():
            dataset, is_new = datasets.import_dataset(self.context.services, *given, **options)
        response = render(dataset, 201 if is_new else 200)
        response.headers["Location"] = dataset.urls["self"]
        return response


_PLACES: Mapping[str, str] = {
    "mapping": "query/map",
    **{name: f"query/{name}" for name in _OF_RUN},
}


@contextmanager
def _pointing_into_the_query() -> Any:
    # Operations locate errors by option names. In this request, the options are query parameters
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
            "headers": {"Location": {"description": "The path of the dataset.", "schema": {"type": "string"}}},
        },
        200: {
            "description": "The dataset that already has the same rows, or the report of `validate_only`.",
            "model": Dataset | DatasetCheck,
        },
    },
)
async def add_dataset(upload: Annotated[Upload, Depends()]) -> Response:
    """Upload a file of rows. Invalid rows are stored with their errors, and do not stop the upload."""
    return await upload.answer()


@router.get("", response_model=DatasetPage)
def list_datasets(services: ServicesOf, query: Annotated[PageQuery, Query()]) -> Response:
    """List datasets, newest first."""
    data, next_cursor = datasets.list_datasets(services, cursor=query.after, limit=query.limit)
    return render(DatasetPage(data=data, next_cursor=next_cursor))


@router.get("/{dataset_id}", response_model=Dataset)
def get_dataset(services: ServicesOf, dataset_id: str) -> Response:
    """Get a dataset with its number of rows, and the fields that its columns fill."""
    return render(datasets.get_dataset(services, dataset_id))


@router.get("/{dataset_id}/items", response_model=DatasetItemPage)
def list_dataset_items(services: ServicesOf, dataset_id: str, query: Annotated[PositionQuery, Query()]) -> Response:
    """List the rows of a dataset, with their errors."""
    limit, after = query.limit, -1 if query.after is None else query.after
    # One more row shows whether there is another page
    found = datasets.list_items(services, dataset_id, after=after, limit=limit + 1)
    page = found[:limit]
    return render(DatasetItemPage(data=page, next_cursor=str(page[-1].position) if len(found) > limit else None))


@router.delete("/{dataset_id}", status_code=204, responses=problems_of(409))
def delete_dataset(services: ServicesOf, dataset_id: str) -> Response:
    """Delete a dataset that no run uses, with its rows."""
    deletion.delete_dataset(services, dataset_id)
    return Response(status_code=204)
