"""Reads definitions and exports of OpenAI's Evals API, and recognises the type of each object by its fields."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redraft.importing.outcomes import Findings
from redraft.importing.reading import ROWS_MAX, json_lines, json_of, read_text
from redraft.importing.texts import NotCarried
from redraft.importing.values import Fields, as_list, as_object

_GRADERS = ("string_check", "text_similarity", "score_model", "label_model", "python", "multi")


@dataclass(slots=True)
class Given:
    """The objects in the files of one import, each with its place."""

    evals: list[tuple[str, Fields]] = field(default_factory=list[tuple[str, Fields]])
    runs: list[tuple[str, Fields]] = field(default_factory=list[tuple[str, Fields]])
    graders: list[tuple[str, Fields]] = field(default_factory=list[tuple[str, Fields]])
    items: list[tuple[str, Fields]] = field(default_factory=list[tuple[str, Fields]])
    results: list[tuple[str, Fields]] = field(default_factory=list[tuple[str, Fields]])


def read_files(paths: list[Path], findings: Findings) -> Given:
    """Read the files. An object of an unknown type is left out. Raises NotCarried if a file cannot be read."""
    given = Given()
    for path in paths:
        for place, value in _values_in(path):
            _sort(given, place, value, findings)
        if len(given.items) + len(given.results) > ROWS_MAX:
            raise NotCarried(f"the files have more than {ROWS_MAX:,} items")
    return given


def _values_in(path: Path) -> Iterator[tuple[str, Any]]:
    text = read_text(path)
    # The content decides, because a file of JSON lines may have any name
    try:
        whole = json_of(text, path.name)
    except NotCarried:
        if not _is_lines(text):
            raise
        yield from ((f"{path.name}, line {number}", value) for number, value in json_lines(text, path.name))
        return
    yield from _unpacked(path.name, whole)


def _is_lines(text: str) -> bool:
    """Whether the first line is JSON, and other lines follow."""
    first, _, rest = text.strip().partition("\n")
    try:
        json_of(first, "the line")
    except NotCarried:
        return False
    return bool(rest)


def _unpacked(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entries of an array, or of a page of a list."""
    rows = as_object(value).get("data", value)
    if not isinstance(rows, list):
        yield place, value
    for number, each in enumerate(as_list(rows), 1):
        yield f"{place}, entry {number}", each


def _sort(given: Given, place: str, value: Any, findings: Findings) -> None:
    fields = as_object(value)
    if isinstance(fields.get("testing_criteria"), list) and "data_source" not in fields:
        given.evals.append((place, fields))
    elif isinstance(fields.get("data_source"), dict):
        given.runs.append((place, fields))
    elif isinstance(fields.get("datasource_item"), dict):
        given.results.append((place, fields))
    elif isinstance(fields.get("item"), dict):
        given.items.append((place, fields))
    elif fields.get("type") in _GRADERS:
        given.graders.append((place, fields))
    else:
        what = f"an object with {', '.join(map(str, list(fields)[:5]))}" if fields else "a value that is no object"
        findings.leave_out(place, what, "it is no eval, run, grader, item or output item of the Evals API")
