"""An evaluator's reply becomes a verdict, or a plain statement of why it is none.

Two parts: `find_object` finds the one JSON object in a reply, whatever surrounds it; `parse_verdict` maps it
to the verdict of the profile `criteria`. No text raises, no score is invented, and what a message says is
for people and the record: it never goes back to a generator.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from redraft.domain.scores import ScoreError, read_score
from redraft.domain.texts import clean, clean_json, fold, preview

UnusableKind = Literal[
    "no_verdict", "invalid_json", "missing_score", "invalid_score", "ambiguous", "truncated"
]

LENGTH_STOPS = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"})

# json-repair takes quadratic time on hostile text: beyond this it is not asked.
REPAIR_CHARS_MAX = 30_000
REPAIR_MARKS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the evaluator said, profile `criteria`.

    Attributes:
        meets_criteria: what the model said, None when it did not; it never decides.
        repaired: the reply was not valid JSON and had to be mended.
    """

    score: float
    meets_criteria: bool | None
    evaluation_reasoning: str
    improvement_suggestions: tuple[str, ...]
    repaired: bool


@dataclass(frozen=True, slots=True)
class Unusable:
    """A reply without a verdict: a kind for programs, a message for people."""

    kind: UnusableKind
    message: str


@dataclass(frozen=True, slots=True)
class Found:
    """The one object of a reply.

    Attributes:
        value: the object, its texts not yet cleaned.
        repaired: it was not valid JSON.
        repeated: the keys it names more than once with different values.
    """

    value: Mapping[str, Any]
    repaired: bool
    repeated: frozenset[str]


def find_object(
    text: str, finish_reason: str | None, is_verdict: Callable[[Mapping[str, Any]], bool]
) -> Found | Unusable:
    """Find the one object in a reply that `is_verdict` recognises.

    The whole text as JSON comes first, untouched; else thinking text is dropped, and fenced JSON goes before
    bare objects. JSON that is not valid is mended last, and not at all after a length stop.
    """
    whole = _load(text.strip().removeprefix("\ufeff"))
    if isinstance(whole, _Object):
        return _found(whole) if is_verdict(whole) else _without_verdict(text)
    # The objects of a list are looked at one by one, like those in prose.
    if whole is not None and not isinstance(whole, list):
        return Unusable("no_verdict", f"The reply is JSON but not an object: {_excerpt(text)}")
    scan = _scan(text)
    cut = (finish_reason or "").lower() in LENGTH_STOPS
    objects = [_read_span(span) for span in scan.spans] if cut else _read_or_repair(scan.spans)
    verdicts = [item for item in objects if item.value is not None and is_verdict(item.value)]
