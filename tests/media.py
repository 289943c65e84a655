"""Small files of each media type that requests can have."""

import base64
import zlib
from typing import Any

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
PAGE = b"<< /Type /Page /Parent 2 0 R >>"


def pdf(pages: int = 1, *, packed: bool = False) -> bytes:
    """A PDF with page objects, in an object stream if they are packed."""
    objects = b"\n".join([PAGE] * pages)
    if packed:
        objects = b"<< /Type /ObjStm /Filter /FlateDecode >>\nstream\n" + zlib.compress(objects) + b"\nendstream"
    return b"%PDF-1.7\n<< /Type /Pages >>\n" + objects + b"\n%%EOF\n"


PDF = pdf()


def attachment(content: bytes, media_type: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"media_type": media_type, "data": base64.b64encode(content).decode(), **more}
