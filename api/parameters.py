"""Types of query parameters that several routes share."""

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from redraft.domain.times import HOW, read_time

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
