"""Rubrics: what an answer is judged by, line by line, and the score that code computes from what was found.

A criterion of negative weight describes a fault: the answer passes it when the fault is not there.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from redraft.domain.bodies.fields import FilledText, StrictModel, Text
from redraft.domain.checks.descriptions import describe_check
from redraft.domain.checks.kinds import CHECK_KINDS, Check, run_check, written

CRITERIA_MAX = 50
SCALE_TOP = 5
SCALE_PASS = 4
"""A scale is passed from this level on."""

CriterionKind = Literal["binary", "scale", "check"]
_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"


def _plain_id(text: str) -> str:
    if not re.fullmatch(_ID, text):
        words = "an id begins with a letter or digit and holds at most 64 letters, digits, '.', '_' and '-'"
        raise PydanticCustomError("string_pattern_mismatch", words)
    return text


# For readers of the description: pydantic's own words for a text that does not match would be of no help.
CriterionId = Annotated[str, Field(json_schema_extra={"pattern": f"^{_ID}$"}), AfterValidator(_plain_id)]
Level = Literal["0", "1", "2", "3", "4", "5"]


def _shape_of(kind: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {"properties": {"kind": {"const": kind}, **properties}, "required": required}


_NULL: dict[str, Any] = {"type": "null"}
_FILLED: dict[str, Any] = {"pattern": r"\S"}
_SHAPES: list[Any] = [
    _shape_of("binary", ["text"], text=_FILLED, check=_NULL, anchors=_NULL),
    _shape_of("scale", ["kind", "text"], text=_FILLED, check=_NULL),
    _shape_of("check", ["kind", "check"], check={"not": _NULL}, anchors=_NULL),
]


class Criterion(StrictModel):
    """One line of a rubric: a statement that a model judges, or a check that code does."""

    model_config = ConfigDict(json_schema_extra={"allOf": [{"anyOf": _SHAPES}]})

    id: CriterionId
    text: Text = Field(default="", description="What is true of a good answer; only a check may leave it out.")
    kind: CriterionKind = "binary"
    weight: float = Field(
        default=1, ge=-1000, le=1000, allow_inf_nan=False, description="Negative: a fault, which costs."
    )
    required: bool = Field(default=False, description="Without it no answer is accepted, whatever the score.")
    hidden: bool = Field(default=False, description="Never shown to the generator.")
    anchors: dict[Level, FilledText] | None = Field(
        default=None, description="For a scale: what the levels mean, from 0 to 5."
    )
    check: Check | None = Field(default=None, description="For a check: what code looks for.")

    @model_validator(mode="before")
    @classmethod
    def _is_written_as_one(cls, spec: Any) -> Any:
        if not isinstance(spec, dict | cls):
            raise PydanticCustomError("model_type", "each criterion is an object with id and text")
        fields = cast("dict[str, Any]", spec) if isinstance(spec, dict) else {}
        kind = fields.get("kind")
        if kind in CHECK_KINDS:
            check = written(kind, fields.get("value"))
            words = f'{kind} is a kind of check, which is written "kind": "check", "check": {check}'
            raise PydanticCustomError("check_misplaced", "{words}", {"words": words, "field": "kind"})
        return cast("Any", spec)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "check" and self.check is None:
            words = f"a criterion of kind 'check' needs `check`, such as {written('max_words', 60)}"
            raise PydanticCustomError("check_misplaced", "{words}", {"words": words, "field": "check"})
        if self.kind != "check" and self.check is not None:
            words = 'only a criterion of kind \'check\' has a `check`: add "kind": "check", or leave `check` out'
            raise PydanticCustomError("check_misplaced", words, {"field": "kind"})
        if self.anchors is not None and self.kind != "scale":
            raise PydanticCustomError(
                "anchors_misplaced", "only a criterion of kind 'scale' has anchors", {"field": "anchors"}
            )
        if not self.text.strip() and self.kind != "check":
            words = "needs a text that says what is true of a good answer"
            raise PydanticCustomError("blank", words, {"field": "text"})
        return self


def _is_scorable(rubric: list[Criterion]) -> list[Criterion]:
    ids = [criterion.id for criterion in rubric]
    second = next((index for index, each in enumerate(ids) if each in ids[:index]), None)
    if second is not None:
        facts = {"id": ids[second], "field": (second, "id")}
        raise PydanticCustomError("id_repeated", "the id '{id}' is there already; give each criterion its own", facts)
    if not any(criterion.weight > 0 for criterion in rubric):
        raise PydanticCustomError("no_weight", "needs a criterion of positive weight: nothing could score above 0")
    return rubric


_SOME_WEIGHT: dict[str, Any] = {"contains": {"properties": {"weight": {"exclusiveMinimum": 0}}}}
Rubric = Annotated[
    list[Criterion],
    Field(min_length=1, max_length=CRITERIA_MAX, json_schema_extra=_SOME_WEIGHT),
    AfterValidator(_is_scorable),
]


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """What was found for one criterion.

    Attributes:
        score: the value in 0..1 that goes into the score; None when it was not judged.
        passed: whether it is met; for a fault, whether it is absent. None when it was not judged.
        evidence: what in the answer the verdict rests on.
        gap: what is missing, as one concrete change; empty when nothing is.
    """

    id: str
    text: str
    kind: CriterionKind
    weight: float
    required: bool
    hidden: bool
    score: float | None
    passed: bool | None
    evidence: str = ""
    gap: str = ""

    @property
    def name(self) -> str:
        """What it is called in a prompt: what has to hold, in words."""
        text = self.text.strip().rstrip(".") or self.id
        return f"it must not be true that: {text}" if self.weight < 0 else text


def result_of(criterion: Criterion, value: float | None, *, evidence: str = "", gap: str = "") -> CriterionResult:
    """What a value in 0..1 means for a criterion; None = it was not judged."""
    return CriterionResult(
        id=criterion.id,
        text=statement_of(criterion),
        kind=criterion.kind,
        weight=criterion.weight,
        required=criterion.required,
        hidden=criterion.hidden,
        score=value,
        passed=None if value is None else _is_passed(criterion, value),
        evidence=evidence,
        gap=gap,
    )


def statement_of(criterion: Criterion) -> str:
    """What a criterion says of an answer, in words; of a check without a text what it looks for."""
    words = criterion.text.strip()
    return describe_check(criterion.check) if criterion.check is not None and not words else words


def _is_passed(criterion: Criterion, value: float) -> bool:
    """The middle of several verdicts on a binary criterion needs more than a half."""
    if criterion.kind == "scale":
        bar = SCALE_PASS / SCALE_TOP
        return value <= 1 - bar + 1e-9 if criterion.weight < 0 else value >= bar - 1e-9
    return value < 0.5 if criterion.weight < 0 else value > 0.5


def score_of(results: Iterable[CriterionResult]) -> float:
    """The sum of weight times value over the sum of positive weights, clamped to 0..1; not judged counts as 0."""
    known = list(results)
    gained = sum(result.weight * (result.score or 0.0) for result in known)
    possible = sum(result.weight for result in known if result.weight > 0)
    return min(1.0, max(0.0, gained / possible))


def requirements_met(results: Iterable[CriterionResult]) -> bool:
    """Whether all required criteria are passed; one that was not judged is not."""
    return all(result.passed for result in results if result.required)


def evaluated_by_model(rubric: Sequence[Criterion] | None) -> list[Criterion]:
    """The criteria that a model has to judge."""
    return [criterion for criterion in rubric or () if criterion.kind != "check"]


def run_checks(rubric: Iterable[Criterion], answer: str, *, sources: int = 0) -> list[CriterionResult]:
    """What code finds for the checks of a rubric, given the number of sources."""
    return [_run(criterion, criterion.check, answer, sources) for criterion in rubric if criterion.check is not None]


def _run(criterion: Criterion, check: Check, answer: str, sources: int) -> CriterionResult:
    found = run_check(check, answer, sources=sources)
    result = result_of(criterion, float(found.passed))
    if criterion.weight < 0:
        # What the check would have the writer do is the contrary of what is wanted
        instruction = (
            "As it should be, this is not so" if result.passed else "Change the answer until this is not so any more"
        )
        return replace(result, **{"evidence" if result.passed else "gap": f"{instruction}: {statement_of(criterion)}"})
    return replace(result, **{"evidence" if result.passed else "gap": found.message})


def by_id(results: Iterable[CriterionResult]) -> Mapping[str, CriterionResult]:
    return {result.id: result for result in results}
