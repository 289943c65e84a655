"""Rubrics: lists of criteria, and the score that code computes from their results.

A criterion of negative weight describes a fault. An answer passes it if the fault is absent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from redraft.domain.bodies.fields import FilledText, StrictModel, Text, matching
from redraft.domain.checks.any_check import CHECK_KINDS, Check, json_example, run_check
from redraft.domain.checks.check_results import Asker, CheckResult, ask_nobody
from redraft.domain.checks.descriptions import describe_check
from redraft.domain.checks.shorthand import misread_check
from redraft.domain.evaluation.scores import meets
from redraft.errors import FieldError

CRITERIA_MAX = 50
SCALE_TOP = 5
# The lowest level that passes. 5 would make "good, with a small gap" a failure.
SCALE_PASS = 4
# With these words before it, the text of a fault becomes the statement that must hold
FAULT_ABSENT = "it must not be true that: "

CriterionKind = Literal["binary", "scale", "check"]
_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"


CriterionId = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{_ID}$"}),
    matching(_ID, "an id begins with a letter or digit and holds at most 64 letters, digits, '.', '_' and '-'"),
]
Level = Literal["0", "1", "2", "3", "4", "5"]


def _shape_of(kind: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {"properties": {"kind": {"const": kind}, **properties}, "required": required}


# The validators of `Criterion` enforce these rules. The JSON Schema repeats them, so that clients can check a rubric.
_NULL: dict[str, Any] = {"type": "null"}
_FILLED: dict[str, Any] = {"pattern": r"\S"}
_SHAPES: list[Any] = [
    _shape_of("binary", ["text"], text=_FILLED, check=_NULL, anchors=_NULL),
    _shape_of("scale", ["kind", "text"], text=_FILLED, check=_NULL),
    _shape_of("check", ["kind", "check"], check={"not": _NULL}, anchors=_NULL),
]


class Criterion(StrictModel):
    """One criterion of a rubric: a statement that a model evaluates, or a check that code runs."""

    model_config = ConfigDict(json_schema_extra={"allOf": [{"anyOf": _SHAPES}]})

    id: CriterionId
    text: Text = Field(
        default="", description="A statement that is true of a good answer; only a check may leave it out."
    )
    kind: CriterionKind = "binary"
    weight: float = Field(
        default=1,
        ge=-1000,
        le=1000,
        allow_inf_nan=False,
        description="Negative: the criterion is a fault and lowers the score.",
    )
    required: bool = Field(
        default=False, description="An answer is accepted only if it meets the criterion, regardless of its score."
    )
    hidden: bool = Field(default=False, description="Never shown to the generator.")
    anchors: dict[Level, FilledText] | None = Field(
        default=None, description="For a scale: the meaning of its levels, from 0 to 5."
    )
    check: Check | None = Field(default=None, description="For a check: the condition that code tests.")

    # This runs before the validation of the fields, so that a criterion whose `kind` names a check gets its own
    # message.
    @model_validator(mode="before")
    @classmethod
    def _is_written_as_one(cls, spec: Any) -> Any:
        if not isinstance(spec, dict | cls):
            raise PydanticCustomError("model_type", "each criterion is an object with id and text")
        fields = cast("dict[str, Any]", spec) if isinstance(spec, dict) else {}
        kind = fields.get("kind")
        if kind in CHECK_KINDS:
            check = json_example(kind, fields.get("value"))
            words = f'{kind} is a kind of check, which is written "kind": "check", "check": {check}'
            raise PydanticCustomError("check_misplaced", "{words}", {"words": words, "field": "kind"})
        return cast("Any", spec)

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "check" and self.check is None:
            words = f"a criterion of kind 'check' needs `check`, such as {json_example('max_words', 60)}"
            raise PydanticCustomError("check_misplaced", "{words}", {"words": words, "field": "check"})
        if self.kind != "check" and self.check is not None:
            words = 'only a criterion of kind \'check\' has a `check`: add "kind": "check", or leave `check` out'
            raise PydanticCustomError("check_misplaced", words, {"field": "kind"})
        if self.anchors is not None and self.kind != "scale":
            words = "only a criterion of kind 'scale' has anchors"
            raise PydanticCustomError("anchors_misplaced", words, {"field": "anchors"})
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
    """The result of one criterion.

    Attributes:
        score: the value of the criterion in 0..1; None if the criterion was not evaluated.
        passed: whether the criterion is met, or for a fault, whether the fault is absent; None if the criterion was not
            evaluated.
        evidence: the part of the answer that supports the result.
        gap: the change to make, if there is one.
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
        """The statement that has to hold, for prompts."""
        text = self.text.strip().rstrip(".") or self.id
        return FAULT_ABSENT + text if self.weight < 0 else text


def result_of(criterion: Criterion, value: float | None, *, evidence: str = "", gap: str = "") -> CriterionResult:
    """Return the result of a criterion. `value` is in 0..1, or None if the criterion was not evaluated."""
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
    """Return the statement of a criterion; for a check without a text, a description of the check."""
    words = criterion.text.strip()
    return describe_check(criterion.check) if criterion.check is not None and not words else words


def _is_passed(criterion: Criterion, value: float) -> bool:
    value = 1 - value if criterion.weight < 0 else value
    # A value between 0 and 1 is the median of several verdicts; an even split does not pass.
    return meets(value, SCALE_PASS / SCALE_TOP) if criterion.kind == "scale" else value > 0.5


def misread_checks(rubric: Sequence[Criterion] | None) -> list[FieldError]:
    """Return an error for each statement that is a check, or a misspelled check (`max_wrds=60`)."""
    found = [(index, misread_check(each.text)) for index, each in enumerate(rubric or ()) if each.kind == "binary"]
    return [FieldError(f"/rubric/{index}/text", words, "check_misread") for index, words in found if words]


def evaluated_by_model(rubric: Sequence[Criterion] | None) -> list[Criterion]:
    """Return the criteria that need a model."""
    return [criterion for criterion in rubric or () if criterion.kind != "check"]


def run_checks(
    rubric: Iterable[Criterion], answer: str, *, sources: int = 0, ask: Asker = ask_nobody
) -> list[CriterionResult]:
    """Run the checks of a rubric. `sources` is the number of sources that the answer can cite.

    Raises only the errors of `ask`, which asks the checks outside of Redraft.
    """
    checks = [(criterion, criterion.check) for criterion in rubric if criterion.check is not None]
    return [_result_of_check(each, run_check(check, answer, sources=sources, ask=ask)) for each, check in checks]


def _result_of_check(criterion: Criterion, found: CheckResult) -> CriterionResult:
    result = result_of(criterion, float(found.passed))
    if found.score is not None:
        # The check itself decides whether its score passes, so `passed` keeps the value above
        result = replace(result, score=found.score)
    if criterion.weight < 0:
        # For a fault, the check's own message would ask for the opposite change.
        wanted = "The fault is absent" if result.passed else "Change the answer until this is not true any more"
        message = f"{wanted}: {statement_of(criterion)}"
    else:
        message = found.message
    return replace(result, **{"evidence" if result.passed else "gap": message})


def by_id(results: Iterable[CriterionResult]) -> Mapping[str, CriterionResult]:
    return {result.id: result for result in results}
