"""Forms with files: parts are read byte for byte, and what is no form is refused."""

import pytest

from api.pages.parts.multipart import FormPart, boundary_of, parts_of
from tests.media import PNG

BINARY = b"\r\n--other\r\n\r\n\n\r\x00\xff" + PNG + b"\r"


def form(*parts: bytes, boundary: bytes = b"x") -> bytes:
    return b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + boundary + b"--\r\n"


def part(about: str, content: bytes, *more: bytes) -> bytes:
    return b"\r\n".join([f"Content-Disposition: form-data; {about}".encode(), *more, b"", content])


def test_parts_are_read_byte_for_byte():
    body = form(
        part('name="a"', b""),
        part('name="f"; filename="\u00fc;=b.png"', BINARY, b"Content-Type: image/png"),
        part('name="f"; filename=""', b"", b"Content-Type: application/octet-stream"),
    )
    assert list(parts_of(body, b"x", 3)) == [
        FormPart("a", None, b""),
        FormPart("f", "\u00fc;=b.png", BINARY),
        FormPart("f", "", b""),
    ]
    assert list(parts_of(form(), b"x", 3)) == []


FIELD = part('name="a"', b"1")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"a=1",
        form(FIELD)[:-4],
        form(FIELD, FIELD, FIELD),
        form(b"no header"),
        form(b"\r\n\r\n1"),
        form(part('filename="a"', b"1")),
        form(part('name="\xff"', b"1").replace("\xff".encode(), b"\xff")),
        form(part("name*=utf-8''a", b"1")),
        form(part('name="a"', b"MQ==", b"Content-Transfer-Encoding: base64")),
        form(FIELD, boundary=b"xy"),
    ],
)
def test_what_is_no_form_is_refused(body: bytes):
    with pytest.raises(ValueError, match=r"form|field|ascii|utf-8"):
        list(parts_of(body, b"x", 2))


def test_the_boundary_stands_in_the_content_type():
    assert boundary_of('multipart/form-data; boundary="a b"') == b"a b"
    for text in ("multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\u00fc"):
        with pytest.raises(ValueError, match=r"form|field|ascii|utf-8"):
            boundary_of(text)
