"""Renders reports and comparisons in the format that a file's suffix names."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from redraft.reports.formats import Format

Tables = TypeVar("Tables")

_OTHER_SUFFIXES = {".htm": ".html", ".markdown": ".md", ".junit": ".xml"}


def render(formats: Mapping[str, Format[Tables]], tables: Tables, file: Path) -> str:
    """The report in the format that the file's name says; `suffixes` has been checked before."""
    return next(each for each in formats.values() if each.suffix == suffix_of(file)).render(tables)


def suffixes(formats: Mapping[str, Format[Tables]]) -> list[str]:
    """The ends of file names that name a format."""
    return [each.suffix for each in formats.values()]


def suffix_of(file: Path) -> str:
    """A file's suffix in its usual spelling."""
    suffix = file.suffix.lower()
    return _OTHER_SUFFIXES.get(suffix, suffix)
