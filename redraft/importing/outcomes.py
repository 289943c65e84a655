"""The outcome of an import: datasets, settings of runs, and the parts that could not be carried over."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from redraft.datasets.lines import fault_in

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_NAME_CHARS = 60
REPORT = "import.json"
GIVEN_ANSWER = "it is dropped, because the row has an answer, so no generator is called"


@dataclass(slots=True)
class Finding:
    """A part of the source that is not carried over, or is carried over in another form.

    Attributes:
        where: the first place.
        places: the number of places with the same part and reason.
    """

    where: str
    what: str
    why: str
    places: int = 1


class Findings:
    """Collects findings. Equal findings are stored once with their number, because each test repeats the defaults."""

    def __init__(self) -> None:
        self._left_out: dict[tuple[str, str], Finding] = {}
        self._changed: dict[tuple[str, str], Finding] = {}

    def leave_out(self, where: str, what: str, why: str) -> None:
        _count(self._left_out, where, what, why)

    def change(self, where: str, what: str, why: str) -> None:
        _count(self._changed, where, what, why)

    @property
    def left_out(self) -> list[Finding]:
        return list(self._left_out.values())

    @property
    def changed(self) -> list[Finding]:
        return list(self._changed.values())


def _count(into: dict[tuple[str, str], Finding], where: str, what: str, why: str) -> None:
    found = into.setdefault((what, why), Finding(where, what, why, 0))
    found.places += 1


@dataclass(slots=True)
class Imported:
    """The result of an import.

    Attributes:
        datasets: rows by the name of their dataset.
        settings: request fields by the name of their file, for `redraft eval --defaults`.
        runs: pairs of a dataset and its settings.
        repeat: the number of jobs per row.
    """

    findings: Findings
    datasets: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    settings: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    runs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    repeat: int = 1

    def add_dataset(self, name: str, rows: list[dict[str, Any]]) -> str | None:
        """Add the rows that a dataset can store. Return the name of the dataset, or None if no row can be stored."""
        kept = [row for row in rows if is_storable(row)]
        for row in rows:
            if not is_storable(row):
                self.findings.leave_out(
                    f"dataset {name}", f"row {row['custom_id']}", "its text has NUL or half of a surrogate pair"
                )
        return _add(self.datasets, name, kept) if kept else None

    def add_settings(self, name: str, fields: dict[str, Any]) -> str:
        return _add(self.settings, name, fields)

    def as_json(self) -> dict[str, Any]:
        """Return the report of the import, without the rows."""
        return {
            "datasets": [{"file": dataset_file(name), "rows": len(rows)} for name, rows in self.datasets.items()],
            "settings": [settings_file(name) for name in self.settings],
            "runs": [{"dataset": dataset_file(rows), "settings": settings_file(name)} for rows, name in self.runs],
            "left_out": [asdict(each) for each in self.findings.left_out],
            "changed": [asdict(each) for each in self.findings.changed],
        }


def dataset_file(name: str) -> str:
    return f"{name}.jsonl"


def settings_file(name: str) -> str:
    return f"{name}.settings.json"


def name_of(text: str, otherwise: str) -> str:
    """Return a name for a file or an id, made from a text of any kind."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:_NAME_CHARS].strip("-") or otherwise


def unused(name: str, used: Mapping[str, Any] | set[str]) -> str:
    """Return the name, with a number at its end if the name is already used."""
    number, found = 1, name
    while found in used:
        number += 1
        found = f"{name}-{number}"
    return found


def _add(into: dict[str, Any], name: str, value: Any) -> str:
    # Datasets or settings with the same name and equal content share one file
    if name in into and into[name] == value:
        return name
    found = unused(name, into)
    into[found] = value
    return found


def is_storable(value: Any) -> bool:
    """Whether all texts of a value can be stored: they have no NUL, and no lone surrogate."""
    text = json.dumps(value, ensure_ascii=False)
    # JSON writes a NUL character as an escape
    return fault_in(text) is None and "\\u0000" not in text


def _json(value: Any) -> str:
    """Return indented JSON. It is ASCII if the value has a text that is no valid Unicode."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return (text if fault_in(text) is None else json.dumps(value, indent=2)) + "\n"


def files_of(imported: Imported) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the name and the lines of each file."""
    for name, rows in imported.datasets.items():
        yield dataset_file(name), (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    for name, fields in imported.settings.items():
        yield settings_file(name), iter([_json(fields)])
    yield REPORT, iter([_json(imported.as_json())])


def commands_of(imported: Imported, folder: Path) -> list[str]:
    """Return a command for each run."""
    repeat = f" --repeat {imported.repeat}" if imported.repeat > 1 else ""
    paths = [
        (_quoted(folder / dataset_file(rows)), _quoted(folder / settings_file(name))) for rows, name in imported.runs
    ]
    return [f"redraft eval {rows} --defaults {settings}{repeat}" for rows, settings in paths]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
