"""Types of the fields of request bodies: texts and numbers with their limits, and the base class of all bodies."""

import re
from collections.abc import Callable
from typing import Annotated, Any, LiteralString, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, StringConstraints, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from redraft.domain.text.cleaning import clean

MAX_TEXT = 200_000
MAX_ANSWER = 1_000_000


def rejecting(code: LiteralString, error_of: Callable[[Any], str | None]) -> AfterValidator:
    """Return a validator that refuses each value for which `error_of` returns an error message."""

    def check(value: Any) -> Any:
        error = error_of(value)
        if error is not None:
            raise PydanticCustomError(code, "{words}", {"words": error})
        return value

    return AfterValidator(check)


def matching(pattern: str, words: str) -> AfterValidator:
    """Return a validator for texts that match a pattern, with a message in words instead of the pattern."""
    return rejecting("string_pattern_mismatch", lambda text: None if re.fullmatch(pattern, text) else words)


def _whole(text: str) -> str:
    if "\x00" in text:
        words = "holds a NUL character at position {at}; remove it"
        raise PydanticCustomError("nul_character", words, {"at": text.index("\x00")})
    try:
        text.encode()
    except UnicodeEncodeError as error:
        words = "holds half a surrogate pair at position {at}; it is no text"
        raise PydanticCustomError("lone_surrogate", words, {"at": error.start}) from None
    return text


def _storable(text: str) -> str:
    # The text is cleaned before it is validated, so that the rules hold for the stored text.
    return clean(_whole(text))


def _plain(name: str) -> str:
    # Names are refused instead of cleaned, because two different names could become equal.
    if clean(_whole(name)) != name:
        at = next(at for at, char in enumerate(name) if not clean(char))
        words = "holds a control character at position {at}; remove it"
        raise PydanticCustomError("control_character", words, {"at": at})
    return name


_kept = rejecting("blank", lambda text: None if text else "must hold more than control characters")
_not_blank = rejecting("blank", lambda text: None if text.strip() else "must hold more than white space")
Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_storable)]
# Only the OpenAPI document has the pattern, because pydantic's own error message would show a pattern instead of words.
FilledText = Annotated[Text, Field(json_schema_extra={"minLength": 1, "pattern": r"\S"}), _not_blank]
Wanted = Annotated[str, StringConstraints(min_length=1, max_length=10_000), AfterValidator(_storable), _kept]
FilledWanted = Annotated[Wanted, Field(json_schema_extra={"pattern": r"\S"}), _not_blank]
PatternText = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_storable), _kept]
Answer = Annotated[str, Field(max_length=MAX_ANSWER), AfterValidator(_storable)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_plain)]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_plain)]
MetadataValue = Annotated[str, StringConstraints(max_length=512), AfterValidator(_storable)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Turn = Annotated[list[Text], Field(min_length=2, max_length=2)]


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    def merged(self, change: Self) -> Self:
        """Return these values with the fields that were set in `change`. Defaults of `change` replace nothing."""
        return self.model_copy(update={name: getattr(change, name) for name in change.model_fields_set})


class As:
    """Describes a field of plain JSON by a type in the OpenAPI document, without validation by that type."""

    def __init__(self, shape: Any) -> None:
        self._shape = shape

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # Within a chain the schema becomes a reference. Otherwise the document would repeat the whole schema at each
        # use.
        within = core_schema.chain_schema([TypeAdapter(self._shape).core_schema])
        return handler(within)
