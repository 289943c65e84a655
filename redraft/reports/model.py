"""The content of a report in one order, without a format: text, Markdown and HTML render the same model."""

from collections.abc import Sequence
from dataclasses import dataclass

from redraft.domain.bulk.gates import GateResult


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells.

    Attributes:
        numeric: all columns but the first are figures.
    """

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: bool = True

    @property
    def is_wide(self) -> bool:
        """Whether the table needs the whole width of a page, as tables of words do."""
        return not self.numeric


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences, then tables; `key` names it for whoever has a picture to put beside it."""

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
    """A whole report.

    Attributes:
        facts: names and values.
        notes: missing data and caveats, as sentences.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]
    gates: Sequence[GateResult]
    notes: tuple[str, ...]
    sections: tuple[Section, ...]


GATE_NAMES = {"min_pass_rate": "Pass rate", "fail_on_regression": "No regression"}
