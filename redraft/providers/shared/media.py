"""Images and PDFs in request bodies of both wire formats.

A planned body, which the ledger stores, has a reference to each file. When the body is sent, the file's data replace
the reference.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from redraft.domain.calls.conversation import Media
from redraft.domain.calls.model_names import ModelRef
from redraft.domain.jobs.attachments import PDF

_REFERENCE = re.compile(r"attachment:(?P<type>[\w/]+);sha256=(?P<digest>[0-9a-f]{64});size=\d+(;pages=(?P<pages>\d+))?")

# Upper bounds of the input tokens that vendors count for an image, for budgets. docs/attachments.md names the sources
_IMAGE_TOKENS = {"anthropic": 4_800}
_IMAGE_TOKENS_OTHERS = 16_400
_IMAGE_TOKENS_GPT_4O_MINI = 48_200
_TEXT_TOKENS_OF_PAGE = 3_000


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a reference in a content part."""

    holder: Any
    name: str
    is_data_url: bool


def openai_parts(media: Media, number: int) -> list[dict[str, Any]]:
    """Return the content parts of Chat Completions for a file: its label and its reference."""
    if media.media_type == PDF:
        file = {"filename": f"attachment-{number}.pdf", "file_data": _reference(media)}
        return [{"type": "text", "text": media.label}, {"type": "file", "file": file}]
    return [{"type": "text", "text": media.label}, {"type": "image_url", "image_url": {"url": _reference(media)}}]


def responses_parts(media: Media, number: int) -> list[dict[str, Any]]:
    """Return the content parts of the Responses API for a file: its label and its reference."""
    label = {"type": "input_text", "text": media.label}
    if media.media_type == PDF:
        return [label, {"type": "input_file", "filename": f"attachment-{number}.pdf", "file_data": _reference(media)}]
    return [label, {"type": "input_image", "image_url": _reference(media), "detail": "auto"}]


def anthropic_blocks(media: Media) -> list[dict[str, Any]]:
    """Return the content blocks of the Messages API for a file: its label and its reference."""
    kind = "document" if media.media_type == PDF else "image"
    source = {"type": "base64", "media_type": media.media_type, "data": _reference(media)}
    return [{"type": "text", "text": media.label}, {"type": kind, "source": source}]


def _reference(media: Media) -> str:
    pages = "" if media.pages is None else f";pages={media.pages}"
    return f"attachment:{media.media_type};sha256={media.digest};size={media.size}{pages}"


def digests_in(body: Mapping[str, Any]) -> set[str]:
    """Return the digests of the files that a planned body refers to."""
    return {found["digest"] for _, found in _references(body)}


def with_data(body: Mapping[str, Any], files: Mapping[str, str] | None) -> Mapping[str, Any]:
    """Return a planned body with the data of its files. `files` has the base64 of each file by its digest."""
    if not files:
        return body
    name = "input" if "input" in body else "messages"
    filled = {**body, name: deepcopy(body[name])}
    for place, found in _references(filled):
        data = files[found["digest"]]
        place.holder[place.name] = f"data:{found['type']};base64,{data}" if place.is_data_url else data
    return filled


def _parts(message: Any) -> list[dict[str, Any]]:
    # The body of a package's provider may have any form
    turn = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
    content: Any = turn.get("content")
    return [part for part in cast("list[Any]", content) if isinstance(part, dict)] if isinstance(content, list) else []


def _references(body: Mapping[str, Any]) -> Iterator[tuple[_Place, re.Match[str]]]:
    # Only media parts are searched, so that a reference in a user's text stays a text
    messages: Any = body.get("messages") or body.get("input")
    for message in cast("list[Any]", messages) if isinstance(messages, list) else ():
        for part in _parts(message):
            place = _place_in(part)
            if place and isinstance(place.holder, dict):
                found = _REFERENCE.fullmatch(str(cast("dict[str, Any]", place.holder).get(place.name)))
                if found:
                    yield place, found


def _place_in(part: dict[str, Any]) -> _Place | None:
    kind = part.get("type")
    if kind == "image_url":
        return _Place(part.get("image_url"), "url", is_data_url=True)
    if kind == "file":
        return _Place(part.get("file"), "file_data", is_data_url=True)
    if kind == "input_image":
        return _Place(part, "image_url", is_data_url=True)
    if kind == "input_file":
        return _Place(part, "file_data", is_data_url=True)
    return _Place(part.get("source"), "data", is_data_url=False) if kind in {"image", "document"} else None


def tokens_max(ref: ModelRef, pages: int | None) -> int:
    """Return an upper bound of the input tokens of an image, or of a PDF with so many pages."""
    image = _IMAGE_TOKENS.get(ref.provider, _IMAGE_TOKENS_OTHERS)
    if "gpt-4o-mini" in ref.name:
        image = _IMAGE_TOKENS_GPT_4O_MINI
    return image if pages is None else pages * (image + _TEXT_TOKENS_OF_PAGE)


def tokens_in(ref: ModelRef, body: Mapping[str, Any]) -> int:
    """Return an upper bound of the input tokens of all files that a planned body refers to."""
    pages = [found["pages"] for _, found in _references(body)]
    return sum(tokens_max(ref, None if count is None else int(count)) for count in pages)
