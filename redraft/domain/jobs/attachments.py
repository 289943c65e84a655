"""Images and PDFs of a request: as they are sent, and as they are stored with the request, without their data."""

import base64
import binascii
import hashlib
import re
import zlib
from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    Tag,
    TypeAdapter,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from redraft.domain.bodies.fields import StrictModel, Text

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]
MEDIA_TYPES: tuple[MediaType, ...] = get_args(MediaType)
PDF: MediaType = "application/pdf"
ATTACHMENTS_MAX = 100

_SIGNATURES: dict[MediaType, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    PDF: re.compile(rb"%PDF-"),
}


def _name(name: str) -> bytes:
    """Return a pattern for a name in a PDF, in which `#` and two digits can stand for a letter."""
    return b"/" + b"".join(b"(?:%c|(?i:#%02x))" % (letter, letter) for letter in name.encode())


_PAGE = re.compile(_name("Type") + rb"\s*" + _name("Page") + rb"(?![A-Za-z])")
_OBJECT_STREAM = re.compile(_name("ObjStm"))
_DATA = re.compile(rb"\bstream\r?\n")
_DICTIONARY_MAX = 400
_STREAMS_MAX = 10_000
# Anthropic reads at most this many pages of a PDF. A PDF whose pages cannot be counted counts as this many
PDF_PAGES_MAX = 600
# A small file can unpack to gigabytes
_UNPACKED_MAX = 20_000_000

_IN_RESPONSES: dict[str, JsonValue] = {"readOnly": True}

_COMPUTED = ("size", "digest", "pages", "url")

Title = Annotated[Text, Field(max_length=200)]


class Attachment(StrictModel):
    """An image or a PDF for the generator and the evaluator."""

    media_type: MediaType
    data: str = Field(min_length=1, repr=False)
    title: Title | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, value: Any) -> Any:
        sent = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if computed := [name for name in _COMPUTED if name in sent]:
            words = "is computed from the data; leave out {names}"
            raise PydanticCustomError("computed_field", words, {"names": ", ".join(computed), "field": computed[0]})
        return cast("Any", value)

    @cached_property
    def content(self) -> bytes:
        return base64.b64decode(self.data, validate=True)

    @model_validator(mode="after")
    def _data_fit(self) -> Self:
        try:
            found = media_type_of(self.content)
        except (binascii.Error, ValueError):
            words = "is not base64; send only the base64 of the file, without line breaks and without 'data:'"
            raise PydanticCustomError("invalid_base64", words, {"field": "data"}) from None
        if found != self.media_type:
            words = "says {said}, but the data are {found}"
            facts = {"said": self.media_type, "found": found or "of no type that is supported", "field": "media_type"}
            raise PydanticCustomError("media_type_mismatch", words, facts)
        return self

    @cached_property
    def stored(self) -> "StoredAttachment":
        """The attachment without its data."""
        return StoredAttachment(
            media_type=self.media_type,
            title=self.title,
            size=len(self.content),
            digest=hashlib.sha256(self.content).hexdigest(),
            pages=_pages_max(self.content) if self.media_type == PDF else None,
        )


class StoredAttachment(StrictModel):
    """An attachment within a stored request. The table `attachments` has its data.

    Attributes:
        digest: the SHA-256 of the file in hexadecimal digits.
        pages: the maximum number of pages of a PDF; None for an image.
    """

    media_type: MediaType
    title: Title | None
    size: int
    digest: str
    pages: int | None


class AttachmentFields(BaseModel):
    """An image or a PDF for the generator and the evaluator. This model describes the fields, but validates nothing."""

    model_config = ConfigDict(extra="forbid")

    media_type: MediaType
    data: str = Field(
        default="",
        json_schema_extra={"writeOnly": True},
        description="Required in a request: the file in base64, with padding and without line breaks.",
    )
    title: str | None = Field(default=None, max_length=200, description="A name for the models and for people.")
    size: int = Field(default=0, json_schema_extra=_IN_RESPONSES, description="The size of the file in bytes.")
    digest: str = Field(
        default="", json_schema_extra=_IN_RESPONSES, description="The SHA-256 of the file, in hexadecimal digits."
    )
    pages: int | None = Field(
        default=None, json_schema_extra=_IN_RESPONSES, description="The maximum number of pages of a PDF."
    )
    url: str = Field(default="", json_schema_extra=_IN_RESPONSES, description="The path of the file.")


class _Shape:
    """Describes an attachment in the OpenAPI document by one schema for requests and responses."""

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(core_schema.chain_schema([TypeAdapter(AttachmentFields).core_schema]))


def _form_of(value: Any) -> str:
    if isinstance(value, dict):
        return "stored" if "digest" in value and "data" not in value else "sent"
    return "stored" if isinstance(value, StoredAttachment) else "sent"


AnyAttachment = Annotated[
    Annotated[Attachment, Tag("sent")] | Annotated[StoredAttachment, Tag("stored")], Discriminator(_form_of), _Shape()
]


def media_type_of(content: bytes) -> MediaType | None:
    """Return the type of a file by its first bytes, or None if the type is not supported."""
    return next((name for name, pattern in _SIGNATURES.items() if pattern.match(content)), None)


def _pages_max(content: bytes) -> int:
    """Return an upper bound of the pages of a PDF: the page objects, or the maximum if they cannot be counted."""
    found, left, end = len(_PAGE.findall(content)), _UNPACKED_MAX, 0
    for _ in range(_STREAMS_MAX):
        stream = _OBJECT_STREAM.search(content, end)
        if stream is None:
            return min(found, PDF_PAGES_MAX) or PDF_PAGES_MAX
        data = _DATA.search(content, stream.end(), stream.end() + _DICTIONARY_MAX)
        end = content.find(b"endstream", data.end()) if data else -1
        if data is None or end < 0:
            return PDF_PAGES_MAX
        unpacker = zlib.decompressobj()
        try:
            unpacked = unpacker.decompress(content[data.end() : end], left)
        except zlib.error:
            return PDF_PAGES_MAX
        found += len(_PAGE.findall(unpacked))
        left -= len(unpacked)
        if left <= 0 or not unpacker.eof:
            return PDF_PAGES_MAX
    return PDF_PAGES_MAX
