"""Reads the images and PDFs that rows name by a path, from the folder of the dataset file."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from redraft.domain.jobs.attachments import MEDIA_TYPES, media_type_of
from redraft.errors import FieldError

_TITLE_CHARS = 200
_NO_FOLDER = (
    "a path is read only on the command line, from the folder of a dataset file; "
    "in a request, send media_type, and the base64 of the file in the field data"
)


@dataclass(frozen=True, slots=True)
class AttachedFiles:
    """The folder of a dataset file, and the maximum sizes of one file and of all files of a row."""

    folder: Path
    file_bytes_max: int
    row_bytes_max: int

    def read(self, path: str, room: int) -> bytes:
        """Return the content of a file of at most `room` bytes.

        Raises ValueError. The caller puts the path before its message, as in `'a.png' is not a file`.
        """
        if PurePosixPath(path).is_absolute() or Path(path).is_absolute() or ".." in Path(path).parts:
            raise ValueError("must be relative to the folder of the dataset file, without '..'")
        try:
            found = (self.folder / path).resolve(strict=True)
            if not found.is_relative_to(self.folder.resolve()):
                raise ValueError("leads out of the folder of the dataset file")
            # Only regular files are read, because reading a pipe could wait forever
            if not found.is_file():
                raise ValueError("is not a file")
            if (size := found.stat().st_size) > room:
                raise ValueError(f"has {size:,} bytes; at most {room:,} are allowed here")
            return found.read_bytes()
        except FileNotFoundError:
            raise ValueError("does not exist in the folder of the dataset file") from None
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise ValueError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_attachments(value: Any, files: AttachedFiles | None) -> tuple[Any, list[FieldError]]:
    """Replace each path in the field `attachments` of a row by the content of its file.

    Returns the field, and an error for each path that cannot be read.

    An entry with a path is a text, or an object with `path` and optionally `title`. A single text is one entry. Other
    values are returned unchanged. Without `files`, paths are errors.
    """
    entries = cast("list[Any]", [value] if isinstance(value, str) else value)
    if not isinstance(cast("object", entries), list):
        return value, []
    found: list[Any] = []
    errors: list[FieldError] = []
    room = files.row_bytes_max if files else 0
    for index, entry in enumerate(entries):
        named = cast("dict[str, Any]", {"path": entry} if isinstance(entry, str) else entry)
        if not isinstance(cast("object", named), dict) or "path" not in named:
            found.append(entry)
            continue
        try:
            content, attachment = _attachment(named, files, room)
        except ValueError as error:
            errors.append(FieldError(f"/attachments/{index}/path", f"attachments.{index}: {error}.", "invalid_path"))
        else:
            room -= len(content)
            found.append(attachment)
    return found, errors


def _attachment(named: Mapping[str, Any], files: AttachedFiles | None, room: int) -> tuple[bytes, dict[str, Any]]:
    path = named["path"]
    if files is None:
        raise ValueError(_NO_FOLDER)
    if not isinstance(path, str) or not path.strip() or not path.isprintable():
        raise ValueError("path must be the path of a file, as printable text")
    if more := named.keys() - {"path", "title"}:
        raise ValueError(f"beside path only title is allowed, not {', '.join(sorted(more))}")
    try:
        content = files.read(path, min(room, files.file_bytes_max))
    except ValueError as error:
        raise ValueError(f"{path!r} {error}") from error
    media_type = media_type_of(content)
    if media_type is None:
        raise ValueError(f"{path!r} is none of the types {', '.join(MEDIA_TYPES)}")
    data = base64.b64encode(content).decode()
    title = Path(path).name[:_TITLE_CHARS] if named.get("title") is None else named["title"]
    return content, {"media_type": media_type, "data": data, "title": title}
