"""What a download is called: a name that a person gave, in a header that takes ASCII alone."""

import re
import unicodedata
from typing import Literal
from urllib.parse import quote

_NAME_MAX = 100
_UNFIT = re.compile(r'[/\\:*?"<>|%]+')
_DATA = re.compile(r"(?<=.)\.(jsonl|ndjson|json|csv|tsv|tab|parquet|pq)$", re.IGNORECASE)


def stem_of(name: str) -> str:
    """A run's name without the suffix of the file that it comes from."""
    return _DATA.sub("", name)


def disposition(name: str, fallback: str, suffix: str, *, kind: Literal["attachment", "inline"] = "attachment") -> str:
    """The value of Content-Disposition, for readers that know RFC 6266 and for those that do not.

    Args:
        name: as people know the thing; a path, control characters and what no file system takes are left out.
        fallback: stands for a name of which nothing is left; ASCII.
        suffix: what stands behind either; with its dot.
        kind: whether a browser saves it or shows it.
    """
    whole = _file_name(name) or fallback
    # Cleaned again: full-width quotes and slashes become those of ASCII
    plain = _file_name(unicodedata.normalize("NFKD", whole).encode("ascii", "ignore").decode()) or fallback
    return f"{kind}; filename=\"{plain}{suffix}\"; filename*=UTF-8''{quote(whole + suffix, safe='')}"


def _file_name(name: str) -> str:
    printable = "".join(each if unicodedata.category(each)[0] != "C" else " " for each in name)
    return " ".join(_UNFIT.sub("_", printable).split())[:_NAME_MAX].strip(" ._")
