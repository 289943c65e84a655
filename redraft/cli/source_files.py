"""Reads sources from files. A text file is one source; each chunk in a JSON file is one source."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import typer

from redraft.cli import output
from redraft.cli.files import STDIN, name_of, read_text

_OPTION = "--source"
_CHUNKS = frozenset({".jsonl", ".ndjson", ".json"})
# In other files, such as scripts, `#` begins a comment, not a heading
_HEADED = frozenset({"", ".md", ".markdown", ".txt"})
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(\S.*)$", re.MULTILINE)
# Stdin has no suffix, so its first characters decide whether it is JSON
_PIPED_LIST = re.compile(r"\s*(?:\{|\[\s*\{)")
# A `#` in a code block does not begin a heading
_FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
_BREAKS = (re.compile(r"\n[ \t]*\n\s*"), re.compile(r"\n"), re.compile(r"\s+"))
_TITLE_CHARS = 300
_SHOWN_MAX = 12

Chunk = dict[str, Any]


def read_sources(paths: Sequence[str] | None) -> list[Chunk] | None:
    """Return the sources in all files, in order, and print their numbers on stderr. Without files, return None."""
    from redraft.domain.jobs.requests import MAX_SOURCES

    if not paths:
        return None
    if list(paths).count(STDIN) > 1:
        raise _wrong("stdin can be read only once: give '-' once.")
    found: list[Chunk] = []
    for path in paths:
        found += _sources_in(path)
        if len(found) > MAX_SOURCES:
            words = f"the files up to {path} contain {len(found):,} sources; a job has at most {MAX_SOURCES}."
            raise _wrong(f"{words} Omit less relevant sources, or merge several texts into one file.")
    for number, chunk in enumerate(found[:_SHOWN_MAX], 1):
        output.say(f"Source {number}: {output.one_line(title_of(chunk), 100)}", "dim")
    if len(found) > _SHOWN_MAX:
        output.say(f"Sources {_SHOWN_MAX + 1} to {len(found)} are in the order of the files.", "dim")
    return found


def _sources_in(path: str) -> list[Chunk]:
    text = read_text(path, _OPTION)
    if not text.strip():
        raise _wrong(f"{name_of(path)} is empty.")
    suffix = "" if path == STDIN else Path(path).suffix.lower()
    is_list = suffix in _CHUNKS or (path == STDIN and _PIPED_LIST.match(text))
    found = _chunks(path, text) if is_list else _texts(path, text, suffix)
    return [_checked(place, chunk) for place, chunk in found]


def _chunks(path: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield the chunks in a JSON list or in JSON lines, each with its place in the file."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines(path, text)
        return
    # A file of JSON lines with only one line is one JSON value
    entries = cast("list[Any]", whole) if isinstance(whole, list) else [whole]
    if not entries:
        raise _wrong(f"{name_of(path)} contains an empty list.")
    for number, entry in enumerate(entries, 1):
        yield (f"{name_of(path)}, entry {number}", entry)


def _lines(path: str, text: str) -> Iterator[tuple[str, Any]]:
    # `splitlines` would also split at U+2028 and similar characters, which JSON strings may contain
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{name_of(path)}, line {number}"
        try:
            if line.strip():
                yield place, json.loads(line)
        except (ValueError, RecursionError) as error:
            words = 'Write one JSON object per line, {"content": "…"}, or a JSON list of such objects.'
            raise _wrong(f"{place}, is not JSON: {error}. {words}") from error


def _texts(path: str, text: str, suffix: str) -> Iterator[tuple[str, Chunk]]:
    """Yield a text as one source, or as several sources if it is too long for one."""
    from redraft.domain.bodies.fields import MAX_TEXT

    name = "stdin" if path == STDIN else Path(path).name
    heading = _HEADING.search(_FENCED.sub("", text)) if suffix in _HEADED else None
    title = heading[1].rstrip("# \t")[:_TITLE_CHARS] if heading else ""
    about = {"title": title or name, "document_id": name}
    if len(text) <= MAX_TEXT:
        yield name_of(path), {"content": text, **about}
        return
    parts = list(_parts(text, MAX_TEXT))
    words = f"{name_of(path)} has {len(text):,} characters; a source has at most {MAX_TEXT:,}"
    output.say(f"Note: {words}. It is split at paragraphs into {len(parts)} sources.", "yellow")
    for number, part in enumerate(parts, 1):
        yield (name_of(path), {"content": part, **about, "chunk_id": f"{name}#{number}"})


def _parts(text: str, most: int) -> Iterator[str]:
    """Split a text at paragraphs, else at lines, else at words, else anywhere."""
    start = 0
    while len(text) - start > most:
        end = _cut(text, start, start + most)
        if text[start:end].strip():
            yield text[start:end].rstrip()
        start = end
    if text[start:].strip():
        yield text[start:]


def _cut(text: str, start: int, end: int) -> int:
    """Return the end of the last paragraph, line or word in the second half of a piece, or the end of the piece."""
    # A break in the first half would make a piece needlessly short
    middle = (start + end) // 2
    for kind in _BREAKS:
        places = [found.end() for found in kind.finditer(text, middle, end)]
        if places:
            return places[-1]
    return end


def _checked(place: str, chunk: Any) -> Chunk:
    """Validate a chunk as a source of a request. Raises typer.BadParameter if it is not valid."""
    from pydantic import ValidationError

    from redraft.domain.bodies.fields import MAX_TEXT
    from redraft.domain.bodies.validation_errors import message_of, pointer_of
    from redraft.domain.jobs.requests import Source

    try:
        Source.model_validate(chunk)
    except ValidationError as error:
        field_error = error.errors(include_url=False, include_input=False)[0]
        if field_error["type"] == "string_too_long" and field_error["loc"] == ("content",):
            length = f"its content has {len(chunk['content']):,} characters; a source has at most {MAX_TEXT:,}"
            raise _wrong(f"{place}: {length}. Split it into several chunks.") from error
        where = pointer_of(field_error, chunk).strip("/")
        words = (
            f"{where}: {message_of(field_error)}"
            if where
            else f"{message_of(field_error)} and not a JSON object with `content`"
        )
        raise _wrong(f"{place}, is not a chunk: {words}.") from error
    return cast("Chunk", chunk)


def title_of(source: Chunk) -> str:
    named = (source.get(name) for name in ("title", "document_id", "chunk_id"))
    return next((name for name in named if name and name.strip()), None) or output.one_line(source["content"], 80)


def _wrong(words: str) -> typer.BadParameter:
    return typer.BadParameter(words, param_hint=_OPTION)
