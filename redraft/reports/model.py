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
class Passage:
    """A text of several lines. `note` says that the text is cut; it is empty for a whole text."""

    name: str
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class ShownAttempt:
    """An answer with its verdict. `gaps` are the criteria that it does not meet."""

    title: str
    answer: Passage
    reasoning: Passage | None
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownExample:
    """A row with its question, and one or two of its answers to show side by side."""

    name: str
    detail: str
    question: Passage
    attempts: tuple[ShownAttempt, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Sentences, examples and tables. The HTML format finds the pictures of a section by its `key`."""

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    examples: tuple[ShownExample, ...] = ()


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
