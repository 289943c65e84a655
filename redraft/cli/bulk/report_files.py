"""Reports and comparisons in the form that a file's name says."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from redraft.reports.formats import COMPARISON_FORMATS, FORMATS, Format
from redraft.reports.tables import ComparisonTables, RunTables

Tables = TypeVar("Tables")

_OTHER_SUFFIXES = {".htm": ".html", ".markdown": ".md", ".junit": ".xml"}


def render_run(tables: RunTables, file: Path) -> str:
    return _format(FORMATS, file).render(tables)


def render_comparison(tables: ComparisonTables, file: Path) -> str:
    return _format(COMPARISON_FORMATS, file).render(tables)


def suffixes() -> list[str]:
    """The ends of files' names that say a form of a report."""
    return [each.suffix for each in FORMATS.values()]


def comparison_suffixes() -> list[str]:
    return [each.suffix for each in COMPARISON_FORMATS.values()]


def _format(formats: Mapping[str, Format[Tables]], file: Path) -> Format[Tables]:
    return next(each for each in formats.values() if each.suffix == suffix_of(file))


def suffix_of(file: Path) -> str:
    """The end of a file's name, in its usual spelling."""
    suffix = file.suffix.lower()
    return _OTHER_SUFFIXES.get(suffix, suffix)
