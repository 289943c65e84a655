"""Attachments are checked against their data, and are stored without them."""

import zlib
from typing import Any

import pytest
from pydantic import ValidationError

from redraft.domain.bodies.validation_errors import message_of, pointer_of
from redraft.domain.jobs.attachments import PDF_PAGES_MAX, Attachment, media_type_of
from redraft.domain.jobs.requests import GenerateAnswer
from tests.media import GIF, PNG, attachment, pdf


def error(**sent: Any) -> tuple[str, str]:
    body = {"instruct": "Q", "eval_crit": "C", "attachments": [sent]}
    with pytest.raises(ValidationError) as caught:
        GenerateAnswer.model_validate(body)
    [found] = caught.value.errors()
    return pointer_of(found, body), message_of(found)


@pytest.mark.parametrize(
    ("start", "media_type"),
    [
        (PNG, "image/png"),
        (GIF, "image/gif"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\x0a\x00\x00\x00WEBPVP8 ", "image/webp"),
        (pdf(), "application/pdf"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", None),
        (b"RIFF____WAVE", None),
        (b"", None),
    ],
)
def test_the_first_bytes_tell_the_type(start: bytes, media_type: str | None):
    assert media_type_of(start) == media_type


def test_data_of_another_type_are_refused():
    assert error(**attachment(GIF)) == ("/attachments/0/media_type", "says image/png, but the data are image/gif")
    pointer, words = error(**attachment(b"<svg/>"))
    assert (pointer, "no type that is supported" in words) == ("/attachments/0/media_type", True)


@pytest.mark.parametrize("data", ["data:image/png;base64,iVBO", "iVB", "iVBO\n", "\u00e4"])
def test_data_that_are_no_base64_are_refused(data: str):
    assert error(media_type="image/png", data=data)[0] == "/attachments/0/data"


def test_data_with_fields_of_a_response_are_refused():
    pointer, words = error(**attachment(PNG), digest="a" * 64, size=1)
    assert (pointer, words) == ("/attachments/0/size", "is computed from the data; leave out size, digest")


def test_an_unknown_type_is_refused():
    assert error(**attachment(b"II*\x00", "image/tiff"))[0] == "/attachments/0/media_type"


@pytest.mark.parametrize(
    ("content", "pages"),
    [
        (pdf(3), 3),
        (pdf(4, packed=True), 4),
        (pdf(0), PDF_PAGES_MAX),
        (pdf(3).replace(b"/Page ", b"/P#61g#65 ").replace(b"/Type", b"/#54ype"), 3),
        (pdf(3, packed=True).replace(b"/ObjStm", b"/#4fbj#53tm"), 3),
        (pdf(3) + b"/ObjStm without data", PDF_PAGES_MAX),
        (pdf(3, packed=True).replace(b"\nendstream", b"")[:-9] + b"\nendstream", PDF_PAGES_MAX),
        (pdf(3) + b"/ObjStm " * 600_000, PDF_PAGES_MAX),
        (pdf(3) + (b"/ObjStm stream\n" + zlib.compress(b"") + b"endstream ") * 10_001, PDF_PAGES_MAX),
        (b"%PDF- /ObjStm stream\nno deflate endstream", PDF_PAGES_MAX),
        (b"%PDF- /Type /Page /ObjStm stream\n" + zlib.compress(bytes(30_000_000)) + b"endstream", PDF_PAGES_MAX),
    ],
)
def test_the_pages_of_a_pdf_are_counted_or_bounded(content: bytes, pages: int):
    sent = Attachment.model_validate(attachment(content, "application/pdf"))
    assert sent.stored.pages == pages
