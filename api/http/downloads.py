"""Builds the header Content-Disposition with the file name of a download."""

import re
import unicodedata
from typing import Literal
from urllib.parse import quote

_NAME_MAX = 100
_UNFIT = re.compile(r'[/\\:*?"<>|%]+')
MEDIA_FILE = re.compile(r"(?<=.)\.(png|jpe?g|gif|webp|pdf)$", re.IGNORECASE)
_DATA = re.compile(r"(?<=.)\.(jsonl|ndjson|json|csv|tsv|tab|parquet|pq)$", re.IGNORECASE)


def stem_of(name: str, suffix: re.Pattern[str] = _DATA) -> str:
    """Remove the suffix of a file, by default of a data file, from a name."""
    return suffix.sub("", name)


def disposition(name: str, fallback: str, suffix: str, *, kind: Literal["attachment", "inline"] = "attachment") -> str:
    """Return the header value. `fallback` (in ASCII) replaces a name without usable characters."""
    whole = _file_name(name) or fallback
    # The name is cleaned again, because NFKD converts full-width quotes and slashes to ASCII
    plain = _file_name(unicodedata.normalize("NFKD", whole).encode("ascii", "ignore").decode()) or fallback
    # Clients that do not implement RFC 6266 use the first name
    return f"{kind}; filename=\"{plain}{suffix}\"; filename*=UTF-8''{quote(whole + suffix, safe='')}"


def _file_name(name: str) -> str:
    printable = "".join(each if unicodedata.category(each)[0] != "C" else " " for each in name)
    return " ".join(_UNFIT.sub("_", printable).split())[:_NAME_MAX].strip(" ._")
