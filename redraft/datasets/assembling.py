"""Turns the columns of one row into the fields of a request, before they are validated."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from redraft.datasets.columns import Columns, ambiguity, listed, pointer_of, shown
from redraft.datasets.fields import OPEN, kind_of, read_cell
from redraft.datasets.lines import fault_in
from redraft.errors import FieldError

CUSTOM_ID_MAX = 256
# A row with an empty answer is still an evaluation. As a generation, it would cost money that nobody agreed to
_KEPT_EMPTY = ("answer", "vars")


class Draft:
    """A row whose columns are still being read.

    Attributes:
        fields: the fields of a request, nested like a request.
        vars: the variables of the row's templates.
        unused: the columns that fill no field, with their values.
        given: all columns with their unchanged values.
    """

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.vars: dict[str, Any] = {}
        self.unused: dict[str, Any] = {}
        self.given: list[tuple[str, Any]] = []
        self.errors: list[FieldError] = []
        self.custom_id: str | None = None
        self.human_score: float | None = None
        self.human_pass: bool | None = None
        self._filled: dict[str, str] = {}

    def whole(self) -> dict[str, Any]:
        """Return the whole row as one object, without empty parts."""
        own = {
            "custom_id": self.custom_id,
            "human_score": self.human_score,
            "human_pass": self.human_pass,
            "vars": self.vars or None,
            "unused": self.unused or None,
        }
        return {**self.fields, **{name: value for name, value in own.items() if value is not None}}

    def unstorable(self, text: str) -> list[FieldError]:
        """Return an error for each column whose text the databases cannot store. `text` is the row's canonical JSON."""
        # Nearly all rows can be stored, and one test of the whole row is faster than a test of each value
        if fault_in(text) is None and "\\u0000" not in text:
            return []
        return [
            FieldError("", f"Column {shown(column)} {fault}.", "invalid_text")
            for column, value in self.given
            if (fault := _fault_within([column, value]))
        ]

    def fill(self, target: str, column: str, value: Any) -> None:
        """Set a field, or add an error if another column has set the field."""
        before = self._filled.setdefault(target, column)
        head, dot, tail = target.partition(".")
        if before != column:
            self.errors.append(ambiguity(target, before, column))
        elif target in _SETTERS:
            _SETTERS[target](self, value)
        elif head == "vars":
            self._merge(self.vars, target, {tail: value} if dot else value)
        elif not dot and not isinstance(value, dict):
            self._put(self.fields, target, target, value)
        else:
            names = [head, tail] if head in OPEN else target.split(".")
            self._merge(self.fields, target, _nested([name for name in names if name], value))

    def _merge(self, into: dict[str, Any], target: str, value: Any) -> None:
        if not isinstance(value, dict):
            self.errors.append(FieldError(pointer_of(target), "vars needs an object of names and values.", "dict_type"))
            return
        for name, each in cast("dict[str, Any]", value).items():
            self._put(into, name, target, each)

    def _put(self, into: dict[str, Any], name: str, target: str, value: Any) -> None:
        here = into.get(name)
        if isinstance(here, dict) and isinstance(value, dict):
            self._merge(cast("dict[str, Any]", here), target, value)
        elif name in into:
            words = f"{target} is given twice: as a whole and by part."
            self.errors.append(FieldError(pointer_of(target), words, "ambiguous_columns"))
        else:
            into[name] = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else value

    def set_id(self, value: Any) -> None:
        is_id = isinstance(value, str | int) and not isinstance(value, bool)
        text = str(value).strip() if is_id else ""
        if 0 < len(text) <= CUSTOM_ID_MAX:
            self.custom_id = text
        elif not isinstance(value, str) or text:
            words = f"custom_id needs a text of at most {CUSTOM_ID_MAX} characters, or a whole number."
            self.errors.append(FieldError("/custom_id", words, "invalid_custom_id"))

    def set_score(self, value: Any) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            self.human_score = float(value)
        else:
            self.errors.append(
                FieldError("/human_score", "human_score needs a number from 0 to 1.", "invalid_human_score")
            )

    def set_pass(self, value: Any) -> None:
        if isinstance(value, bool):
            self.human_pass = value
        else:
            self.errors.append(FieldError("/human_pass", "human_pass needs true or false.", "bool_type"))


_SETTERS: dict[str, Callable[[Draft, Any], None]] = {
    "custom_id": Draft.set_id,
    "human_score": Draft.set_score,
    "human_pass": Draft.set_pass,
}


def assemble(pairs: Iterable[tuple[str, Any]], columns: Columns, *, is_table: bool) -> Draft:
    """Read the columns of a row. A null or an empty cell does not set its field, so the run's default applies.

    `is_table`: the values are cells, whose texts are converted to numbers and JSON.
    """
    draft = Draft()
    for column, value in pairs:
        targets = columns.targets_of(column)
        columns.note(column, targets)
        draft.given.append((column, value))
        if not targets and value not in (None, ""):
            draft.unused[column] = value
        for target in targets:
            if value is None or (isinstance(value, str) and not value.strip()):
                columns.blank[target] += 1
            _fill(draft, target, column, value, is_table=is_table)
    if draft.unused and not any(columns.targets_of(column) for column, _ in draft.given):
        draft.errors.append(_nothing_known(draft.unused))
    return draft


def _nothing_known(unused: Mapping[str, Any]) -> FieldError:
    """Return the error of a row without a column that fills a field."""
    # Without this error, all such rows would be the same request
    words = f"No column fills a field; there are: {listed(list(unused))}. Rename or map one, as in instruct=question."
    for name, value in unused.items():
        if isinstance(value, list) and any(isinstance(each, dict) for each in cast("list[Any]", value)):
            words = f"The row is an object around the rows: send the array that stands under {shown(name)} alone."
            break
    return FieldError("", words, "no_known_field")


def _fill(draft: Draft, target: str, column: str, value: Any, *, is_table: bool) -> None:
    head = target.partition(".")[0]
    if value is None or (is_table and value == ""):
        if head not in _KEPT_EMPTY or target == "vars":
            return
        value = ""
    kind = kind_of(target)
    try:
        read = read_cell(value, kind) if is_table and kind else value
    except ValueError as error:
        words = f"{target} {error}." if column == target else f"{target} (column {shown(column)}) {error}."
        draft.errors.append(FieldError(pointer_of(target), words, "invalid_cell"))
    else:
        draft.fill(target, column, read)


def _nested(names: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(names):
        value = {name: value}
    return value


def _fault_within(value: Any) -> str | None:
    if isinstance(value, str):
        if "\x00" in value:
            return "holds a NUL character; remove it"
        return fault_in(value) and "holds half a surrogate pair; it is no text"
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = (each for pair in cast("Mapping[str, Any]", value).items() for each in pair)
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
    return next(filter(None, map(_fault_within, parts)), None)
