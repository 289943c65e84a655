"""A check of any kind, and the function that runs it. A check is a criterion that code evaluates without a model.

The modules in `kinds/` define the kinds. Each kind is a pydantic class with fields and a method `run`.
"""

from difflib import get_close_matches
from typing import Annotated, Any, cast, get_args

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from redraft.domain.bodies.fields import StrictModel
from redraft.domain.checks.check_results import Asker, CheckedAnswer, CheckResult, ask_nobody
from redraft.domain.checks.kinds.content_checks import ContentCheck
from redraft.domain.checks.kinds.outside_checks import OutsideCheck
from redraft.domain.checks.kinds.size_checks import COUNT_MAX, SizeCheck
from redraft.domain.checks.kinds.text_checks import TextCheck
from redraft.domain.checks.measures import normal
from redraft.domain.text.cleaning import clean

_Any = ContentCheck | OutsideCheck | SizeCheck | TextCheck
_CLASSES: dict[str, type[StrictModel]] = {
    kind: each for each in get_args(_Any) for kind in get_args(each.model_fields["kind"].annotation)
}
CHECK_KINDS = tuple(sorted(_CLASSES))
KINDS_WITHOUT_VALUE = frozenset(kind for kind, each in _CLASSES.items() if set(each.model_fields) == {"kind"})
_ECHOED_CHARS = 40


def _names_a_kind(spec: Any) -> Any:
    """Raise a validation error if a value is no check or has an unknown kind."""
    # Without this validator, pydantic's own message would repeat the input.
    if isinstance(spec, StrictModel):
        return spec
    if not isinstance(spec, dict):
        words = f"is an object, such as {json_example('max_words', 60)}"
        raise PydanticCustomError("model_type", "{words}", {"words": words})
    kind = cast("dict[str, Any]", spec).get("kind")
    if kind in CHECK_KINDS:
        return cast("Any", spec)
    facts = {"words": f"{_unknown(kind)}one of {', '.join(CHECK_KINDS)}", "field": "kind"}
    raise PydanticCustomError("unknown_check", "{words}", facts)


def _unknown(kind: Any) -> str:
    if not isinstance(kind, str) or not kind.strip():
        return "needs a `kind`, "
    shown = ascii(kind[:_ECHOED_CHARS]) + ("…" if len(kind) > _ECHOED_CHARS else "")
    near = get_close_matches(kind[:_ECHOED_CHARS].lower().replace("-", "_"), CHECK_KINDS, 1)
    guess = f" (did you mean {near[0]}?)" if near else ""
    return f"there is no check {shown}{guess}; needs "


def json_example(kind: str, value: Any = None) -> str:
    """Return a check of this kind as JSON, for messages. It contains `value` only if `value` is a plain number."""
    if kind in KINDS_WITHOUT_VALUE:
        return f'{{"kind": "{kind}"}}'
    is_plain = type(value) is int and 0 <= value <= COUNT_MAX
    shown = f'"value": {value}' if is_plain else "…"
    return f'{{"kind": "{kind}", {shown}}}'


Check = Annotated[_Any, Field(discriminator="kind"), BeforeValidator(_names_a_kind)]


def run_check(check: Check, answer: str, *, sources: int = 0, ask: Asker = ask_nobody) -> CheckResult:
    """Run a check on an answer. Raises only the errors of `ask`, which asks the checks outside of Redraft.

    `sources` is the number of sources that the answer can cite.
    """
    answer = clean(answer)
    return check.run(CheckedAnswer(answer, normal(answer), sources, ask))
