"""Formats evaluations as lines: criteria with evidence or gap, suggestions, disagreement of a panel."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from redraft.cli import output
from redraft.domain.bulk.phrases import format_score

Line = tuple[str, str]
"""A text and its rich style."""

Facts = Mapping[str, Any]

MET, NOT_MET, REGRESSED, NOT_EVALUATED = "met", "not met", "regressed", "not evaluated"
SIGNS = {MET: ("✓", "green"), NOT_MET: ("✗", "red"), REGRESSED: ("↓", "bold red"), NOT_EVALUATED: ("·", "dim")}

# A smaller difference would be shown as 0.00, because scores are shown with two decimals
_APART_MIN = 0.005
_SCALE_TOP = 5
_CHARS_MAX = 4000


def has_signs(console: Console) -> bool:
    """Whether a console shows signs and colours. Other consoles get words instead of signs."""
    is_utf = console.encoding.lower().replace("-", "") == "utf8"
    return console.is_terminal and is_utf and console.color_system is not None and not console.no_color


def state_of(passed: bool | None, *, regressed: bool = False) -> str:  # noqa: FBT001 - three states, not a flag
    if passed is None:
        return NOT_EVALUATED
    return MET if passed else REGRESSED if regressed else NOT_MET


def level_of(kind: str | None, score: float | None) -> str:
    """Return the level of a scale after a space, or an empty text for other criteria."""
    return f" {score * _SCALE_TOP:.3g}/{_SCALE_TOP}" if kind == "scale" and score is not None else ""


def brief_lines(verdict: Facts) -> Iterator[Line]:
    """Yield an evaluation in short: unmet criteria with their gaps, and the ids of met criteria."""
    criteria: Sequence[Facts] = verdict.get("criteria") or ()
    for criterion in criteria:
        if not criterion["passed"]:
            yield f"  {_criterion_line(criterion)}", ""
    if met := [criterion["id"] for criterion in criteria if criterion["passed"]]:
        yield f"  met: {output.one_line(', '.join(met))}", ""
    yield from _words_of(verdict)


def whole_lines(verdict: Facts) -> Iterator[Line]:
    """Yield an evaluation in full: every criterion with its evidence or gap."""
    for criterion in verdict.get("criteria") or ():
        yield f"  {_criterion_line(criterion)}", ""
    yield from _words_of(verdict, _CHARS_MAX)
    for each in verdict.get("judges") or ():
        score = "no verdict" if each["score"] is None else format_score(each["score"])
        yield f"  {each['model']}, call {each['sample'] + 1}: {score}", "dim"


def _words_of(verdict: Facts, chars: int = 600) -> Iterator[Line]:
    reasoning: str = verdict.get("evaluation_reasoning") or ""
    suggestions: Sequence[str] = verdict.get("improvement_suggestions") or ()
    if any(reasoning.startswith(f"{criterion['id']}: ") for criterion in verdict.get("criteria") or ()):
        # The first suggestions repeat the gaps of criteria; the following suggestions concern the sources
        gaps = sum(each["passed"] is False and not each["hidden"] for each in verdict["criteria"])
        suggestions = suggestions[gaps:]
    elif reason := output.one_line(reasoning, chars):
        yield f"  {reason}", ""
    for suggestion in suggestions:
        yield f"  - {output.one_line(suggestion, chars)}", ""
    apart = verdict.get("disagreement")
    if apart is not None and apart >= _APART_MIN:
        yield f"  the scores of the evaluators differ by {format_score(apart)}", "yellow"


def _criterion_line(criterion: Facts) -> str:
    mark = " (required)" if criterion["required"] else ""
    mark += level_of(criterion.get("kind"), criterion.get("score"))
    found = criterion["evidence"] if criterion["passed"] else criterion["gap"] or criterion["text"]
    words = output.one_line(found)
    return f"{state_of(criterion['passed'])}: {criterion['id']}{mark}" + (f" - {words}" if words else "")
