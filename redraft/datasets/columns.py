"""Maps the columns of a dataset to request fields: by name, by alias, or by the user's mapping."""

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from redraft.datasets.fields import OPEN, kind_of, kinds
from redraft.errors import FieldError, Invalid

ALIASES = {
    "id": "custom_id",
    "question": "instruct",
    "prompt": "instruct",
    "input": "instruct",
    "expected": "reference",
    "target": "reference",
    "ideal": "reference",
}
# Each JSON row may have new names. Names beyond this number are not counted, so that the memory stays bounded
NAMES_KEPT_MAX = 1000
_ECHOED_CHARS = 100


class Columns:
    """The fields that a dataset's columns fill, and counts of used and unused columns.

    Raises Invalid if the mapping has an unknown field (code `invalid_mapping`).

    Attributes:
        used: the last column that filled each field.
        unused: the number of rows with each column that fills no field.
        blank: the number of rows with an empty column for each field.
    """

    def __init__(self, mapping: Mapping[str, str]) -> None:
        self._mapped: dict[str, list[str]] = {}
        for target, column in mapping.items():
            self._mapped.setdefault(column, []).append(_mappable(target))
        self._taken = frozenset(target for targets in self._mapped.values() for target in targets)
        self._known: dict[str, tuple[str, ...]] = {}
        self.used: dict[str, str] = {}
        self.unused: Counter[str] = Counter()
        self.blank: Counter[str] = Counter()

    def targets_of(self, column: str) -> tuple[str, ...]:
        """Return the dotted names of the fields that a column fills; an unused column fills none."""
        known = self._known.get(column)
        if known is None:
            target = target_named(column)
            own = () if target is None or target in self._taken else (target,)
            known = tuple(self._mapped.get(column, own))
            if len(self._known) < NAMES_KEPT_MAX:
                self._known[column] = known
        return known

    def note(self, column: str, targets: Sequence[str]) -> None:
        if not targets:
            if column in self.unused or len(self.unused) < NAMES_KEPT_MAX:
                self.unused[column] += 1
            return
        for target in targets:
            if target in self.used or len(self.used) < NAMES_KEPT_MAX:
                self.used[target] = column

    def never_seen(self) -> list[str]:
        seen = set(self.used.values())
        return [column for column in self._mapped if column not in seen]

    def check_header(self, header: Sequence[str]) -> None:
        """Check the columns of a table.

        Raises Invalid if two columns fill one field (`ambiguous_columns`), or a mapped column is missing
        (`invalid_mapping`).
        """
        absent = next((column for column in self._mapped if column not in header), None)
        if absent is not None:
            words = f"There is no column {shown(absent)}{guess(absent, header)}. There are: {listed(header)}."
            raise Invalid.at("/mapping", words, "invalid_mapping")
        by_target: dict[str, str] = {}
        for column in header:
            for target in self.targets_of(column):
                if target in by_target:
                    words = ambiguity(target, by_target[target], column).detail
                    raise Invalid(words, code="ambiguous_columns")
                by_target[target] = column


def target_named(column: str) -> str | None:
    """Return the field with the name of a column, or None. Case is ignored, and blanks and hyphens count as `_`."""
    head, dot, tail = column.strip().partition(".")
    if dot and tail and _folded(head) in OPEN:
        return f"{_folded(head)}.{tail}"
    name = _folded(column.strip())
    name = ALIASES.get(name, name)
    return name if name in kinds() else None


def suggestion(column: str) -> str | None:
    """Return a field with a name similar to the column's, or None."""
    # The name is cut, because the comparison takes quadratic time
    near = get_close_matches(_folded(column.strip())[:_ECHOED_CHARS], [*kinds(), *ALIASES], 1, 0.85)
    return near[0] if near else None


def ambiguity(target: str, one: str, other: str) -> FieldError:
    words = f"Columns {shown(one)} and {shown(other)} both mean {target}: map one of them, as in {target}={one},"
    return FieldError(pointer_of(target), f"{words} and the other fills no field.", "ambiguous_columns")


def pointer_of(target: str) -> str:
    head, _, tail = target.partition(".")
    names = [head, tail] if head in OPEN else target.split(".")
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in names if name)


def shown(name: Any) -> str:
    """Return a column name for messages, on one line and shortened."""
    text = str(name)
    return repr(text[:_ECHOED_CHARS] + ("…" if len(text) > _ECHOED_CHARS else ""))


def listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def guess(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name[:_ECHOED_CHARS], known[:NAMES_KEPT_MAX], 1)
    return f" (did you mean {shown(near[0])}?)" if near else ""


def no_field(name: str) -> str:
    """Return the error message for an unknown field, with a similar field if there is one."""
    if name == "kind":
        return (
            "kind is no field: a row that has an answer becomes evaluate_answer, any other generate_answer."
            " Give the answers in a column answer, or name theirs with --map answer=COLUMN."
        )
    return f"There is no field {shown(name)}{guess(name, list(kinds()))}."


def _mappable(target: str) -> str:
    found = target if kind_of(target) else target_named(target)
    if found:
        return found
    words = f"A column cannot fill {shown(target)}{guess(target, list(kinds()))}: there is no such field."
    raise Invalid.at("/mapping", words, "invalid_mapping")


def _folded(name: str) -> str:
    return name.casefold().replace(" ", "_").replace("-", "_")
