"""Builds the rubric of a row. By default, the generator does not see the criteria, as in the source."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from redraft.domain.evaluation.rubrics import CRITERIA_MAX, Criterion
from redraft.importing.outcomes import name_of, unused
from redraft.importing.texts import NotCarried

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$/]")
_ID_CHARS = 56


@dataclass(frozen=True, slots=True)
class Part:
    """A criterion before it is part of a rubric.

    Attributes:
        fields: the fields of a criterion, without id, weight and `required`.
        is_fault: the criterion must not be met.
    """

    name: str
    fields: Mapping[str, Any]
    weight: float = 1
    is_fault: bool = False


def check(kind: str, value: Any = None, **further: Any) -> dict[str, Any]:
    """Return the fields of a check. Raises NotCarried if Redraft cannot use the check."""
    spec = {"kind": kind, **({} if value is None else {"value": value}), **further}
    return _usable({"kind": "check", "check": spec})


def binary(text: str) -> dict[str, Any]:
    return _usable({"kind": "binary", "text": text})


def scale(text: str, low: str, mark: str, top: str) -> dict[str, Any]:
    """Return a scale. Level 4 is the lowest that passes, and means `mark`: the source's pass threshold in words."""
    anchors = {"0": low, "3": f"nearly {mark}", "4": mark, "5": top}
    return _usable({"kind": "scale", "text": text, "anchors": anchors})


def escaped(text: str) -> str:
    """Return a pattern that matches a text literally, in the dialect of JSON Schema."""
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


def all_required(parts: Sequence[Part], *, is_hidden: bool) -> dict[str, Any]:
    """Return the fields of a row whose answer passes if each part with a weight passes.

    Raises NotCarried if nothing could score above 0.
    """
    if not any(part.weight > 0 and not part.is_fault for part in parts):
        raise NotCarried("a rubric needs a criterion that can be met")
    rubric = [
        {
            **part.fields,
            "weight": -1 if part.is_fault else part.weight,
            "required": part.weight > 0,
            "hidden": is_hidden,
        }
        for part in parts
    ]
    is_graded = any(part.fields["kind"] == "scale" for part in parts)
    # A scale passes at 0.8, so a threshold of 1 would reject its answer. With 0, only `required` decides
    return {"rubric": _named(rubric, parts), "score_threshold": 0.0 if is_graded else 1.0}


def weighted(parts: Sequence[Part], threshold: float, *, is_hidden: bool) -> dict[str, Any]:
    """Return the fields of a row whose answer passes if its weighted score reaches the threshold.

    Raises NotCarried if the parts or the threshold do not allow this.
    """
    # A fault lowers the score in Redraft, but its absence raises the score in the source
    if any(part.is_fault for part in parts):
        raise NotCarried("a criterion that must not be met has another score with a threshold")
    # A weighted score needs a positive sum of weights
    if any(part.weight < 0 for part in parts) or not any(part.weight > 0 for part in parts):
        raise NotCarried("the weights must be 0 or more, and one of them more")
    if not 0 <= threshold <= 1:
        raise NotCarried(f"the threshold {threshold:g} is not from 0 to 1")
    rubric = [{**_linear(part.fields), "weight": part.weight, "hidden": is_hidden} for part in parts]
    return {"rubric": _named(rubric, parts), "score_threshold": threshold}


def _linear(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scale without the anchors 3 and 4, because here the level itself counts in the score."""
    anchors = {level: words for level, words in fields.get("anchors", {}).items() if level in ("0", "5")}
    return {**fields, **({"anchors": anchors} if anchors else {})}


def _named(rubric: list[dict[str, Any]], parts: Sequence[Part]) -> list[dict[str, Any]]:
    if len(rubric) > CRITERIA_MAX:
        raise NotCarried(f"there are {len(rubric)} criteria, at most {CRITERIA_MAX} are possible")
    used: set[str] = set()
    for criterion, part in zip(rubric, parts, strict=True):
        found = unused(name_of(part.name, "criterion")[:_ID_CHARS], used)
        used.add(found)
        criterion["id"] = found
    return [{"id": criterion.pop("id"), **criterion} for criterion in rubric]


def _usable(fields: dict[str, Any]) -> dict[str, Any]:
    # The real id is known only when all criteria of the rubric are known
    try:
        Criterion.model_validate({"id": "any", **fields})
    except ValidationError as error:
        raise NotCarried(f"Redraft cannot use it: {error.errors()[0]['msg']}") from error
    return fields
