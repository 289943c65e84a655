"""Parses forms with files (multipart/form-data, RFC 7578) as browsers send them."""

from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import MessageError
from email.message import Message
from email.parser import HeaderParser


@dataclass(frozen=True, slots=True)
class FormPart:
    """A field of a form. A file has a name; other fields have None."""

    field: str
    file_name: str | None
    content: bytes


def boundary_of(content_type: str) -> bytes:
    """Return the boundary in a Content-Type. Raises ValueError if there is none."""
    header = Message()
    header["Content-Type"] = content_type
    found = header.get_boundary()
    if not found:
        raise ValueError("The form has no boundary")
    return found.encode("ascii")


def parts_of(body: bytes, boundary: bytes, fields_max: int) -> Iterator[FormPart]:
    """Yield the fields in order. Raises ValueError if the body is not a complete form, or has too many fields."""
    # Only the first part has no line break before its boundary
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary, fields_max + 1)
    if not parts or not parts[-1].startswith(b"--"):
        raise ValueError("The form is incomplete, or has too many fields")
    for part in parts[:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        if not blank or head.partition(b"\r\n")[0].strip():
            raise ValueError("A field of the form has no header")
        yield _part(head.partition(b"\r\n")[2].decode(), content)


def _part(head: str, content: bytes) -> FormPart:
    try:
        header = HeaderParser().parsestr(head)
        field, name = (header.get_param(each, header="Content-Disposition") for each in ("name", "filename"))
    except MessageError as error:
        raise ValueError("The header of a field cannot be read") from error
    # A tuple is a name in the encoding of RFC 2231, which RFC 7578 forbids
    if not isinstance(field, str) or isinstance(name, tuple) or header.get("Content-Transfer-Encoding"):
        raise ValueError("The header of a field cannot be read")
    return FormPart(field, name, content)
