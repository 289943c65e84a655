"""Checks: criteria that code decides, before any model is asked. Each says exactly what to change."""

from typing import Literal

from pydantic import Field

from redraft.domain.fields import StrictModel


class MaxWords(StrictModel):
    kind: Literal["max_words"]
    value: int = Field(ge=0)


Check = MaxWords
