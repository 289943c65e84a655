"""Read the text of a search for jobs: the beginning of an id, labels, and words of the task or the answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# An id begins with its time in hexadecimal digits, so fewer than 8 digits match nearly all jobs
_ID = re.compile(r"job_[0-9a-f]{8,32}|(?=[a-f]*[0-9])[0-9a-f]{8,32}")
_TOKEN = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
WORDS_MAX = 10


@dataclass(frozen=True, slots=True)
class Search:
    """The parts of a search. A job matches if it meets all of them. The case of ASCII letters in words is ignored."""

    words: tuple[str, ...] = ()
    id_prefix: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


def read_search(text: str) -> Search:
    """Parse a search. Quotation marks join several words: `"out of office" team=docs`."""
    words: list[str] = []
    metadata: dict[str, str] = {}
    id_prefix: str | None = None
    for token in _TOKEN.findall(text):
        key, equals, value = token.partition("=")
        plain = token.replace('"', "").strip()
        if equals and key and '"' not in key:
            metadata[key] = value.replace('"', "")
        elif _ID.fullmatch(plain) and id_prefix is None:
            id_prefix = plain if plain.startswith("job_") else f"job_{plain}"
        elif plain:
            words.append(plain)
    return Search(tuple(words[:WORDS_MAX]), id_prefix, metadata)
