"""Forms: what a browser sends without JavaScript."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, Request

from api.http.bodies import media_type_of, refuse_packed
from api.http.problems import HttpProblem

_FIELDS_MAX = 2000


class Form:
    """The fields of a form, as text whose lines end with a line feed alone."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """A field without the space around it; empty when it was left empty or is not there."""
        return self.texts(name)[0].strip() if name in self._fields else ""

    def texts(self, name: str) -> list[str]:
        """All that was sent by this name, as it was written."""
        return [value.replace("\r\n", "\n") for value in self._fields.get(name, ())]

    def having(self, **fields: str) -> "Form":
        """The form with these fields as if they had been filled in so."""
        return Form({**self._fields, **{name: [text] for name, text in fields.items()}})

    def __contains__(self, name: str) -> bool:
        return name in self._fields


async def get_form(request: Request) -> Form:
    """The form in the body.

    Raises:
        HttpProblem: 415, it is none; 400, it cannot be read.
    """
    refuse_packed(request)
    if media_type_of(request).lower() != "application/x-www-form-urlencoded":
        raise HttpProblem(415, "Send a form, as application/x-www-form-urlencoded.")
    try:
        fields = parse_qs(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError:  # not UTF-8, or too many fields
        raise HttpProblem(400, "The form cannot be read.", code="invalid_form") from None
    return Form(fields)


FormOf = Annotated[Form, Depends(get_form)]
