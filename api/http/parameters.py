"""Defines query parameters and list responses that several routes share."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from redraft.domain.bodies.time_parsing import HOW, read_time

T = TypeVar("T")

# PostgreSQL refuses a query with a larger integer; SQLite does not
NUMBER_MAX = 2**31 - 1
ITERATION_MAX = 1_000_000

Time = Annotated[
    datetime,
    BeforeValidator(read_time),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}],
            "description": f"{HOW[0].upper()}{HOW[1:]}.",
        }
    ),
]
# Clients get `next_cursor` as a string, which the server parses as an item number
_Position = Annotated[int, Field(ge=0, le=NUMBER_MAX), WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,9}$"})]
_Limit = Annotated[int, Field(ge=1, le=100)]
_PREVIOUS = "`next_cursor` of the previous page."


class PageQuery(BaseModel):
    limit: _Limit = 20
    after: str | None = Field(None, max_length=500, description=_PREVIOUS)


class PositionQuery(BaseModel):
    limit: _Limit = 20
    after: _Position | None = Field(None, description=_PREVIOUS)


class Listed(BaseModel, Generic[T]):
    data: list[T]


class Page(Listed[T], Generic[T]):
    next_cursor: str | None = Field(description="The value of `after` for the next page; null on the last page.")
