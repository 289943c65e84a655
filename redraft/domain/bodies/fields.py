"""The texts and numbers that a request may hold, each with its limits; what the bodies of the API are made of."""

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    TypeAdapter,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from redraft.domain.text.cleaning import clean

MAX_TEXT = 200_000
MAX_ANSWER = 1_000_000


def _whole(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError(
            "nul_character", "holds a NUL character at position {at}; remove it", {"at": text.index("\x00")}
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PydanticCustomError(
            "lone_surrogate",
            "holds half a surrogate pair at position {at}; it is no text",
            {"at": error.start},
        ) from None
    return text


def _storable(text: str) -> str:
    """The text as it will be stored: what is left of it must be as good as what came."""
    return clean(_whole(text))


def _kept(text: str) -> str:
    kept = _storable(text)
    if not kept:
        raise PydanticCustomError("blank", "must hold more than control characters")
    return kept


def _plain(name: str) -> str:
    """Names are not cleaned: two of them could become one."""
    if clean(_whole(name)) != name:
        at = next(at for at, char in enumerate(name) if not clean(char))
        raise PydanticCustomError(
            "control_character", "holds a control character at position {at}; remove it", {"at": at}
        )
    return name


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must hold more than white space")
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_storable)]
# For readers of the description: pydantic's own words for a text that does not match would be of no help.
FilledText = Annotated[Text, Field(json_schema_extra={"minLength": 1, "pattern": r"\S"}), AfterValidator(_not_blank)]
Wanted = Annotated[str, StringConstraints(min_length=1, max_length=10_000), AfterValidator(_kept)]
FilledWanted = Annotated[Wanted, Field(json_schema_extra={"pattern": r"\S"}), AfterValidator(_not_blank)]
PatternText = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_kept)]
Answer = Annotated[str, Field(max_length=MAX_ANSWER), AfterValidator(_storable)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_plain)]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_plain)]
MetadataValue = Annotated[str, StringConstraints(max_length=512), AfterValidator(_storable)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=16)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Turn = Annotated[list[Text], Field(min_length=2, max_length=2)]


class StrictModel(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)


class As:
    """Describes plain JSON by a type, for readers of the API's description; the JSON is not validated again."""

    def __init__(self, shape: Any) -> None:
        self._shape = shape

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # Only what stands within another schema is referred to, and not written out wherever it is used.
        within = core_schema.chain_schema([TypeAdapter(self._shape).core_schema])
        return handler(within)
