"""From the columns of one row to the fields of a request, before anything is validated."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from redraft.datasets.columns import Columns, ambiguity, listed, pointer_of, shown
from redraft.datasets.fields import OPEN, kind_of, read_cell
from redraft.errors import FieldError

CUSTOM_ID_MAX = 256
# A row with an empty answer column is evaluated, never generated: a generation would cost money unasked.
_KEPT_EMPTY = ("answer", "vars")


class Draft:
    """The parts of a row that were read so far.

    Attributes:
        fields: of a request, nested as there.
        given: the columns as they were, for what cannot be told otherwise.
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
        """All that the row says, as one object; what it does not say is left out."""
        own = {
            "custom_id": self.custom_id,
            "human_score": self.human_score,
            "human_pass": self.human_pass,
            "vars": self.vars or None,
            "unused": self.unused or None,
        }
        return {**self.fields, **{name: value for name, value in own.items() if value is not None}}

    def unstorable(self, text: str) -> list[FieldError]:
        """The columns whose texts no database takes.

        Args:
            text: the row's canonical JSON.
        """
        is_text = text.isascii() or _is_encodable(text)
        if is_text and "\\u0000" not in text:
            return []
        return [
            FieldError("", f"Column {shown(column)} {fault}.", "invalid_text")
            for column, value in self.given
            if (fault := _fault_within([column, value]))
        ]

    def fill(self, target: str, column: str, value: Any) -> None:
        """Put a value where it belongs; a field that is filled already is a field error."""
        before = self._filled.setdefault(target, column)
        if before != column:
            self.errors.append(ambiguity(target, before, column))
            return
        if "." not in target and target not in _SET_APART and not isinstance(value, dict):
            self._put(self.fields, target, target, value)
            return
        head, dot, tail = target.partition(".")
        if target in _SETTERS:
            _SETTERS[target](self, value)
        elif head == "vars":
            self._merge(self.vars, target, {tail: value} if dot else value)
        else:
            names = (head, tail) if head in OPEN else tuple(target.split("."))
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
        text = str(value).strip() if _is_id(value) else ""
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
_SET_APART = frozenset({*_SETTERS, "vars"})


def assemble(pairs: Iterable[tuple[str, Any]], columns: Columns, *, is_table: bool) -> Draft:
    """What the columns of a row say. Nothing given (null, an empty cell) leaves a field to the run's defaults.

    Args:
        pairs: columns with their values.
        columns: what they mean.
        is_table: whether the values are cells, whose texts stand for numbers and JSON as well.
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
    """Of a row that would be the same request whatever it says."""
    words = f"No column fills a field; there are: {listed(list(unused))}. Rename or map one, as in instruct=question."
    wrapped = next((name for name, value in unused.items() if _are_rows(value)), None)
    if wrapped is not None:
        words = f"The row is an object around the rows: send the array that stands under {shown(wrapped)} alone."
    return FieldError("", words, "no_known_field")


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in cast("list[Any]", value))


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


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _nested(names: list[str], value: Any) -> dict[str, Any]:
    for name in reversed(names):
        value = {name: value}
    return value


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _fault_within(value: Any) -> str | None:
    if isinstance(value, str):
        if "\x00" in value:
            return "holds a NUL character; remove it"
        return None if _is_encodable(value) else "holds half a surrogate pair; it is no text"
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = (each for pair in cast("Mapping[str, Any]", value).items() for each in pair)
    elif isinstance(value, list):
        parts = cast("list[Any]", value)
    return next(filter(None, map(_fault_within, parts)), None)
