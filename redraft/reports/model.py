"""The content of a report, which text, Markdown and HTML render."""

from collections.abc import Sequence
from dataclasses import dataclass

from redraft.domain.bulk.gates import GateResult


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `numeric`: all columns except the first have figures. Other tables need the whole width of a page."""

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences and tables. The HTML format finds the pictures of a section by its `key`."""

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the main figures: its name, its value, and its interval."""

    name: str
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report. `notes` are sentences about missing data and caveats."""

    title: str
    facts: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]
    gates: Sequence[GateResult]
    notes: tuple[str, ...]
    sections: tuple[Section, ...]


GATE_NAMES = {"min_pass_rate": "Pass rate", "fail_on_regression": "No regression"}
