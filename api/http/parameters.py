"""Types of query parameters that several routes share."""

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from redraft.domain.jobs.times import HOW, read_time

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
NUMBER_MAX = 2**31 - 1
Position = Annotated[int, Field(ge=0, le=NUMBER_MAX), WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,9}$"})]
"""A cursor over numbered things: clients hand back what they were given."""
